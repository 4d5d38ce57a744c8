"""A worker beside a raw loop on the plain `sqlite3` module."""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import children
from alkstore_sqlite import SqliteStore
from frame import Sample, Workload
from raw import RawFile, create
from scene import options
from wakes import SYNCHRONOUS, WAKES
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

    from scene import FileScene

AGAINST, ALONE = rows("FULL ", 24_000)
MEDIAN, LATE = delay_rows(1.5)
IDLE = idle_row(5.0)


async def raw_loop(raw: RawFile, jobs: int) -> float:
    """Jobs per second of claim, hand out, delete; two commits for each hundred jobs."""
    done = 0
    gc.collect()
    start = time.perf_counter()
    while done < jobs:
        claimed = raw.claim(CONCURRENCY)
        await hand_out(claimed)
        raw.delete(claimed)
        done += len(claimed)
    return jobs / (time.perf_counter() - start)


async def _rounds(scene: FileScene) -> AsyncIterator[Sample]:
    jobs = scene.count(JOBS, CONCURRENCY)
    for _ in range(scene.rounds):
        async with AsyncExitStack() as stack:
            paths = [stack.enter_context(scene.file()) for _ in range(2)]
            for path in paths:
                await create(path, "FULL")
                with RawFile(path, "FULL") as file:
                    file.fill(jobs)
            raw = stack.enter_context(RawFile(paths[0], "FULL"))
            store = SqliteStore(paths[1], opts=options("FULL"))
            await stack.enter_async_context(store)
            reference = await raw_loop(raw, jobs)
            rate = await through_worker(store, jobs)
        yield Sample(row=AGAINST.name, ours=rate, reference=reference)
        yield Sample(row=ALONE.name, ours=rate)


async def _delays(scene: FileScene) -> AsyncIterator[Sample]:
    for _ in range(scene.rounds):
        async with AsyncExitStack() as stack:
            path = stack.enter_context(scene.file())
            await create(path, SYNCHRONOUS)
            store = SqliteStore(path, opts=options(SYNCHRONOUS))
            await stack.enter_async_context(store)
            count = scene.count(WAKES, 5)
            child = await children.start("commit", path, SYNCHRONOUS, count, "enqueue")
            begun = await stack.enter_async_context(working(store))
            found = await delays(child, begun)
        yield Sample(row=MEDIAN.name, ours=statistics.median(found))
        yield Sample(row=LATE.name, ours=statistics.quantiles(found, n=20)[-1])


async def _idle(scene: FileScene) -> AsyncIterator[Sample]:
    for _ in range(scene.rounds):
        with scene.file() as path:
            await create(path, "FULL")
            child = await children.start("idle_worker", path, scene.seconds(IDLE_SECONDS))
            child.begin()
            yield Sample(row=IDLE.name, ours=cast("float", await child.result()))


ALL = [
    Workload(rows=(IDLE,), rounds=_idle),
    Workload(rows=(MEDIAN, LATE), rounds=_delays),
    Workload(rows=(AGAINST, ALONE), rounds=_rounds),
]
