"""Claims with a million jobs in the table, against claims with next to none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from raw import PAYLOAD, RawFile, create
from scene import Row, Sample, Stopwatch, Target, Workload, options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alkstore_core import Queue
    from scene import Scene, Synchronous

BACKLOG = 1_000_000
BATCH = 100
SECONDS = 0.6
SYNCHRONOUS: Synchronous = "NORMAL"
"""At FULL the disk takes most of the time and hides what the table's size costs."""

YEAR = 365 * 24 * 3600


async def claim_batches(queue: Queue, seconds: float) -> float:
    """Claim and ack a hundred at a time. As many are enqueued before, so the backlog stays."""
    done = 0
    watch = Stopwatch(seconds)
    while watch.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with watch.span():
            handles = await queue.claim_batch("worker", BATCH)
            done += await queue.ack_batch(handles, "worker")
    return done / watch.elapsed


async def claim_singly(queue: Queue, seconds: float) -> float:
    """Claim one at a time."""
    done = 0
    watch = Stopwatch(seconds)
    while watch.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with watch.span():
            handles = [await queue.claim_one("worker") for _ in range(BATCH)]
        done += await queue.ack_batch([handle for handle in handles if handle], "worker")
    return done / watch.elapsed


WAYS: dict[str, Callable[[Queue, float], Awaitable[float]]] = {
    "claim 100 + ack_batch": claim_batches,
    "claim_one": claim_singly,
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
    Backlog(name="waiting", count=BACKLOG),
    Backlog(name="delayed, of higher priority", count=BACKLOG, delay=YEAR, priority=10),
)


def _row(backlog: Backlog, way: str) -> str:
    return f"backlog {backlog.count:,} {backlog.name}: {way}"


async def rounds(scene: Scene) -> AsyncIterator[Sample]:
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
            for way, rate in WAYS.items():
                seconds = scene.seconds(SECONDS)
                reference = await rate(queues[NONE.name], seconds)
                for backlog in FULL_TABLES:
                    ours = await rate(queues[backlog.name], seconds)
                    yield Sample(row=_row(backlog, way), ours=ours, reference=reference)


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
