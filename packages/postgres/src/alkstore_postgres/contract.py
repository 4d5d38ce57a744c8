"""The engine as the conformance kit sees it; needs the extra `contract`, and a server.

The server is the one that `ALKSTORE_TEST_POSTGRES` names, as a URL whose role may create databases.
Each process that tries properties has a database there: what is notified in one reaches all its
schemas. They are called `alkstore_contract_1` and so on, and stay for the next run.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

import asyncpg
import psycopg
from psycopg import errors
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alkstore_contract import BENCH_PAGE, BENCH_PAYLOAD, Caller, Facts, Harness
from alkstore_core import encode_payload
from alkstore_postgres.contract_raw import raw_run
from alkstore_postgres.opts import PostgresOpts
from alkstore_postgres.store import PostgresStore
from alkstore_postgres.urls import dsn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from alkstore_contract import JoinKind, RawRun, RawWorkload
    from alkstore_core import Clock, Store

SERVER: Final = "ALKSTORE_TEST_POSTGRES"

_DATABASE: Final = "alkstore_contract_{}"

# Held as long as the process lives, however it ends.
_CLAIM: Final = "SELECT pg_try_advisory_lock(hashtext('alkstore contract'))"
_IS_THERE: Final = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"
_MAKE: Final = "CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0"

_SEVER: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name LIKE 'alkstore%' "
    "AND pid <> pg_backend_pid()"
)


class PostgresHarness(Harness):
    """A schema of its own, in a database that is this process's while it lives."""

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
            message = (
                f"{SERVER} is not set: it names the server to test on, as a URL whose role may "
                "create databases"
            )
            raise LookupError(message)
        self._database = ""

    @contextlib.asynccontextmanager
    async def home(self) -> AsyncIterator[str]:
        """A database, and a schema that is not there yet beside one for the caller's tables."""
        await asyncio.to_thread(self._claim_database)
        schema = f"alkstore_{secrets.token_hex(6)}"
        address = f"{self._database}/{schema}"
        await self._execute(address, f'CREATE SCHEMA "{schema}_caller"')
        try:
            yield address
        finally:
            await self._execute(
                address,
                f'DROP SCHEMA IF EXISTS "{schema}" CASCADE',
                f'DROP SCHEMA "{schema}_caller" CASCADE',
            )

    def store(self, address: str, clock: Clock | None) -> Store:
        """A store in the schema."""
        url, schema = self._at(address)
        # Where tables go that a property makes on a transaction's connection.
        settings = f"{'&' if '?' in url else '?'}search_path={schema}_caller"
        opts = PostgresOpts(schema=schema, pool_size=5)
        return PostgresStore(url + settings, opts=opts, clock=clock)

    async def sever(self, address: str) -> None:
        """Cut the connections of every store in the database: they all are of one property."""
        await self._execute(address, _SEVER)

    @contextlib.asynccontextmanager
    async def caller(self, address: str, kind: JoinKind) -> AsyncIterator[Caller]:
        """A transaction on an engine of the caller's, with a table of the caller's."""
        where, schema = self._at(address)
        await self._execute(
            address, f'CREATE TABLE IF NOT EXISTS "{schema}_caller".written (value text NOT NULL)'
        )
        insert = text(f'INSERT INTO "{schema}_caller".written VALUES (:value)')  # noqa: S608
        url = make_url(where)
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
        url, schema = self._at(address)
        connection = await asyncpg.connect(url)
        try:
            rows = await connection.fetch(
                f'SELECT value FROM "{schema}_caller".written ORDER BY value'  # noqa: S608
            )
        finally:
            await connection.close()
        return [value for (value,) in rows]

    def raw(
        self, address: str, workload: RawWorkload
    ) -> AbstractAsyncContextManager[RawRun] | None:
        """Plain asyncpg on the schema's tables, on connections of its own."""
        url, schema = self._at(address)
        return raw_run(workload, url, schema, encode_payload(BENCH_PAYLOAD), BENCH_PAGE)

    def _claim_database(self) -> None:
        """Take the first database that no other process has; make it where there is none yet."""
        numbers = itertools.count(1)
        while not self._database:
            name = _DATABASE.format(next(numbers))
            self._make_database(name)
            claiming = psycopg.connect(self._at(name)[0], autocommit=True)
            if claiming.execute(_CLAIM).fetchone() == (True,):
                atexit.register(claiming.close)
                self._database = name
            else:
                claiming.close()

    def _make_database(self, name: str) -> None:
        with contextlib.closing(psycopg.connect(dsn(self.url), autocommit=True)) as connection:
            if connection.execute(_IS_THERE, (name,)).fetchone() == (False,):
                # Another process may do the same just now.
                with contextlib.suppress(errors.DuplicateDatabase, errors.UniqueViolation):
                    connection.execute(_MAKE.format(name).encode())

    def _at(self, address: str) -> tuple[str, str]:
        """The URL of an address' database, and the schema in it."""
        database, _, schema = address.partition("/")
        return urlsplit(dsn(self.url))._replace(path=f"/{database}").geturl(), schema

    async def _execute(self, address: str, *statements: str) -> None:
        connection = await asyncpg.connect(self._at(address)[0])
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
