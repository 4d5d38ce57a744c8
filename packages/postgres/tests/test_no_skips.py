"""No reader passes an offset that can still commit, however publishers and rollbacks overlap."""

import asyncio
import contextlib
import random
import time

import pytest
from server import sqlalchemy_url
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore

pytestmark = pytest.mark.once


SECONDS = 10.0
SIZES = PostgresOpts(pool_size=12)


class BusinessError(Exception):
    """What makes a publisher roll back."""


async def long_publisher(store, until, chance, committed):
    """Transactions that stay open for a moment; a fifth rolls back, some have savepoints."""
    while time.monotonic() < until:
        offsets = []
        with contextlib.suppress(BusinessError):
            async with store.transaction() as tx:
                offsets.append(await tx.publish_tx("s", "long"))
                if chance.random() < 0.3:
                    await tx.connection.execute(text("SAVEPOINT here"))
                    await tx.publish_tx("s", "undone")
                    await tx.connection.execute(text("ROLLBACK TO SAVEPOINT here"))
                    offsets.append(await tx.publish_tx("s", "after a savepoint"))
                await tx.publish_tx("other", "elsewhere")
                await asyncio.sleep(chance.uniform(0.001, 0.04))
                if chance.random() < 0.2:
                    raise BusinessError
            committed.update(offsets)


async def short_publisher(store, until, committed):
    """The one-statement publish."""
    while time.monotonic() < until:
        committed.update(await asyncio.gather(*(store.stream("s").publish(n) for n in range(3))))
        await asyncio.sleep(0.002)


async def reader(store, done, after, seen):
    """Reads on from the last event it saw, as a cursor does, until nothing comes any more."""
    while True:
        ending = done.is_set()
        events = await store.stream("s").read_since(after, 100)
        seen += [event.offset for event in events]
        if events:
            after = events[-1].offset
        elif ending:
            return


async def test_readers_see_every_event_once(postgres_url):
    """Long publishers, rollbacks, savepoints, another stream: each cursor sees all, in order."""
    chance = random.Random(11)
    committed = set()
    async with (
        PostgresStore(postgres_url, opts=SIZES) as one,
        PostgresStore(postgres_url, opts=SIZES) as two,
    ):
        until = time.monotonic() + SECONDS
        done = asyncio.Event()
        seen = [[] for _ in range(4)]
        readers = [
            asyncio.create_task(reader(store, done, 0, found))
            for store, found in zip((one, two, one), seen, strict=False)
        ]
        waiting = await one.stream("s").subscribe("them")
        publishers = [long_publisher(store, until, chance, committed) for store in (one, two) * 6]
        await asyncio.gather(
            *publishers,
            short_publisher(one, until, committed),
            short_publisher(two, until, committed),
        )
        done.set()
        await asyncio.gather(*readers)
        async with asyncio.timeout(20):
            while len(seen[3]) < len(committed):
                seen[3].append((await waiting.recv()).offset)
    expected = sorted(committed)
    assert len(expected) > 300
    for found in seen:
        assert expected == found


async def test_a_blocker_that_rolls_back_is_noticed(store):
    """A subscriber that held an event back gets it soon after the blocker is gone, unannounced."""
    async with store.stream("s").subscribe("me") as events:
        tx = await store.begin_tx()
        await tx.publish_tx("s", "never")
        offset = await store.stream("s").publish("held back")
        getting = asyncio.create_task(events.recv())
        assert [] == await store.stream("s").read_since(0, 10)
        await tx.rollback()
        async with asyncio.timeout(5):
            assert offset == (await getting).offset


async def test_streams_do_not_hold_each_other_back(store):
    """An open publisher of one stream keeps no reader of another waiting."""
    async with store.begin_tx() as tx:
        await tx.publish_tx("slow", 1)
        offset = await store.stream("fast").publish(1)
        assert [offset] == [e.offset for e in await store.stream("fast").read_since(0, 10)]


async def test_a_note_wraps_around(store, sql):
    """The note has 31 bits, the offsets 63: far beyond 2**31 readers still see what they may."""
    name = "alkstore.__alkstore_events_offset_seq"
    for start in (2**31 - 2, 5 * 2**31 - 1, 2**40):
        await sql.execute(f"SELECT setval('{name}', {start})")
        tx = await store.begin_tx()
        await tx.publish_tx("s", "open")
        after = await store.stream("s").publish("behind it")
        assert after > start
        assert after not in [e.offset for e in await store.stream("s").read_since(0, 100)]
        assert after - 1 in [e.offset for e in await tx.read_since_tx("s", 0, 100)]
        await tx.commit()
        found = [e.offset for e in await store.stream("s").read_since(0, 100)]
        assert [after - 1, after] == found[-2:]


async def test_reading_is_refused_where_the_snapshot_is_too_old(store, postgres_url):
    """At REPEATABLE READ a joined transaction cannot read events: it would skip some."""
    engine = create_async_engine(sqlalchemy_url(postgres_url), isolation_level="REPEATABLE READ")
    async with engine.begin() as connection:
        joined = store.join(connection)
        offset = await joined.publish_tx("s", 1)
        with pytest.raises(DatabaseError, match="REPEATABLE READ"):
            await joined.read_since_tx("s", 0, 10)
    await engine.dispose()
    assert [offset] == [e.offset for e in await store.stream("s").read_since(0, 10)]
