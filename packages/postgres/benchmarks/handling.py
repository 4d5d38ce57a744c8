"""A worker beside a raw loop on plain asyncpg."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from frame import Sample, Workload
from working import CONCURRENCY, JOBS, hand_out, rows, through_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scene import Raw, ServerScene

AGAINST, ALONE = rows("", 15_000)


async def raw_loop(raw: Raw, jobs: int) -> float:
    """Jobs per second of claim, hand out, delete; two commits for each hundred jobs."""
    done = 0
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


ALL = [Workload(rows=(AGAINST, ALONE), rounds=_rounds)]
