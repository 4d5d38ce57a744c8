"""Claims with a million jobs in the table, against claims with next to none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from claiming import NONE, YEAR, Backlog, rows, turns
from frame import Workload
from raw import RawFile, create
from scene import options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_core import Queue
    from frame import Sample
    from scene import FileScene, Synchronous

BACKLOG = 1_000_000
SLICE = 0.15
SYNCHRONOUS: Synchronous = "NORMAL"
"""At FULL the disk takes most of the time and hides what the table's size costs."""

FULL_TABLES = (
    Backlog(name="1,000,000 waiting", count=BACKLOG),
    Backlog(name="1,000,000 delayed before", count=BACKLOG, delay=YEAR, priority=10),
)


async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
    """Take turns between the three tables; the one without a backlog is the reference."""
    async with AsyncExitStack() as stack:
        queues: dict[Backlog, Queue] = {}
        for backlog in (NONE, *FULL_TABLES):
            path = stack.enter_context(scene.file())
            await create(path, SYNCHRONOUS)
            with RawFile(path, SYNCHRONOUS) as file:
                count = scene.count(backlog.count) if backlog.count else 0
                file.fill(count, delay=backlog.delay, priority=backlog.priority)
            store = SqliteStore(path, opts=options(SYNCHRONOUS))
            queues[backlog] = (await stack.enter_async_context(store)).queue("bench")
        for _ in range(scene.rounds):
            for sample in await turns(scene, queues, SLICE):
                yield sample


ALL = [Workload(rows=rows(FULL_TABLES), rounds=rounds)]
