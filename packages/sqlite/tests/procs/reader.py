"""Read a store as often as a given pause allows, until the test hangs up."""

import asyncio
import sys

from wire import Lines, say

from alkstore_sqlite import SqliteStore


async def main(path) -> None:
    """Read rows of every kind over and over."""
    ended = asyncio.create_task(Lines(0).next())
    async with SqliteStore(path) as store:
        say("ready")
        reads = 0
        while not ended.done():
            await store.queue("work").jobs(limit=50)
            await store.stream("events").read_since(0, 50)
            await store.queue("work").stats()
            reads += 1
            await asyncio.sleep(0.002)
        say("read", reads)


asyncio.run(main(*sys.argv[1:]))
