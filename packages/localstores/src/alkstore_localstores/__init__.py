"""Local stores: a key-value store and a queue in SQLite-compatible files."""

from importlib.metadata import version as _version

from alkstore_localstores.errors import LocalStoreError
from alkstore_localstores.kv import KvEntry, KvPage, LocalKv

__all__ = ["KvEntry", "KvPage", "LocalKv", "LocalStoreError"]
__version__ = _version("alkstore-localstores")
