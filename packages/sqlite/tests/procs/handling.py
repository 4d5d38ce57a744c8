"""Run a `Worker` until a signal; say when each handler begins and ends, by the host's clock.

handling.py PATH NAME GRACE
"""

import asyncio
import random
import sys
import time

from wire import say

from alkstore_core import JobHandle
from alkstore_core.worker import Worker, run
from alkstore_sqlite import SqliteStore


async def main(path, name, grace) -> None:
    """Handle jobs that take from no time at all to longer than their visibility timeout."""
    dice = random.Random(name)

    async def handler(handle: JobHandle) -> None:
        job = handle.job
        say("began", job.id, job.attempts, time.monotonic())
        try:
            await asyncio.sleep(dice.choices([0, 0.02, 0.2, 6], [40, 40, 18, 2])[0])
        finally:
            say("ended", job.id, job.attempts, time.monotonic())

    async with SqliteStore(path) as store:
        say("ready")
        await run(Worker(store, "work", handler, concurrency=8, grace=float(grace)))
    say("over")


asyncio.run(main(*sys.argv[1:]))
