"""An engine of alkstore on plain dicts: one process, nothing on disk, an example to copy."""

from dictstore.database import DictDatabase
from dictstore.engine import DictStore, store_from_url

__all__ = ["DictDatabase", "DictStore", "store_from_url"]
