"""Write one transaction after another for a while; says "did COUNT WORST_WAIT_MS"."""

import asyncio
import sys
import time

from wire import Lines, say

from alkstore_sqlite import SqliteOpts, SqliteStore


async def main(path, seconds, form) -> None:
    """Saturate the file: by one task, by one with handles, or by 50 tasks."""
    async with SqliteStore(path, opts=SqliteOpts(busy_timeout=10)) as store:
        queue = store.queue("x")
        say("ready")
        await Lines(0).next()
        ends = time.monotonic() + float(seconds)
        waits = []

        async def write_on() -> None:
            began = time.monotonic()
            while began < ends:
                if form == "handle":
                    async with store.transaction() as tx:
                        await tx.enqueue_tx("x", 1)
                else:
                    await queue.enqueue(1)
                ended = time.monotonic()
                waits.append(ended - began)
                began = ended

        await asyncio.gather(*(write_on() for _ in range(50 if form == "group" else 1)))
        say("did", len(waits), round(max(waits) * 1000))


asyncio.run(main(*sys.argv[1:]))
