"""Write one transaction after another for a while; says "did COUNT WORST_WAIT_MS"."""

import asyncio
import sys
import time

from wire import Lines, say

from alkstore_sqlite import SqliteOpts, SqliteStore


async def main(path, seconds, form) -> None:
    """Saturate the file, alone or through a transaction handle."""
    async with SqliteStore(path, opts=SqliteOpts(busy_timeout=10)) as store:
        queue = store.queue("x")
        say("ready")
        await Lines(0).next()
        ends = time.monotonic() + float(seconds)
        count, worst, began = 0, 0.0, time.monotonic()
        while began < ends:
            match form:
                case "auto":
                    await queue.enqueue(count)
                case "group":
                    await asyncio.gather(*(queue.enqueue(count) for _ in range(50)))
                case "handle":
                    async with store.transaction() as tx:
                        await tx.enqueue_tx("x", count)
            count += 1
            ended = time.monotonic()
            worst, began = max(worst, ended - began), ended
        say("did", count, round(worst * 1000))


asyncio.run(main(*sys.argv[1:]))
