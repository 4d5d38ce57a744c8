"""Transactions of our own: a SQLAlchemy connection for the caller's statements and for ours."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from sqlalchemy import event, exc

from alkstore_core import DatabaseError
from alkstore_core.completion import to_the_end
from alkstore_core.errors import AlkstoreError
from alkstore_core.sql.dbapi import Fault
from alkstore_core.sql.faults import commit_failed, refused
from alkstore_core.sql.op import Driver, Mode, Op
from alkstore_postgres.connections import GRACE, forgot, judge, unsent
from alkstore_postgres.driver import TRIES, execute
from alkstore_postgres.servers import STANDBY, UnfitError
from alkstore_postgres.session import PostgresTxSession
from alkstore_postgres.streams import Publishing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.pool import ConnectionPoolEntry

    from alkstore_core.spi import Topic
    from alkstore_core.sql.compile import Compiler
    from alkstore_postgres.connections import Connections

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LOSE = "alkstore_postgres_lose"


class Transactions:
    """Begins transactions on connections of the pool."""

    def __init__(
        self,
        connections: Connections,
        compiler: Compiler,
        now: Callable[[], int | None],
        fire: Callable[[Topic, int | None], None],
        *,
        schema: str,
        timeout: float,
        describe: str,
    ) -> None:
        """Prepare; nothing is opened before the first `begin`."""
        self._connections = connections
        self._compiler = compiler
        self._now = now
        self._fire = fire
        self._schema = schema
        self._timeout = timeout + GRACE
        self._describe = describe
        # A method, so that each store on an engine has a listener of its own.
        event.listen(connections.engine.sync_engine, "invalidate", self._on_invalidate)

    def close(self) -> None:
        """Leave the engine as it was; it may be the application's."""
        event.remove(self._connections.engine.sync_engine, "invalidate", self._on_invalidate)

    async def begin(self) -> PostgresTxSession:
        """Begin at READ COMMITTED, whatever the database's default is.

        Raises:
            DatabaseError: no connection was free in time, the server cannot be reached, or it
                refuses to begin.

        """
        tries = TRIES
        while True:
            connection, raw = await self._connect()
            if raw.is_closed():
                # Those that a restarted server has hung up on do not count.
                await _give_up(connection, raw)
                continue
            tries -= 1
            try:
                if raw.is_in_transaction():
                    # Somebody else's, left behind past SQLAlchemy.
                    await raw.execute("ROLLBACK", timeout=self._timeout)
                await raw.execute(self._connections.begin, timeout=self._timeout)
                break
            except BaseException as error:
                was_dead = raw.is_closed() or unsent(error)
                await _give_up(connection, raw)
                if not isinstance(error, Exception):
                    raise
                if not was_dead or not tries:
                    raise refused(self._describe, error) from error
        session = PostgresTxSession(
            self._schema,
            RawDriver(raw, self._compiler, self._now, self._timeout, self._describe),
            self._fire,
            connection,
            lambda: self._commit(connection, raw),
            lambda: self._roll_back(connection, raw),
            publishing=Publishing(),
        )
        record = await connection.get_raw_connection()
        record.info[_LOSE] = session.lose
        return session

    async def _connect(self) -> tuple[AsyncConnection, asyncpg.Connection]:
        try:
            engine = self._connections.callers_engine
            # To SQLAlchemy every statement commits by itself: BEGIN and COMMIT are ours, because
            # Postgres answers ROLLBACK to the COMMIT of a failed transaction, and nobody else
            # reads the answer.
            self._connections.make_room()
            async with asyncio.timeout(self._connections.patience):
                connection = await engine.execution_options(isolation_level="AUTOCOMMIT").connect()
            raw = await _driver_connection(connection)
        except exc.TimeoutError as error:
            raise self._connections.exhausted(error) from error
        except AlkstoreError:
            raise
        except Exception as error:
            raise self._connections.unreachable(error) from error
        if self._connections.leads_nowhere(raw):
            await _give_up(connection, raw)
            raise self._connections.unreachable(UnfitError(STANDBY))
        return connection, raw

    async def _commit(self, connection: AsyncConnection, raw: asyncpg.Connection) -> None:
        await _forget(connection)
        if not (raw.is_closed() or raw.is_in_transaction()):
            # The server would answer COMMIT to a COMMIT of nothing.
            await _give_up(connection, raw)
            raise DatabaseError(
                "there was nothing to commit: a COMMIT, ROLLBACK or PREPARE TRANSACTION on its "
                "connection had ended this transaction; what became of its writes is unknown here"
            )
        try:
            status = await raw.execute("COMMIT", timeout=self._timeout)
        except Exception as error:
            await _give_up(connection, raw)
            answered = isinstance(error, asyncpg.PostgresError)
            if answered and judge(error) is not Fault.CONNECTION:
                # A deferred constraint, say: what the server answers so is rolled back.
                raise refused(self._describe, error) from error
            raise commit_failed(self._describe, error) from error
        try:
            await connection.close()
        except Exception:  # noqa: BLE001 - of the application's listeners; it is committed
            _log.exception("a connection could not be given back to the pool")
            raw.terminate()
        if status != "COMMIT":
            raise DatabaseError(
                "nothing was committed: a statement in this transaction had failed, and Postgres "
                "rolled it back"
            )

    async def _roll_back(self, connection: AsyncConnection, raw: asyncpg.Connection) -> None:
        if connection.closed or connection.invalidated or raw.is_closed():
            # Given up already, and rolled back by that.
            await connection.close()
            return
        await _forget(connection)
        try:
            if raw.is_in_transaction():
                await raw.execute("ROLLBACK", timeout=GRACE)
        except Exception as error:
            await _give_up(connection, raw)
            raise refused(self._describe, error) from error
        await connection.close()

    def _on_invalidate(
        self,
        dbapi: object,  # noqa: ARG002 - SQLAlchemy tells more than we ask
        record: ConnectionPoolEntry,
        error: object,  # noqa: ARG002
    ) -> None:
        """SQLAlchemy gives up a connection whose statement was cancelled, or that was lost."""
        lose = record.info.pop(_LOSE, None)
        if lose is not None:
            asyncio.get_running_loop().call_soon(lose)


