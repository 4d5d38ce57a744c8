"""Which database a store is on, so that it never writes into another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg
from sqlalchemy import exc

from alkstore_core import DatabaseError
from alkstore_core.sql.faults import refused
from alkstore_core.sql.tables import jobs

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from alkstore_postgres.connections import Connections

# Numbers that the server gave to this database and this table, and where both stand.
_WHO: Final = (
    "SELECT current_database()::text, pg_class.oid::bigint, pg_database.oid::bigint "
    "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace, pg_database "
    "WHERE datname = current_database() AND nspname = {} AND relname = {}"
)


class Home(NamedTuple):
    """The tables' identity."""

    schema: str
    who: tuple[str, int, int]

    @classmethod
    async def of(cls, connections: Connections, schema: str, patience: float) -> Home:
        """Look where a pool leads to, for `patience` seconds.

        Raises:
            DatabaseError: there are no tables.

        """
        lease = await connections.take()
        try:
            row = await lease.raw.fetchrow(_who(schema), timeout=patience)
        except BaseException as error:
            # It may be in the middle of its answer.
            await lease.discard()
            if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                raise refused("the database", error) from error
            raise
        await lease.give_back()
        if row is None:
            raise DatabaseError(f"the database has no tables in the schema {schema!r}")
        return cls(schema, tuple(row))

    def check(self, connection: Connection) -> None:
        """Refuse a connection that does not lead here; asked once for each of the pool.

        Raises:
            DatabaseError: it leads to another database, or to none of Postgres.

        """
        if connection.dialect.name != "postgresql":
            raise DatabaseError(
                f"the joined connection is on {connection.dialect.name}, this store on Postgres"
            )
        key = f"alkstore_postgres_home:{self.schema}"
        known = connection.info.get(key)
        if known is None:
            try:
                # Two parameter styles; our own names need neither.
                row = connection.exec_driver_sql(_who(self.schema).replace("%", "%%")).first()
            except exc.SQLAlchemyError as error:
                raise refused("the joined transaction", error) from error
            known = connection.info[key] = None if row is None else tuple(row)
        if known != self.who:
            raise DatabaseError(
                "the joined connection is on another database than this store, or sees another "
                f"schema {self.schema!r} there"
            )

    async def check_listener(self, connection: asyncpg.Connection) -> None:
        """Refuse a connection on which our notifications would never be heard.

        Raises:
            DatabaseError: it leads to another database.

        """
        row = await connection.fetchrow(_who(self.schema))
        if row is None or tuple(row) != self.who:
            raise DatabaseError("listen_url leads to another database than the store's own address")


def _who(schema: str) -> str:
    return _WHO.format(_quoted(schema), _quoted(jobs.name))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
