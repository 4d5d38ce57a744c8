"""A runner of schedules under way, and waiting for what it fires."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect_equal
from alkstore_core import StopToken

if TYPE_CHECKING:
    from alkstore_core import Store


class Runner:
    """`run_schedules` in a task of its own."""

    def __init__(self, store: Store) -> None:
        self._stop = StopToken()
        self.task: asyncio.Future[Any] = asyncio.ensure_future(store.run_schedules(self._stop))

    async def stop(self) -> None:
        """Stop it, and see that it returns `None`."""
        self._stop.stop()
        expect_equal(await self.task, None, "what run_schedules returned on stop")


async def fired(store: Store, count: int, queue: str = "work") -> None:
    """So many jobs were fired into the queue; waits for them."""
    async with store.queue(queue).wakes() as wakes:
        while len(await store.queue(queue).jobs(limit=1_000)) < count:
            await wakes.recv()


async def jobs(store: Store, queue: str = "work") -> int:
    """How many jobs are in the queue."""
    return len(await store.queue(queue).jobs(limit=1_000))
