"""alkstore on SQLite: one host, one file."""

from importlib.metadata import version as _version

from alkstore_sqlite.opts import SqliteOpts
from alkstore_sqlite.prepare import prepare_engine
from alkstore_sqlite.store import SqliteStore, engine_from_url

__all__ = ["SqliteOpts", "SqliteStore", "engine_from_url", "prepare_engine"]
__version__ = _version("alkstore-sqlite")
