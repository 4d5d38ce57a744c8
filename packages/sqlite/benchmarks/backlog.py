"""Claims with a million jobs in the table, against claims with next to none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from frame import Row, Sample, Tally, Target, Workload
from raw import PAYLOAD, RawFile, create
from scene import options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alkstore_core import Queue
    from scene import FileScene, Synchronous

BACKLOG = 1_000_000
BATCH = 100
SLICES = 4
SLICE = 0.15
SYNCHRONOUS: Synchronous = "NORMAL"
"""At FULL the disk takes most of the time and hides what the table's size costs."""

YEAR = 365 * 24 * 3600


async def claim_batches(queue: Queue, tally: Tally) -> None:
    """Claim and ack a hundred at a time. As many are enqueued before, so the backlog stays."""
    while tally.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            tally.add(await queue.ack_batch(handles, "worker"))


async def claim_singly(queue: Queue, tally: Tally) -> None:
    """Claim one at a time."""
    while tally.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with tally.span():
            handles = [await queue.claim_one("worker") for _ in range(BATCH)]
        tally.add(await queue.ack_batch([handle for handle in handles if handle], "worker"))


WAYS: dict[str, Callable[[Queue, Tally], Awaitable[None]]] = {
    "backlog: claim 100 + ack_batch": claim_batches,
    "backlog: claim_one": claim_singly,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What stands in the table."""

    name: str
    count: int = 0
    delay: int = 0
    priority: int = 0


NONE = Backlog(name="none")
FULL_TABLES = (
    Backlog(name="1,000,000 waiting", count=BACKLOG),
    Backlog(name="1,000,000 delayed before", count=BACKLOG, delay=YEAR, priority=10),
)


def _row(backlog: Backlog, way: str) -> str:
    return f"{way}, {backlog.name}"


async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
    """Take turns between the three tables; the one without a backlog is the reference."""
    async with AsyncExitStack() as stack:
        queues: dict[str, Queue] = {}
        for backlog in (NONE, *FULL_TABLES):
            path = stack.enter_context(scene.file())
            await create(path, SYNCHRONOUS)
            with RawFile(path, SYNCHRONOUS) as file:
                count = scene.count(backlog.count) if backlog.count else 0
                file.fill(count, delay=backlog.delay, priority=backlog.priority)
            store = SqliteStore(path, opts=options(SYNCHRONOUS))
            queues[backlog.name] = (await stack.enter_async_context(store)).queue("bench")
        for _ in range(scene.rounds):
            for way, claim in WAYS.items():
                tallies = {name: Tally() for name in queues}
                for _ in range(SLICES):
                    for name, tally in tallies.items():
                        tally.more(scene.seconds(SLICE))
                        await claim(queues[name], tally)
                for backlog in FULL_TABLES:
                    ours, small = tallies[backlog.name].rate, tallies[NONE.name].rate
                    yield Sample(row=_row(backlog, way), ours=ours, reference=small)


ALL = [
    Workload(
        rows=tuple(
            Row(name=_row(backlog, way), unit="jobs/s", target=Target(bound=0.8))
            for way in WAYS
            for backlog in FULL_TABLES
        ),
        rounds=rounds,
    )
]
