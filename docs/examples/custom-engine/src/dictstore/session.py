# ruff: noqa: D102 - `spi` says what each primitive promises.
"""The two sessions: for single calls, each its own transaction, and for transactions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_core import Closed
from alkstore_core.spi import TxSession
from dictstore.dead_letters import DeadLetterPart
from dictstore.inspection import InspectionPart
from dictstore.locks import LockPart
from dictstore.queues import QueuePart
from dictstore.schedules import SchedulePart
from dictstore.streams import StreamPart
from dictstore.transfer import TransferPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.hub import Hub
    from alkstore_core.slot import Lease
    from alkstore_core.spi import Topic
    from dictstore.data import Data
    from dictstore.database import DictDatabase


class Primitives(
    QueuePart, DeadLetterPart, InspectionPart, StreamPart, LockPart, SchedulePart, TransferPart
):
    """All primitives."""


class AutoSession(Primitives):
    """Each call is a transaction: it changes what is stored, at a moment without another one."""

    def __init__(self, database: DictDatabase, receivers: Hub, now: Callable[[], int]) -> None:
        super().__init__(now)
        self._database = database
        self._receivers = receivers

    async def view(self) -> Data:
        # Without it a loop of calls would let no other task run.
        await asyncio.sleep(0)
        return self._data()

    async def change(self, *, urgent: bool = False) -> Data:
        await asyncio.sleep(0)
        slot = self._database.slot
        if slot.taken:
            await slot.turn("this call", "use its *_tx method", urgent=urgent)
        return self._data()

    def wake(self, topics: Sequence[Topic]) -> None:
        self._database.wake(topics)

    def _data(self) -> Data:
        if not self._database.serves(self._receivers):
            raise Closed("the store was closed while this call waited for its turn")
        return self._database.data


class DictTx(Primitives, TxSession):
    """A transaction on a draft; a commit puts the draft in the place of what it was made from."""

    def __init__(self, database: DictDatabase, lease: Lease, now: Callable[[], int]) -> None:
        super().__init__(now)
        self._database = database
        self._lease = lease
        self._draft = database.data.draft()
        # As keys: each topic once, however often it is written to.
        self._topics: dict[Topic, None] = {}

    async def view(self) -> Data:
        await asyncio.sleep(0)
        return self._draft

    async def change(self, *, urgent: bool = False) -> Data:  # noqa: ARG002 - it is our turn
        return await self.view()

    def wake(self, topics: Sequence[Topic]) -> None:
        self._topics |= dict.fromkeys(topics)

    async def commit(self) -> None:
        self._database.data.adopt(self._draft)
        self._lease.release()
        self._database.wake(self._topics)

    async def rollback(self) -> None:
        # Nobody else has seen the draft; after a commit too this changes nothing.
        self._lease.release()
