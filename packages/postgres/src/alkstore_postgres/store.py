"""`PostgresStore`: many hosts, one database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine

from alkstore_core import DatabaseError
from alkstore_core.integers import check_class
from alkstore_core.sql.store import SqlStore
from alkstore_postgres.engine import PostgresEngine
from alkstore_postgres.opts import PostgresOpts
from alkstore_postgres.urls import check

if TYPE_CHECKING:
    from alkstore_core import Clock


class PostgresStore(SqlStore):
    """A store in one schema of a Postgres database, shared by any number of hosts.

    It is given a libpq URL (`postgresql://user:password@host:port/database?sslmode=…`), or the
    application's own `AsyncEngine` on asyncpg, whose pool it then shares and does not dispose.
    The database's clock stamps and judges everything; with an injected `clock` that one does.
    """

    def __init__(
        self,
        target: str | AsyncEngine,
        *,
        opts: PostgresOpts | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; nothing is opened before `open()` or `async with`.

        Raises:
            DatabaseError: neither a Postgres URL nor an `AsyncEngine` on asyncpg.

        """
        if opts is not None:
            check_class("opts", opts, PostgresOpts)
        if isinstance(target, AsyncEngine):
            dialect = target.dialect
            if (dialect.name, dialect.driver) != ("postgresql", "asyncpg"):
                raise DatabaseError(
                    "a store takes an engine on postgresql+asyncpg, not on "
                    f"{dialect.name}+{dialect.driver}"
                )
        elif isinstance(target, str):
            check(target)
        else:
            raise DatabaseError(
                f"a store takes a Postgres URL or an AsyncEngine, not {type(target).__name__}"
            )
        super().__init__(PostgresEngine(target, PostgresOpts() if opts is None else opts, clock))


def engine_from_url(url: str, *, clock: Clock | None = None) -> PostgresStore:
    """An unopened store with the default options.

    Raises:
        DatabaseError: the URL has another shape.

    """
    return PostgresStore(url, clock=clock)
