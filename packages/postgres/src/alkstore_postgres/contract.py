"""The engine as the conformance kit sees it; needs the extra `contract`, and a server.

The server is the one that `ALKSTORE_TEST_POSTGRES` names, a URL of a database in which schemas may
be made.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final

import asyncpg
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alkstore_contract import Caller, Facts, Harness
from alkstore_postgres.opts import PostgresOpts
from alkstore_postgres.store import PostgresStore
from alkstore_postgres.urls import dsn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_contract import JoinKind
    from alkstore_core import Clock, Store

SERVER: Final = "ALKSTORE_TEST_POSTGRES"

# Other processes try other properties in the same database.
_SEVER: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name IN ('{0}', '{0} listener')"
)


class PostgresHarness(Harness):
    """A schema of its own in the database that the environment names."""

    distribution: ClassVar[str] = "alkstore-postgres"
    facts: ClassVar[Facts] = Facts(
        notify_limit=7999,
        durability="durable",
        reach="cluster",
        receiver_closes_on="close",
        single_writer=False,
        sql_join="both",
    )

    def __init__(self) -> None:
        self.url = os.environ.get(SERVER, "")
        if not self.url:
            message = f"{SERVER} is not set: it names the database to test in, as a URL"
            raise LookupError(message)

    @contextlib.asynccontextmanager
    async def home(self) -> AsyncIterator[str]:
        """The name of a schema that is not there yet, beside one for the caller's own tables."""
        address = f"alkstore_{secrets.token_hex(6)}"
        await self._execute(f'CREATE SCHEMA "{address}_caller"')
        try:
            yield address
        finally:
            await self._execute(
                f'DROP SCHEMA IF EXISTS "{address}" CASCADE',
                f'DROP SCHEMA "{address}_caller" CASCADE',
            )

    def store(self, address: str, clock: Clock | None) -> Store:
        """A store in the schema."""
        opts = PostgresOpts(schema=address, pool_size=5)
        # Where tables go that a property makes on a transaction's connection; and whose it is.
        settings = f"search_path={address}_caller&application_name={address}"
        return PostgresStore(
            f"{self.url}{'&' if '?' in self.url else '?'}{settings}", opts=opts, clock=clock
        )

    async def sever(self, address: str) -> None:
        """Cut the connections of every store in this schema."""
        await self._execute(_SEVER.format(address))

    @contextlib.asynccontextmanager
    async def caller(self, address: str, kind: JoinKind) -> AsyncIterator[Caller]:
        """A transaction on an engine of the caller's, with a table of the caller's."""
        await self._execute(
            f'CREATE TABLE IF NOT EXISTS "{address}_caller".written (value text NOT NULL)',
        )
        insert = text(f'INSERT INTO "{address}_caller".written VALUES (:value)')  # noqa: S608
        url = make_url(dsn(self.url))
        if kind.startswith("Async"):
            engine = create_async_engine(url.set(drivername="postgresql+asyncpg"))
            try:
                connection: Any = (
                    AsyncSession(engine) if kind == "AsyncSession" else engine.connect()
                )
                async with connection as subject:
                    await subject.execute(text("SELECT 1"))
                    yield _AsyncCaller(subject, insert)
            finally:
                await engine.dispose()
        else:
            sync_engine = create_engine(url.set(drivername="postgresql+psycopg"))
            try:
                sync: Any = Session(sync_engine) if kind == "Session" else sync_engine.connect()
                with sync as subject:
                    subject.execute(text("SELECT 1"))
                    yield _SyncCaller(subject, insert)
            finally:
                sync_engine.dispose()

    async def written(self, address: str) -> list[str]:
        """What is in the caller's table."""
        connection = await asyncpg.connect(dsn(self.url))
        try:
            rows = await connection.fetch(
                f'SELECT value FROM "{address}_caller".written ORDER BY value'  # noqa: S608
            )
        finally:
            await connection.close()
        return [value for (value,) in rows]

    async def _execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(dsn(self.url))
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


class _AsyncCaller(Caller):
    def __init__(self, subject: Any, insert: Any) -> None:
        self.subject = subject
        self._insert = insert

    async def write(self, value: str) -> None:
        await self.subject.execute(self._insert, {"value": value})

    async def commit(self) -> None:
        await self.subject.commit()

    async def rollback(self) -> None:
        await self.subject.rollback()


class _SyncCaller(Caller):
    def __init__(self, subject: Any, insert: Any) -> None:
        self.subject = subject
        self._insert = insert

    async def write(self, value: str) -> None:
        self.subject.execute(self._insert, {"value": value})

    async def commit(self) -> None:
        self.subject.commit()

    async def rollback(self) -> None:
        self.subject.rollback()
