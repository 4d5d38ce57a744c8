"""Transactions of our own: a SQLAlchemy connection for the caller's statements and for ours."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from alkstore_core.completion import to_the_end
from alkstore_core.errors import AlkstoreError
from alkstore_core.sql.dbapi import Fault
from alkstore_core.sql.faults import commit_failed, locked, refused
from alkstore_core.sql.op import Driver, Mode, Op, Result
from alkstore_core.sql.session import SqlTxSession
from alkstore_core.sql.streaks import Streak
from alkstore_sqlite.connections import Patience, judge
from alkstore_sqlite.prepare import BEGIN, in_transaction, no_transaction, watch_connections

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiosqlite
    from sqlalchemy.pool import ConnectionPoolEntry

    from alkstore_core.spi import Topic
    from alkstore_core.sql.compile import Compiler, Request
    from alkstore_sqlite.opts import SqliteOpts

T = TypeVar("T")

_LOSE = "alkstore_sqlite_lose"


class Transactions:
    """Begins transactions on a small pool of connections."""

    def __init__(
        self,
        path: str,
        opts: SqliteOpts,
        compiler: Compiler,
        now: Callable[[], int],
        fire: Callable[[Topic, int | None], None],
    ) -> None:
        """Prepare; nothing is opened before the first `begin`."""
        self._path = path
        self._busy_timeout = opts.busy_timeout
        self._compiler = compiler
        self._now = now
        self._fire = fire
        self._streak = Streak()
        self._engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=path),
            # One transaction of ours at a time; the second is for the moment of its end.
            pool_size=1,
            max_overflow=1,
            pool_timeout=opts.busy_timeout,
            # Nothing is left to reset: a connection comes back after COMMIT or ROLLBACK only.
            pool_reset_on_return=None,
            connect_args={"timeout": 0},
        )
        watch_connections(self._engine.sync_engine, opts.synchronous)
        event.listen(self._engine.sync_engine, "invalidate", self._on_invalidate)

    async def begin(self) -> SqlTxSession:
        """Begin, waiting for the lock in the fair way.

        Raises:
            DatabaseError: the database stayed locked for `busy_timeout`, or failed.

        """
        connection: AsyncConnection | None = None
        try:
            connection = await self._engine.connect()
            await connection.begin()
            raw = await connection.get_raw_connection()
            own: aiosqlite.Connection = raw.driver_connection  # type: ignore[assignment]
            await self._begin_immediate(own)
        except BaseException as error:
            if connection is not None:
                # Not kept: what failed here may be the connection's own fault.
                await connection.invalidate()
                await connection.close()
            # RuntimeError: no thread can be started for the connection.
            if isinstance(error, exc.SQLAlchemyError | sqlite3.Error | RuntimeError):
                if judge(error) is Fault.BUSY:
                    raise locked(self._path, self._busy_timeout, error) from error
                raise refused(self._path, error) from error
            raise
        session = SqlTxSession(
            AiosqliteDriver(own, self._compiler, self._now, self._path),
            self._fire,
            connection,
            lambda: self._commit(connection, own),
            lambda: self._roll_back(connection, own),
        )
        raw.info[_LOSE] = session.lose
        return session

    async def close(self) -> None:
        """Give up every connection."""
        await self._engine.dispose()

    async def _begin_immediate(self, connection: aiosqlite.Connection) -> None:
        patience = Patience(self._busy_timeout)
        while True:
            if pause := self._streak.pause(time.monotonic()):
                await asyncio.sleep(pause)
            try:
                await connection.execute_fetchall(BEGIN)
            except sqlite3.Error as error:
                pause = patience.after(error)
            else:
                self._streak.take(time.monotonic())
                return
            await asyncio.sleep(pause)

    def _on_invalidate(self, dbapi: object, record: ConnectionPoolEntry, error: object) -> None:  # noqa: ARG002
        """SQLAlchemy gives up a connection whose statement was cancelled."""
        lose = record.info.pop(_LOSE, None)
        if lose is not None:
            # It is still closing that connection when the next transaction may begin already:
            # that one must not find the same place of the pool.
            self._engine.sync_engine.dispose(close=False)
            asyncio.get_running_loop().call_soon(lose)

    async def _commit(self, connection: AsyncConnection, own: aiosqlite.Connection) -> None:
        try:
            if not in_transaction(own):
                raise no_transaction()
            await connection.commit()
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            await connection.invalidate()
            raise commit_failed(self._path, error) from error
        except AlkstoreError:
            # Refused before it began: it must not go back to the pool with its transaction.
            if not connection.closed:
                await connection.invalidate()
            raise
        finally:
            self._streak.give(time.monotonic())
            await connection.close()

    async def _roll_back(self, connection: AsyncConnection, own: aiosqlite.Connection) -> None:
        if connection.closed or connection.invalidated:
            # Given up already, and rolled back by that.
            await connection.close()
            return
        try:
            await connection.rollback()
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            await connection.invalidate()
            # SQLAlchemy was closing it meanwhile, after a statement that was cancelled?
            if in_transaction(own):
                raise refused(self._path, error) from error
        finally:
            self._streak.give(time.monotonic())
            await connection.close()


class AiosqliteDriver(Driver):
    """Runs ops on the driver's connection itself: one hop to its thread for each statement.

    By way of SQLAlchemy's cursor it is four, and a hop is most of a statement's time.
    """

    def __init__(
        self,
        connection: aiosqlite.Connection,
        compiler: Compiler,
        now: Callable[[], int],
        path: str,
    ) -> None:
        self._connection = connection
        self._compiler = compiler
        self._now = now
        self._path = path

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:  # noqa: ARG002
        """Run an op to its end, whatever becomes of the caller; all modes are the same."""
        return await to_the_end(asyncio.ensure_future(self._run(op, *args)))

    async def _run(self, op: Callable[..., Op[T]], *args: Any) -> T:
        if not in_transaction(self._connection):
            raise no_transaction()
        steps = self._compiler.requests(op, args, self._now)
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._execute(request))
        except StopIteration as stop:
            value: T = stop.value
            return value
        except AlkstoreError:
            raise
        except Exception as error:
            raise refused(self._path, error) from error

    async def _execute(self, request: Request) -> Result:
        sql, arguments, gives_rows = request
        if gives_rows:
            rows: Any = await self._connection.execute_fetchall(sql, arguments)
            return Result(rows, len(rows))
        cursor = await self._connection.execute(sql, arguments)
        return Result([], cursor.rowcount)
