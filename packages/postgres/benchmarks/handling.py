"""A worker beside a raw loop on plain asyncpg."""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import children
from frame import Sample, Workload
from wakes import WAKES
from waking import delays
from working import (
    CONCURRENCY,
    IDLE_SECONDS,
    JOBS,
    delay_rows,
    hand_out,
    idle_row,
    rows,
    through_worker,
    working,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scene import Raw, ServerScene

AGAINST, ALONE = rows("", 15_000)
MEDIAN, LATE = delay_rows(2.0)
IDLE = idle_row(1.0)


async def raw_loop(raw: Raw, jobs: int) -> float:
    """Jobs per second of claim, hand out, delete; two commits for each hundred jobs."""
    done = 0
    gc.collect()
    start = time.perf_counter()
    while done < jobs:
        claimed = await raw.one.claim(CONCURRENCY)
        await hand_out(claimed)
        await raw.one.delete(claimed)
        done += len(claimed)
    return jobs / (time.perf_counter() - start)


async def _rounds(scene: ServerScene) -> AsyncIterator[Sample]:
    jobs = scene.count(JOBS, CONCURRENCY)
    for _ in range(scene.rounds):
        async with AsyncExitStack() as stack:
            schemas = [await stack.enter_async_context(scene.schema()) for _ in range(2)]
            for schema in schemas:
                await scene.fill(schema, jobs)
            await scene.settle()
            raw = await stack.enter_async_context(scene.raw(schemas[0]))
            store = await stack.enter_async_context(scene.store(schemas[1]))
            reference = await raw_loop(raw, jobs)
            rate = await through_worker(store, jobs)
        yield Sample(row=AGAINST.name, ours=rate, reference=reference)
        yield Sample(row=ALONE.name, ours=rate)


async def _delays(scene: ServerScene) -> AsyncIterator[Sample]:
    for _ in range(scene.rounds):
        async with AsyncExitStack() as stack:
            schema = await stack.enter_async_context(scene.schema())
            store = await stack.enter_async_context(scene.store(schema))
            count = scene.count(WAKES, 5)
            child = await children.start("commit", scene, schema, count, "enqueue")
            begun = await stack.enter_async_context(working(store))
            found = await delays(child, begun)
        yield Sample(row=MEDIAN.name, ours=statistics.median(found))
        yield Sample(row=LATE.name, ours=statistics.quantiles(found, n=20)[-1])


async def _idle(scene: ServerScene) -> AsyncIterator[Sample]:
    for _ in range(scene.rounds):
        async with scene.schema() as schema:
            child = await children.start("idle_worker", scene, schema, scene.seconds(IDLE_SECONDS))
            child.begin()
            yield Sample(row=IDLE.name, ours=cast("float", await child.result()))


ALL = [
    Workload(rows=(IDLE,), rounds=_idle),
    Workload(rows=(MEDIAN, LATE), rounds=_delays),
    Workload(rows=(AGAINST, ALONE), rounds=_rounds),
]
