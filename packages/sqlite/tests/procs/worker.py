"""Claim batches until the test hangs up; say what was handled, then ack, then say that.

The ack is the batch form or one call per handle, as the last argument says.
"""

import asyncio
import sys

from wire import Lines, SharedClock, say

from alkstore_core import StopToken
from alkstore_sqlite import SqliteStore


async def ack(queue, handles, name, form) -> None:
    """Ack a batch and say which acks landed."""
    ids = [handle.job.id for handle in handles]
    if form == "batch":
        if await queue.ack_batch(handles, name) != len(handles):
            raise AssertionError(f"{name} lost claims among {ids}")
        say("acked", *ids)
    else:
        landed = await asyncio.gather(*(handle.ack() for handle in handles))
        say("acked", *(i for i, done in zip(ids, landed, strict=True) if done))


async def main(path, clock_path, name, form) -> None:
    """Work until there is nothing left and the test has hung up."""
    stop = StopToken()

    async def hear() -> None:
        await Lines(0).next()
        stop.stop()

    hearing = asyncio.create_task(hear())
    clock = SharedClock(clock_path)
    async with SqliteStore(path, clock=clock) as store:
        queue = store.queue("work")
        async with queue.wakes(stop=stop) as wakes:
            say("ready")
            while True:
                handles = await queue.claim_batch(name, 10)
                if handles:
                    say("handled", *(handle.job.id for handle in handles))
                    await ack(queue, handles, name, form)
                elif await wakes.recv() is None:
                    break
    await hearing


asyncio.run(main(*sys.argv[1:]))
