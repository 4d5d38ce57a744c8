"""The engine: which connection runs what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect

from alkstore_core import DatabaseError
from alkstore_core.sql._dialect import NOW
from alkstore_core.sql.compile import Compiler
from alkstore_core.sql.op import Mode, Op
from alkstore_core.sql.store import SqlEngine
from alkstore_postgres.connections import GRACE, NAME, Connections, own_engine
from alkstore_postgres.diagnosis import diagnose
from alkstore_postgres.driver import AutoDriver
from alkstore_postgres.joining import Home
from alkstore_postgres.outside import connect_like
from alkstore_postgres.polling import PollingSignals, look
from alkstore_postgres.rechecks import Rechecks
from alkstore_postgres.schema import ensure_schema
from alkstore_postgres.servers import Servers, check_server
from alkstore_postgres.session import MERGES, STEPWISE, PostgresSession
from alkstore_postgres.signals import PostgresSignals
from alkstore_postgres.streams import Publishing
from alkstore_postgres.transactions import Transactions
from alkstore_postgres.urls import application_name, describe, places

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    import asyncpg
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

    from alkstore_core import Clock, Finding
    from alkstore_core.spi import Topic, TxSession
    from alkstore_core.sql.op import Driver
    from alkstore_postgres.opts import PostgresOpts
    from alkstore_postgres.polling import Seen

NOTIFY_LIMIT: Final = 7999
"""Bytes: the server refuses 8,000."""

# Shared, so that a process compiles each statement once, however many stores it opens.
_compiler: Final = Compiler(asyncpg_dialect.dialect())  # type: ignore[no-untyped-call]

READ_CLOCK = select(NOW)


def read_now() -> Op[int]:
    """The time that stamps and judges everything."""
    return int((yield READ_CLOCK, {}).rows[0][0])


class PostgresEngine(SqlEngine):
    """One schema of a database, used by this process through one pool."""

    single_writer = False
    notify_limit = NOTIFY_LIMIT

    def __init__(self, target: str | AsyncEngine, opts: PostgresOpts, clock: Clock | None) -> None:
        """Prepare; nothing is opened before `open`."""
        self.schema = opts.schema
        self.busy_timeout = opts.pool_timeout
        self.clock = clock
        self._target = target
        self._opts = opts
        self._describe = describe(target) if isinstance(target, str) else "Postgres database"
        self._compiler = _compiler.for_schema(opts.schema)
        self.signals: PostgresSignals | PollingSignals = self._wakes()
        self._connections: Connections
        self._driver: AutoDriver
        self._transactions: Transactions | None = None
        self._home: Home
        self._rechecks = Rechecks(self.signals)

    async def open(self) -> None:
        """Connect and make or check the schema; on failure nothing is left behind.

        Raises:
            DatabaseError: the server cannot be reached, or the schema is another release's.

        """
        own = isinstance(self._target, str)
        engine = (
            own_engine(self._target, self._opts) if isinstance(self._target, str) else self._target
        )
        patience = self._patience() if own else None
        self._connections = Connections(
            engine, self._opts, self._describe, own=own, patience=patience
        )
        try:
            await self._prepare()
        except BaseException:
            await self._connections.close()
            raise

    async def close(self) -> None:
        """Finish accepted calls, then give up every connection of ours. Idempotent."""
        await self.signals.end()
        self._rechecks.close()
        if self._transactions is not None:
            await self._driver.close()
            self._transactions.close()
            self._transactions = None
            await self._connections.close()

    async def begin(self) -> TxSession:
        """Begin on a SQLAlchemy connection, where the caller's own statements can ride along.

        Raises:
            DatabaseError: no connection was free in time, or the server cannot be reached.

        """
        if self._transactions is None:
            raise DatabaseError("the store is not open")
        return await self._transactions.begin()

    async def now(self) -> int:
        """The database's time, or the injected clock's."""
        known = self.read_clock()
        return await self._driver.run(Mode.READ, read_now) if known is None else known

    def read_clock(self) -> int | None:
        """Whole unix seconds of an injected clock; `None`: the database shall look at its own."""
        return None if self.clock is None else self.clock.now()

    def check_joinable(self, connection: Connection) -> None:
        """Refuse connections to anything but this store's tables."""
        self._home.check(connection)

    def joined_session(self, driver: Driver) -> PostgresSession:
        """A session whose wakes are notified by the caller's own commit."""
        return PostgresSession(self._opts.schema, driver, _wake_nobody, publishing=Publishing())

    async def diagnose(self) -> Iterable[Finding]:
        """What an operator should know about this database."""
        return await self._driver.run(Mode.READ, diagnose, self._opts.schema)

    async def _prepare(self) -> None:
        opts = self._opts
        options: dict[str, Any] = {
            "timeout": opts.statement_timeout,
            "describe": self._describe,
        }
        self._driver = AutoDriver(
            self._connections,
            self._compiler,
            self.read_clock,
            stepwise=STEPWISE | {diagnose, look, read_now},
            merges=MERGES,
            **options,
        )
        engine, patience = self._connections.engine, self._connections.patience
        if patience is not None:
            patience += opts.statement_timeout + GRACE
        await check_server(engine, self._describe, patience)
        await ensure_schema(engine, opts.schema, migrate=opts.migrate, patience=patience)
        self._home = await Home.of(self._connections, opts.schema, opts.statement_timeout + GRACE)
        self.auto = PostgresSession(
            opts.schema, self._driver, self.signals.fire, on_cut=self._rechecks.after_cut
        )
        self._transactions = Transactions(
            self._connections,
            self._compiler,
            self.read_clock,
            self.signals.fire,
            schema=opts.schema,
            **options,
        )

    def _wakes(self) -> PostgresSignals | PollingSignals:
        opts = self._opts
        if opts.poll_interval is not None:
            return PollingSignals(self._look, opts.poll_interval, self._describe)
        return PostgresSignals(
            opts.schema,
            self._connect_listener,
            describe=self._describe,
            connect_timeout=opts.connect_timeout * self._servers_to_try(opts.listen_url),
            name=f"{self._name()} listener",
        )

    def _patience(self) -> float:
        opts = self._opts
        return opts.pool_timeout + opts.connect_timeout * self._servers_to_try() + GRACE

    def _servers_to_try(self, url: str | None = None) -> int:
        where = url or self._target
        return max(len(places(where)), 1) if isinstance(where, str) else 1

    def _name(self) -> str:
        own = application_name(self._target) if isinstance(self._target, str) else None
        return own or NAME

    def _look(self, topics: Sequence[Topic]) -> Awaitable[Seen]:
        return self._driver.run(Mode.READ, look, topics)

    async def _connect_listener(self) -> asyncpg.Connection:
        opts = self._opts
        if opts.listen_url is not None:
            servers = Servers(opts.listen_url, timeout=opts.connect_timeout)
            connection = await servers.connect()
            try:
                await self._home.check_listener(connection)
            except BaseException:
                connection.terminate()
                raise
            return connection
        if opts.pgbouncer:
            raise DatabaseError(
                "LISTEN does not get through a pooler in transaction mode: give listen_url, the "
                "address behind the pooler, or a poll_interval"
            )
        return await connect_like(self._connections.engine)


def _wake_nobody(topic: Topic, mark: int | None) -> None:
    """The notification does, once the caller has committed."""
