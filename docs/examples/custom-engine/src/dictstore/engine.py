"""The engine, and the store that applications construct."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from alkstore_core import DatabaseError, Store
from alkstore_core.hub import Hub
from alkstore_core.spi import Engine
from dictstore.database import DictDatabase
from dictstore.session import AutoSession, DictTx

if TYPE_CHECKING:
    from alkstore_core import Clock
    from alkstore_core.spi import TxSession


class DictEngine(Engine):
    """One store's way into a database."""

    single_writer = True
    notify_limit = None

    def __init__(self, database: DictDatabase, clock: Clock | None) -> None:
        self.clock = clock
        self.busy_timeout = database.busy_timeout
        self.signals: Hub = Hub()
        self.auto = AutoSession(database, self.signals, self.read_clock)
        self._database = database

    async def open(self) -> None:
        """The database wakes our receivers from now on.

        Raises:
            DatabaseError: stores of another event loop are open on it.

        """
        self._database.attach(self.signals)

    async def close(self) -> None:
        """Receivers have ended. Core has ended the transactions before."""
        self._database.detach(self.signals)
        self.signals.close()

    async def begin(self) -> TxSession:
        """A transaction, as soon as no other store of the database has one open.

        Raises:
            DatabaseError: one had, for as long as `busy_timeout`.

        """
        lease = await self._database.slot.acquire()
        return DictTx(self._database, lease, self.read_clock)

    async def now(self) -> int:
        """Whole unix seconds."""
        return self.read_clock()

    def read_clock(self) -> int:
        """The host's time, or that of the injected clock."""
        return int(time.time()) if self.clock is None else self.clock.now()


class DictStore(Store):
    """A store in the memory of this process.

    Stores on one `database` are clients of one database; without it a store has its own. With
    an injected `clock` that clock stamps and judges everything.
    """

    def __init__(self, database: DictDatabase | None = None, *, clock: Clock | None = None) -> None:
        super().__init__(DictEngine(DictDatabase() if database is None else database, clock))


def store_from_url(url: str, *, clock: Clock | None = None) -> DictStore:
    """An unopened store with a database of its own; what `open_store("dict:")` calls.

    Raises:
        DatabaseError: there is something behind `dict:`.

    """
    if url.lower() != "dict:":
        raise DatabaseError("the URL of a store on dicts is dict: and nothing behind it")
    return DictStore(clock=clock)
