"""Enqueue jobs one by one, many at once and in bulk; say each id once it is promised."""

import asyncio
import sys

from wire import Lines, say

from alkstore_core import QueueOpts
from alkstore_sqlite import SqliteStore


async def main(path, first, count) -> None:
    """Enqueue the numbers from `first` on, in rounds of 20 that take turns in form."""
    async with SqliteStore(path) as store:
        queue = store.queue("work", QueueOpts(visibility_timeout_s=60, max_attempts=1000))
        say("ready")
        await Lines(0).next()
        for start in range(first, first + count, 20):
            numbers = range(start, start + 20)
            match start // 20 % 3:
                case 0:
                    ids = await asyncio.gather(*map(queue.enqueue, numbers))
                case 1:
                    ids = await queue.enqueue_many(list(numbers))
                case _:
                    ids = [await queue.enqueue(number) for number in numbers]
            say("made", *ids)


asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
