"""The engine: which connection runs what, and what is left of SQLAlchemy for transactions."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, exc
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from alkstore_core import DatabaseError
from alkstore_core.sql.compile import Compiler
from alkstore_core.sql.connection_drivers import AsyncConnectionDriver
from alkstore_core.sql.faults import commit_failed, locked, refused
from alkstore_core.sql.merging import MERGES
from alkstore_core.sql.runner import Fault, Runner
from alkstore_core.sql.session import SqlSession, SqlTxSession
from alkstore_core.sql.store import SqlEngine
from alkstore_sqlite.connections import FileIdentity, connect, judge
from alkstore_sqlite.diagnosis import diagnose
from alkstore_sqlite.prepare import FILE, prepare_engine
from alkstore_sqlite.probe import TableProbe
from alkstore_sqlite.schema import ensure_schema
from alkstore_sqlite.signals import SqliteSignals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from alkstore_core import Clock, Finding
    from alkstore_core.spi import Topic, TxSession
    from alkstore_core.sql.op import Driver
    from alkstore_sqlite.opts import SqliteOpts


class SqliteEngine(SqlEngine):
    """One database file, used by this process through four connections of ours at most."""

    single_writer = True
    notify_limit = None

    def __init__(self, path: str | os.PathLike[str], opts: SqliteOpts, clock: Clock | None) -> None:
        """Prepare; the path is a plain path, whatever it looks like."""
        # Absolute, it can be neither a `file:` URI nor `:memory:`.
        # Not resolved: a symbolic link may be given another target on purpose, while closed.
        self.path = os.path.abspath(path)  # noqa: PTH100
        self.busy_timeout = opts.busy_timeout
        self.clock = clock
        self._opts = opts
        self._compiler = Compiler(sqlite.dialect(paramstyle="qmark"))
        self._identity: FileIdentity
        self._writer = self._runner(self._connect_first, "BEGIN IMMEDIATE")
        self._reader = self._runner(self._connect, "BEGIN")
        self.signals: SqliteSignals = SqliteSignals(
            self.path,
            opts.poll_interval,
            opts.busy_timeout,
            TableProbe(self._compiler),
            self._reader,
        )
        # Reads have a connection of their own, so that they never wait for a writer.
        self.auto = SqlSession(self._writer, self.signals.fire, self._reader)
        self._connections: AsyncEngine | None = None

    async def open(self) -> None:
        """Connect and make or check the schema; on failure nothing is left behind.

        Raises:
            DatabaseError: the file cannot be used, or its schema is another release's.

        """
        # A connection made now would leave `-wal` and `-shm` files that stay read-only with it.
        if os.path.exists(self.path) and not os.access(self.path, os.W_OK):  # noqa: ASYNC240, PTH110
            raise DatabaseError(f"{self.path} is read-only for this process; make it writable")
        try:
            await self._writer.start()
            await self._reader.start()
            self._identity = self.signals.identity = FileIdentity.of(self.path)
        except BaseException as error:
            await self._end_runners()
            if isinstance(error, OSError):
                message = f"the database file {self.path} vanished while it was opened"
                raise DatabaseError(message) from error
            raise
        self._connections = prepare_engine(
            create_async_engine(
                URL.create("sqlite+aiosqlite", database=self.path),
                # One transaction of ours at a time; the second is for the moment of its end.
                pool_size=1,
                max_overflow=1,
                pool_timeout=self.busy_timeout,
                connect_args={"timeout": 0},
            ),
            synchronous=self._opts.synchronous,
            busy_timeout=self.busy_timeout,
        )

    async def close(self) -> None:
        """Finish accepted calls, then give up every thread and connection. Idempotent."""
        await self.signals.end()
        await self._end_runners()
        if self._connections is not None:
            await self._connections.dispose()

    async def _end_runners(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def now(self) -> int:
        """The host's time, or the injected clock's."""
        return self.read_clock()

    def read_clock(self) -> int:
        """Whole unix seconds; callable from any thread."""
        return int(time.time()) if self.clock is None else self.clock.now()

    async def begin(self) -> TxSession:
        """Begin on a SQLAlchemy connection, where the caller's own statements can ride along.

        Raises:
            DatabaseError: the database stayed locked for `busy_timeout`, or failed.

        """
        self._identity.check()
        if self._connections is None:
            message = "the engine is not open"
            raise DatabaseError(message)
        connection: AsyncConnection | None = None
        try:
            connection = await self._connections.connect()
            await connection.begin()
        except BaseException as error:
            if connection is not None:
                # Not kept: what failed here may be the connection's own fault.
                await connection.invalidate()
                await connection.close()
            if isinstance(error, exc.SQLAlchemyError | sqlite3.Error):
                raise self._begin_error(error) from error
            raise
        return SqlTxSession(
            AsyncConnectionDriver(connection, self.read_clock),
            self.signals.fire,
            connection,
            _commit(connection, self.path),
            _rollback(connection, self.path),
        )

    def check_joinable(self, connection: Connection) -> None:
        """Refuse connections of an engine that is not prepared, or on another file."""
        file = connection.info.get(FILE)
        if file is None:
            raise DatabaseError(
                "the joined connection's engine is not prepared: call "
                "alkstore_sqlite.prepare_engine(engine) right after it was created"
            )
        if not self._identity.names(file):
            raise DatabaseError(
                f"the joined connection is on {file or 'a database without a file'}, this store "
                f"on {self.path}"
            )

    def joined_session(self, driver: Driver) -> SqlSession:
        """A session that leaves the wakes to the watcher: only it sees the caller's commit."""
        return SqlSession(driver, _wake_nobody)

    async def diagnose(self) -> Iterable[Finding]:
        """What an operator should know about this file."""
        return diagnose(self.path)

    def _begin_error(self, error: BaseException) -> DatabaseError:
        if judge(error) is Fault.BUSY:
            return locked(self.path, self.busy_timeout, error)
        return refused(self.path, error)

    def _runner(self, connect: Callable[[], sqlite3.Connection], begin: str) -> Runner:
        return Runner(
            connect,
            self._compiler,
            self.read_clock,
            begin=begin,
            merges=MERGES,
            check=self._check_file,
            busy_timeout=self.busy_timeout,
            judge=judge,
            describe=self.path,
        )

    def _connect_first(self) -> sqlite3.Connection:
        ensure_schema(self.path, self._connect, self.busy_timeout)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, self._opts.synchronous, self.busy_timeout)

    def _check_file(self) -> None:
        self._identity.check()


def _wake_nobody(topic: Topic, mark: int | None) -> None:
    """The watcher does."""


def _commit(connection: AsyncConnection, path: str) -> Callable[[], Awaitable[None]]:
    async def commit() -> None:
        try:
            await connection.commit()
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            await connection.invalidate()
            raise commit_failed(path, error) from error
        finally:
            await connection.close()

    return commit


def _rollback(connection: AsyncConnection, path: str) -> Callable[[], Awaitable[None]]:
    async def rollback() -> None:
        try:
            await connection.rollback()
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            await connection.invalidate()
            raise refused(path, error) from error
        finally:
            await connection.close()

    return rollback