async def _driver_connection(connection: AsyncConnection) -> asyncpg.Connection:
    try:
        return (await connection.get_raw_connection()).driver_connection
    except BaseException:
        await connection.close()
        raise


async def _forget(connection: AsyncConnection) -> None:
    """Its end is known from here on."""
    if not connection.invalidated:
        (await connection.get_raw_connection()).info.pop(_LOSE, None)


async def _give_up(connection: AsyncConnection, raw: asyncpg.Connection) -> None:
    raw.terminate()
    if not connection.closed:
        await _forget(connection)
        if not connection.invalidated:
            await connection.invalidate()
        await connection.close()


class RawDriver(Driver):
    """Runs ops on asyncpg's connection itself, in the transaction that is open on it."""

    def __init__(
        self,
        raw: asyncpg.Connection,
        compiler: Compiler,
        now: Callable[[], int | None],
        timeout: float,
        describe: str,
    ) -> None:
        self._raw = raw
        self._compiler = compiler
        self._now = now
        self._timeout = timeout
        self._describe = describe

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:  # noqa: ARG002
        """Run an op to its end, whatever becomes of the caller; all modes are the same."""
        return await to_the_end(asyncio.ensure_future(self._run(op, *args)))

    async def _run(self, op: Callable[..., Op[T]], *args: Any) -> T:
        if not self._raw.is_in_transaction():
            raise DatabaseError(
                "this transaction is no longer there: it was lost or ended on its connection; "
                "nothing more is done in it, begin another one"
            )
        steps = self._compiler.requests(op, args, self._now)
        try:
            request = next(steps)
            while True:
                request = steps.send(await execute(self._raw, request, self._timeout))
        except StopIteration as stop:
            value: T = stop.value
            return value
        except AlkstoreError:
            raise
        except Exception as error:
            if judge(error) is Fault.CONNECTION or forgot(error):
                # A peer that does not answer is not asked again, not even to roll back.
                self._raw.terminate()
            raise refused(self._describe, error) from error
