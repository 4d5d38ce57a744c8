"""alkstore in memory: one process, nothing on disk; the engine for tests."""

from importlib.metadata import version as _version

from alkstore_mem.database import MemDatabase
from alkstore_mem.store import MemStore, engine_from_url

__all__ = ["MemDatabase", "MemStore", "engine_from_url"]
__version__ = _version("alkstore-mem")
