"""Everything that one database holds, moved to another one, on whatever engines they are."""

from alkstore_core.copying.copier import copy_store
from alkstore_core.copying.values import CopyProgress, CopyReport, Moved

__all__ = ["CopyProgress", "CopyReport", "Moved", "copy_store"]
