"""Run a `Worker` until a signal; say when each handler begins and ends, by the host's clock.

handling.py URL NAME
"""

import asyncio
import random
import sys
import time

from alkstore_core import JobHandle
from alkstore_core.worker import Worker, run
from alkstore_postgres import PostgresStore


def say(*words):
    """Write one line, at once."""
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


async def main(url, name):
    """Handle jobs that take from no time at all to longer than their visibility timeout."""
    dice = random.Random(name)

    async def handler(handle: JobHandle):
        job = handle.job
        say("began", job.id, job.attempts, time.monotonic())
        try:
            await asyncio.sleep(dice.choices([0, 0.02, 0.2, 6], [40, 40, 18, 2])[0])
        finally:
            say("ended", job.id, job.attempts, time.monotonic())

    async with PostgresStore(url) as store:
        say("ready")
        await run(Worker(store, "work", handler, concurrency=8, grace=0))
    say("over")


asyncio.run(main(*sys.argv[1:]))
