"""A process that does one thing, or everything, until it is killed; says what was acknowledged."""

import asyncio
import sys

import asyncpg
from sqlalchemy import text

from alkstore_core import AlkstoreError, QueueOpts, StopToken
from alkstore_postgres import PostgresOpts, PostgresStore

# Claims of a killed worker come back while the others still run.
WORK = QueueOpts(visibility_timeout_s=2, max_attempts=1000)

OURS = text("SELECT pg_advisory_xact_lock(hashtext(:who))")
REACHED = text('SELECT coalesce(max("offset"), 0) FROM followed WHERE who = :who')
NOTE = text("INSERT INTO followed VALUES (:who, :offset)")


def say(kind, *numbers):
    """Whole lines, so that what is cut off was not said."""
    sys.stdout.write("".join(f"{kind} {number}\n" for number in numbers))
    sys.stdout.flush()


async def publish(store):
    """Jobs and events, alone and in transactions; each is said after it was acknowledged."""
    queue = store.queue("work", WORK)
    while True:
        ids = await asyncio.gather(*(queue.enqueue(n) for n in range(3)))
        offsets = await asyncio.gather(*(store.stream("news").publish(n) for n in range(3)))
        async with store.transaction() as tx:
            job = await tx.enqueue_tx("work", "tx")
            offset = await tx.publish_tx("news", "tx")
        say("job", *ids, job)
        say("event", *offsets, offset)


async def work(store, url):
    """What is done is noted before the ack: a crash between repeats it, and loses nothing."""
    notes = await asyncpg.connect(url)
    while True:
        for handle in await store.queue("work", WORK).claim_batch("worker", 5):
            await notes.execute("INSERT INTO done VALUES ($1)", handle.job.id)
            if await handle.ack():
                say("acked", handle.job.id)
        await asyncio.sleep(0.002)


async def follow(store, who):
    """Events, each noted together with the offset that is saved."""
    while True:
        async with store.transaction() as tx:
            # A predecessor that was killed may be just committing.
            await tx.connection.execute(OURS, {"who": who})
            reached = (await tx.connection.execute(REACHED, {"who": who})).scalar_one()
            events = await tx.read_since_tx("news", reached, 50)
            if events:
                notes = [{"who": who, "offset": event.offset} for event in events]
                await tx.connection.execute(NOTE, notes)
                await tx.save_offset_tx("news", who, events[-1].offset)
        if events:
            say(who, events[-1].offset)
        await asyncio.sleep(0.01)


async def lead(store):
    """Fire schedules whenever it is our turn."""
    while True:
        try:
            await store.run_schedules(StopToken())
        except AlkstoreError:
            await asyncio.sleep(0.05)


async def main(url, role):
    """What the role is for; a follower's is its name."""
    async with PostgresStore(url, opts=PostgresOpts(pool_size=5)) as store:
        tasks = {
            "publish": [publish],
            "work": [lambda store: work(store, url)] * 2,
            "lead": [lead],
        }.get(role, [lambda store: follow(store, role)])
        say("started", 0)
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task(store))


asyncio.run(main(*sys.argv[1:]))
