"""What several stores share: the data, the turn to write, and whom to wake."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from alkstore_core import DatabaseError
from alkstore_core.slot import WriterSlot
from dictstore.data import Data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.hub import Hub
    from alkstore_core.spi import Topic


class DictDatabase:
    """A database for `DictStore(database)`. It lives as long as this object does.

    The stores that are open on it at one time belong to one event loop. `busy_timeout` is how
    many seconds a write waits for a transaction of another store.
    """

    def __init__(self, *, busy_timeout: float = 5.0) -> None:
        self.busy_timeout = busy_timeout
        self.data = Data()
        # Core gives each store a slot, in which its own writers wait for each other. This one is
        # for the stores of one database.
        self.slot = WriterSlot(busy_timeout)
        self._receivers: weakref.WeakSet[Hub] = weakref.WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, receivers: Hub) -> None:
        """A store is open.

        Raises:
            DatabaseError: stores of another event loop are.

        """
        loop = asyncio.get_running_loop()
        if not self._receivers:
            # A store that was lost without `close` may have left a transaction open.
            self.slot = WriterSlot(self.busy_timeout)
            self._loop = loop
        if self._loop is not loop:
            raise DatabaseError("stores of another event loop are open on this DictDatabase")
        self._receivers.add(receivers)

    def detach(self, receivers: Hub) -> None:
        """A store is closed."""
        self._receivers.discard(receivers)

    def serves(self, receivers: Hub) -> bool:
        """Whether a store is open."""
        return receivers in self._receivers

    def wake(self, topics: Iterable[Topic]) -> None:
        """Wake the receivers of every store. What they are to read is there already."""
        for topic in topics:
            for hub in tuple(self._receivers):
                hub.fire(topic)
