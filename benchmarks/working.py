"""Ten thousand jobs that do nothing: what handing them to handlers costs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from alkstore_core import Job, StopToken
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import jobs as jobs_table
from alkstore_core.worker import Worker
from frame import Row, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alkstore_core import Store

JOBS = 10_000
CONCURRENCY = 100

WIDTH = len(jobs_table.c)


def rows(prefix: str, rate: int) -> tuple[Row, Row]:
    """The worker beside a raw loop, and its rate by itself."""
    name = f"{prefix}worker: {JOBS:,} no-op jobs, {CONCURRENCY} at once"
    return (
        Row(name=f"{name}, against a raw loop", unit="jobs/s", target=Target(bound=0.6)),
        Row(name=name, unit="jobs/s", target=Target(bound=rate)),
    )


async def through_worker(store: Store, jobs: int) -> float:
    """Jobs per second of a worker whose handler takes the `Job`, up to the last acknowledgement."""
    stop = StopToken()
    seen = 0

    async def handler(_: Job) -> None:
        nonlocal seen
        seen += 1
        if seen == jobs:
            stop.stop()

    worker = Worker(store, "bench", handler, concurrency=CONCURRENCY)
    start = time.perf_counter()
    await worker.run(stop)
    seconds = time.perf_counter() - start
    if await store.queue("bench").jobs(limit=1):
        message = "jobs are left: this measures something else"
        raise RuntimeError(message)
    return jobs / seconds


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
