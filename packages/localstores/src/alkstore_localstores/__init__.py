"""Local stores: a key-value store and a queue in SQLite-compatible files."""

from importlib.metadata import version as _version

from alkstore_localstores.errors import LocalStoreError

__all__ = ["LocalStoreError"]
__version__ = _version("alkstore-localstores")
