"""The engine as the conformance kit sees it; needs the extra `contract`."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alkstore_contract import BENCH_PAGE, BENCH_PAYLOAD, Caller, Facts, Harness
from alkstore_sqlite.connections import connect
from alkstore_sqlite.contract_raw import RawRows, runs
from alkstore_sqlite.opts import SqliteOpts
from alkstore_sqlite.prepare import prepare_engine
from alkstore_sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_contract import JoinKind, RawRun, RawWorkload
    from alkstore_core import Clock, Store

FILE = "store.db?mode=memory&cache=shared"
"""A path is a path: whoever read this name as a URI would keep nothing and share too much."""

_TABLE = "CREATE TABLE IF NOT EXISTS written (value TEXT NOT NULL)"
_INSERT = text("INSERT INTO written VALUES (:value)")


class SqliteHarness(Harness):
    """A file in a directory of its own."""

    distribution: ClassVar[str] = "alkstore-sqlite"
    facts: ClassVar[Facts] = Facts(
        notify_limit=None,
        durability="durable",
        reach="host",
        receiver_closes_on="loss",
        single_writer=True,
        sql_join="both",
    )

    @contextlib.asynccontextmanager
    async def home(self) -> AsyncIterator[str]:
        """A path in an empty directory."""
        with tempfile.TemporaryDirectory(prefix="alkstore-", ignore_cleanup_errors=True) as where:
            yield str(Path(where) / FILE)

    def store(self, address: str, clock: Clock | None) -> Store:
        """A store on the file."""
        return SqliteStore(address, clock=clock)

    async def sever(self, address: str) -> None:
        """Delete the file."""
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(address + suffix)  # noqa: PTH108 - no Path in a coroutine

    @contextlib.asynccontextmanager
    async def caller(self, address: str, kind: JoinKind) -> AsyncIterator[Caller]:
        """A transaction on an engine that `prepare_engine` has prepared."""
        with contextlib.closing(sqlite3.connect(address)) as plain:
            plain.execute(_TABLE)
        if kind.startswith("Async"):
            engine = create_async_engine(URL.create("sqlite+aiosqlite", database=address))
            prepare_engine(engine)
            try:
                connection: Any = (
                    AsyncSession(engine) if kind == "AsyncSession" else engine.connect()
                )
                async with connection as subject:
                    await subject.execute(text("SELECT 1"))
                    yield _AsyncCaller(subject)
            finally:
                await engine.dispose()
        else:
            sync_engine = create_engine(URL.create("sqlite", database=address))
            prepare_engine(sync_engine)
            try:
                sync: Any = Session(sync_engine) if kind == "Session" else sync_engine.connect()
                with sync as subject:
                    subject.execute(text("SELECT 1"))
                    yield _SyncCaller(subject)
            finally:
                sync_engine.dispose()

    async def written(self, address: str) -> list[str]:
        """What is in the caller's table."""
        with contextlib.closing(sqlite3.connect(address)) as plain:
            return [value for (value,) in plain.execute("SELECT value FROM written ORDER BY value")]

    @contextlib.asynccontextmanager
    async def raw(self, address: str, workload: RawWorkload) -> AsyncIterator[RawRun]:
        """The plain `sqlite3` module, with the store's own `synchronous`."""
        payload = json.dumps(BENCH_PAYLOAD, separators=(",", ":")).encode()
        opts = SqliteOpts()
        with contextlib.closing(
            connect(address, opts.synchronous, opts.busy_timeout)
        ) as connection:
            work = runs(RawRows(connection, payload), BENCH_PAGE)[workload]

            async def run(count: int) -> int:
                return work(count)

            yield run


class _AsyncCaller(Caller):
    def __init__(self, subject: Any) -> None:
        self.subject = subject

    async def write(self, value: str) -> None:
        await self.subject.execute(_INSERT, {"value": value})

    async def commit(self) -> None:
        await self.subject.commit()

    async def rollback(self) -> None:
        await self.subject.rollback()


class _SyncCaller(Caller):
    def __init__(self, subject: Any) -> None:
        self.subject = subject

    async def write(self, value: str) -> None:
        self.subject.execute(_INSERT, {"value": value})

    async def commit(self) -> None:
        self.subject.commit()

    async def rollback(self) -> None:
        self.subject.rollback()
