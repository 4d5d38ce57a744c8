"""A database whose default is SERIALIZABLE changes nothing for us."""

import asyncio
from urllib.parse import urlsplit

import pytest
from server import sqlalchemy_url
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import ManualClock, StopToken
from alkstore_postgres import PostgresStore


@pytest.fixture
async def serializable(postgres_url, sql):
    """A database where every transaction is serializable unless it says otherwise."""
    name = urlsplit(postgres_url).path[1:]
    await sql.execute(f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable')
    return postgres_url


async def drain(store, worker, done):
    """Claim and ack until nothing is left."""
    while handles := await store.queue("q").claim_batch(worker, 5):
        for handle in handles:
            assert await handle.ack()
            done.append(handle.job.id)


async def eight_workers(stores):
    """400 jobs, each done once."""
    ids = await stores[0].queue("q").enqueue_many(range(400))
    done = []
    await asyncio.gather(*(drain(s, f"w{n}", done) for n, s in enumerate(stores * 4)))
    assert sorted(ids) == sorted(done)


async def test_workers_on_our_own_engines(serializable):
    """Eight workers of two stores drain 400 jobs, each once, without an error."""
    async with PostgresStore(serializable) as one, PostgresStore(serializable) as two:
        await eight_workers([one, two])


async def test_workers_on_the_application_s_engine(serializable):
    """The same on engines of the application, whose connections keep the database's default."""
    url = sqlalchemy_url(serializable)
    engines = [create_async_engine(url), create_async_engine(url)]
    async with PostgresStore(engines[0]) as one, PostgresStore(engines[1]) as two:
        await eight_workers([one, two])
        await asyncio.gather(*(s.stream("s").publish(n) for n in range(20) for s in (one, two)))
        assert 40 == len(await one.stream("s").read_since(0, 100))
        async with one.transaction() as tx:
            await tx.publish_tx("s", 1)
            assert 41 == len(await tx.read_since_tx("s", 0, 100))
    for engine in engines:
        async with engine.connect() as connection:
            assert "SERIALIZABLE" == await connection.get_isolation_level()
        await engine.dispose()


async def test_two_runners_fire_each_boundary_once(serializable):
    """Two runners tick a schedule through 20 boundaries: 20 jobs, no error."""
    clock = ManualClock(1_700_000_000)
    async with (
        PostgresStore(serializable, clock=clock) as one,
        PostgresStore(serializable, clock=clock) as two,
    ):
        await one.schedule("each", "@every 10s", "q", {"n": 1})
        stop = StopToken()
        runners = [asyncio.create_task(s.run_schedules(stop)) for s in (one, two)]
        async with asyncio.timeout(30), one.queue("q").wakes() as wakes:
            for n in range(1, 21):
                await clock.advance(10)
                while (await one.queue("q").stats()).ready < n:
                    await wakes.recv()
        stop.stop()
        await asyncio.gather(*runners)
        assert 20 == (await one.queue("q").stats()).ready
