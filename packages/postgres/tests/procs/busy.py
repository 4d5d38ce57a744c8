"""A process that does everything at once until it is killed; says what was acknowledged."""

import asyncio
import sys

import asyncpg

from alkstore_core import AlkstoreError, StopToken
from alkstore_postgres import PostgresOpts, PostgresStore


async def enqueue(store):
    """Jobs and events, one after the other; each is said after it was acknowledged."""
    while True:
        ids = await asyncio.gather(*(store.queue("work").enqueue(n) for n in range(3)))
        offsets = await asyncio.gather(*(store.stream("news").publish(n) for n in range(3)))
        async with store.transaction() as tx:
            job = await tx.enqueue_tx("work", "tx")
            offset = await tx.publish_tx("news", "tx")
        for id_ in (*ids, job):
            sys.stdout.write(f"job {id_}\n")
        for number in (*offsets, offset):
            sys.stdout.write(f"event {number}\n")
        sys.stdout.flush()


async def work(store, url):
    """What is done is noted before the ack: a crash between repeats it, and loses nothing."""
    notes = await asyncpg.connect(url)
    while True:
        for handle in await store.queue("work").claim_batch("worker", 5):
            await notes.execute("INSERT INTO done VALUES ($1)", handle.job.id)
            await handle.ack()
        await asyncio.sleep(0.002)


async def lead(store):
    """Fire schedules whenever it is our turn."""
    while True:
        try:
            await store.run_schedules(StopToken())
        except AlkstoreError:
            await asyncio.sleep(0.05)


async def main(url):
    """All of it."""
    async with PostgresStore(url, opts=PostgresOpts(pool_size=5)) as store:
        sys.stdout.write("started\n")
        sys.stdout.flush()
        async with asyncio.TaskGroup() as group:
            for task in (enqueue(store), work(store, url), work(store, url), lead(store)):
                group.create_task(task)


asyncio.run(main(sys.argv[1]))
