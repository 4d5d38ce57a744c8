"""The engine: every op runs at once, on the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy.dialects import sqlite

from alkstore_core import Closed
from alkstore_core.hub import Hub
from alkstore_core.spi import Engine
from alkstore_core.sql.compile import Compiler
from alkstore_core.sql.op import Driver, Mode, Op
from alkstore_core.sql.session import SqlSession, SqlTxSession
from alkstore_mem.database import BUSY_TIMEOUT, MemDatabase
from alkstore_mem.transactions import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core import Clock
    from alkstore_core.spi import TopicKind, TxSession

T = TypeVar("T")

# Shared, so that a process compiles each statement once, however many stores it opens.
_compiler: Final = Compiler(sqlite.dialect(paramstyle="qmark"))

# All receivers are within reach of `MemDatabase.fire`: no wake has to travel in a table.
_NO_KIND: Final[frozenset[TopicKind]] = frozenset()


class MemSession(SqlSession):
    """What a store does outside of its transactions."""

    announced_kinds = _NO_KIND


class MemTxSession(SqlTxSession):
    """A transaction."""

    announced_kinds = _NO_KIND


class Client(Driver):
    """One store's way to the database, outside of transactions, and its receivers."""

    def __init__(self, database: MemDatabase, now: Callable[[], int]) -> None:
        self.hub: Hub = Hub()
        self._database = database
        self._now = now

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:
        """Run an op in a transaction of its own, as soon as it is its turn.

        Nothing is awaited once it runs: its caller has the answer, and wakes whom it concerns,
        before anybody else has a turn.
        """
        # Without this a loop of calls would never let other tasks run.
        await asyncio.sleep(0)
        if mode is not Mode.READ:
            await self._database.turn(urgent=mode is Mode.URGENT)
        if not self._database.serves(self):
            raise Closed("the store was closed while this call waited; nothing was done")
        steps = _compiler.requests(op, args, self._now)
        return self._database.read(steps) if mode is Mode.READ else self._database.write(steps)


class MemEngine(Engine):
    """A client of a database in memory."""

    single_writer = True
    busy_timeout = BUSY_TIMEOUT
    notify_limit = None

    def __init__(self, database: MemDatabase | None, clock: Clock | None) -> None:
        """Prepare; without a database it has one of its own."""
        self.clock = clock
        self._own = database is None
        self._database = MemDatabase() if database is None else database
        self._client = Client(self._database, self.read_clock)
        self.signals: Hub = self._client.hub
        self.auto = MemSession(self._client, self._database.fire)

    async def open(self) -> None:
        """Become a client of the database.

        Raises:
            DatabaseError: stores of another event loop are open on it.

        """
        self._database.attach(self._client)

    async def close(self) -> None:
        """End the receivers; a database of our own is gone. Idempotent."""
        self.signals.close()
        self._database.detach(self._client)
        if self._own:
            self._database.discard()

    async def begin(self) -> TxSession:
        """Begin as soon as no other store's transaction is open.

        Raises:
            DatabaseError: one stayed open for the whole `BUSY_TIMEOUT`.

        """
        lease = await self._database.acquire()
        transaction = Transaction(self._database, lease, _compiler, self.read_clock)
        return MemTxSession(
            transaction, self._database.fire, None, transaction.commit, transaction.rollback
        )

    async def now(self) -> int:
        """The host's time, or the injected clock's."""
        return self.read_clock()

    def read_clock(self) -> int:
        """Whole unix seconds."""
        return int(time.time()) if self.clock is None else self.clock.now()
