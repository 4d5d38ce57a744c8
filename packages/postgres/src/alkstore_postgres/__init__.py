"""alkstore on Postgres: many hosts, one database."""

from importlib.metadata import version as _version

from alkstore_postgres.opts import PostgresOpts
from alkstore_postgres.store import PostgresStore, engine_from_url

__all__ = ["PostgresOpts", "PostgresStore", "engine_from_url"]
__version__ = _version("alkstore-postgres")
