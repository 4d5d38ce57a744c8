"""Write with 50 tasks at once until killed; say what was promised, and what may have happened.

enqueued ID    the await of the enqueue has returned
claimed ID     a claim was handed out and is never acked
acking ID      an ack is about to be asked for
acked ID       ... and has returned True
published N    the await of the publish has returned
moved N        a transaction with a business row, a job and an event, all N, has returned
"""

import asyncio
import itertools
import sys

from sqlalchemy import text
from wire import say

from alkstore_sqlite import SqliteStore


class Writers:
    """The tasks of one process; `first` keeps its numbers apart from other processes'."""

    def __init__(self, store, first) -> None:
        self.store = store
        self.queue = store.queue("work")
        self.stream = store.stream("events")
        self.numbers = itertools.count(int(first))

    async def enqueue(self) -> None:
        """Promise one job after another."""
        while True:
            say("enqueued", await self.queue.enqueue({"ballast": "x" * 100}))

    async def ack(self) -> None:
        """Claim five, ack four, leave one in flight."""
        while True:
            for kept, handle in enumerate(await self.queue.claim_batch("me", 5)):
                if kept == 0:
                    say("claimed", handle.job.id)
                    continue
                say("acking", handle.job.id)
                if await handle.ack():
                    say("acked", handle.job.id)

    async def publish(self) -> None:
        """Promise one event after another."""
        while True:
            say("published", await self.stream.publish("tea"))

    async def move(self) -> None:
        """Write the same number in three places in one transaction, with a pause for the rest."""
        while True:
            number = next(self.numbers)
            async with self.store.transaction() as tx:
                await tx.connection.execute(
                    text("INSERT INTO orders (number) VALUES (:number)"), {"number": number}
                )
                await tx.enqueue_tx("moves", number)
                await tx.publish_tx("moves", number)
            say("moved", number)
            await asyncio.sleep(0.002)


async def main(path, first) -> None:
    """Run until killed."""
    async with SqliteStore(path) as store:
        writers = Writers(store, first)
        say("ready")
        async with asyncio.TaskGroup() as group:
            for work, tasks in (
                (writers.enqueue, 29),
                (writers.ack, 10),
                (writers.publish, 10),
                (writers.move, 1),
            ):
                for _ in range(tasks):
                    group.create_task(work())


asyncio.run(main(*sys.argv[1:]))
