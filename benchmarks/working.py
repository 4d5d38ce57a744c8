"""Jobs that do nothing, and none at all: what handing them to handlers costs, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from typing import TYPE_CHECKING, Any

from alkstore_core import Job, StopToken
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import jobs as jobs_table
from alkstore_core.worker import Worker
from child import begin
from frame import Row, Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from alkstore_core import Store

JOBS = 10_000
CONCURRENCY = 100
IDLE_SECONDS = 3.0

WIDTH = len(jobs_table.c)


def rows(prefix: str, rate: int) -> tuple[Row, Row]:
    """The worker beside a raw loop, and its rate by itself."""
    name = f"{prefix}worker: {JOBS:,} no-op jobs, {CONCURRENCY} at once"
    return (
        Row(name=f"{name}, against a raw loop", unit="jobs/s", target=Target(bound=0.6)),
        Row(name=name, unit="jobs/s", target=Target(bound=rate)),
    )


def delay_rows(bound: float) -> tuple[Row, Row]:
    """From a commit elsewhere to the begin of its job's handler here."""
    name = "worker: another process's COMMIT to the begin of the handler"
    target = Target(bound=bound, at_most=True)
    return Row(name=f"{name}, median", unit="ms", target=target), Row(
        name=f"{name}, p95", unit="ms"
    )


def idle_row(bound: float) -> Row:
    """What a worker costs while there is nothing to do."""
    return Row(
        name=f"worker: idle, {CONCURRENCY} at once",
        unit="% of a core",
        target=Target(bound=bound, at_most=True),
    )


async def idle_share(store: Store, seconds: float) -> float:
    """In a process of its own: CPU time of a worker without a job, in percent of `seconds`."""

    async def nothing(_: Job) -> None:
        pass

    stop = StopToken()
    worker = Worker(store, "bench", nothing, concurrency=CONCURRENCY)
    running = asyncio.create_task(worker.run(stop))
    await begin()
    await asyncio.sleep(min(0.5, seconds))
    wall, used = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    used, wall = time.process_time() - used, time.monotonic() - wall
    stop.stop()
    await running
    return 100 * used / wall


async def through_worker(store: Store, jobs: int) -> float:
    """Jobs per second of a worker whose handler takes the `Job`, up to the last acknowledgement.

    Like the raw loops beside it, it begins without the garbage of what ran before.
    """
    stop = StopToken()
    seen = 0

    async def handler(_: Job) -> None:
        nonlocal seen
        seen += 1
        if seen == jobs:
            stop.stop()

    worker = Worker(store, "bench", handler, concurrency=CONCURRENCY)
    gc.collect()
    start = time.perf_counter()
    await worker.run(stop)
    seconds = time.perf_counter() - start
    if await store.queue("bench").jobs(limit=1):
        message = "jobs are left: this measures something else"
        raise RuntimeError(message)
    return jobs / seconds


class Beginnings:
    """A worker's handlers as they begin, for who would else wait for the wakes."""

    def __init__(self) -> None:
        self._begun: asyncio.Queue[Job] = asyncio.Queue()

    async def recv(self) -> Job:
        """Wait for the next one."""
        return await self._begun.get()

    async def handler(self, job: Job) -> None:
        """Note that it has begun."""
        self._begun.put_nowait(job)


@contextlib.asynccontextmanager
async def working(store: Store) -> AsyncIterator[Beginnings]:
    """A worker that waits for jobs."""
    beginnings, stop = Beginnings(), StopToken()
    worker = Worker(store, "bench", beginnings.handler, concurrency=CONCURRENCY)
    running = asyncio.create_task(worker.run(stop))
    try:
        yield beginnings
    finally:
        stop.stop()
        await running


async def hand_out(claimed: Iterable[Sequence[Any]]) -> None:
    """What a raw loop does with claimed rows: a `Job` of each, a task for each."""

    async def nothing(_: Job) -> None:
        pass

    loop = asyncio.get_running_loop()
    # A claim returns the columns of `jobs`, and an engine's own; the living have not died.
    found = [job_from_row((*row[:WIDTH], None)) for row in claimed]
    tasks = [loop.create_task(nothing(job)) for job in found]
    for task in tasks:
        await task
