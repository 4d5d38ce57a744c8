"""Claims with a million jobs in the table, or with dead ones that a snapshot keeps."""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg

from calling import BATCH
from claiming import NONE, YEAR, Backlog, rows, turns
from frame import Row, Sample, Target, Workload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_core import Queue
    from scene import ServerScene

SLICE = 0.2

WALKED = 100_000
"""Jobs that are done while the old snapshot is open."""

CLAIMS = 200
"""Single claims whose p95 is taken, before and after."""

FULL_TABLES = (
    Backlog(name="1,000,000 waiting", count=1_000_000),
    Backlog(name="500,000 delayed before", count=500_000, delay=YEAR, priority=10),
)


async def rounds(scene: ServerScene) -> AsyncIterator[Sample]:
    """Take turns between the three tables; the one without a backlog is the reference."""
    async with AsyncExitStack() as stack:
        queues: dict[Backlog, Queue] = {}
        for backlog in (NONE, *FULL_TABLES):
            schema = await stack.enter_async_context(scene.schema())
            if backlog.count:
                count = scene.count(backlog.count)
                await scene.fill(schema, count, delay=backlog.delay, priority=backlog.priority)
            store = await stack.enter_async_context(scene.store(schema))
            queues[backlog] = store.queue("bench")
        await scene.settle()
        for _ in range(scene.rounds):
            for sample in await turns(scene, queues, SLICE):
                yield sample


SNAPSHOT = Row(
    name=f"old snapshot: claim_one after {WALKED:,} jobs, p95",
    unit="ms",
    target=Target(bound=5, at_most=True),
)


async def under_a_snapshot(scene: ServerScene) -> AsyncIterator[Sample]:
    """Claim while somebody reads in one long transaction; the reference is its beginning."""
    count = scene.count(WALKED, BATCH) // BATCH * BATCH
    claims = scene.count(CLAIMS, 20)
    for _ in range(scene.rounds):
        async with AsyncExitStack() as stack:
            schema = await stack.enter_async_context(scene.schema())
            await scene.fill(schema, count + 2 * claims)
            await scene.settle()
            store = await stack.enter_async_context(scene.store(schema))
            queue = store.queue("bench")
            await _p95(queue, 5)
            reader = await asyncpg.connect(scene.url)
            stack.push_async_callback(reader.close)
            await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            await reader.fetch(f"SELECT FROM {schema}.__alkstore_jobs LIMIT 1")
            start = await _p95(queue, claims)
            done = 0
            while done < count - BATCH:
                handles = await queue.claim_batch("worker", BATCH)
                done += await queue.ack_batch(handles, "worker")
            yield Sample(row=SNAPSHOT.name, ours=await _p95(queue, claims), reference=start)


async def _p95(queue: Queue, count: int) -> float:
    """Claim so many jobs one by one, and ack each; the 95th percentile of the claims, in ms."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        handle = await queue.claim_one("worker")
        took.append(1000 * (time.perf_counter() - start))
        if handle is None or not await handle.ack():
            message = "there was nothing to claim: this measures something else"
            raise RuntimeError(message)
    return statistics.quantiles(took, n=20)[-1]


ALL = [
    Workload(rows=rows(FULL_TABLES), rounds=rounds),
    Workload(rows=(SNAPSHOT,), rounds=under_a_snapshot),
]
