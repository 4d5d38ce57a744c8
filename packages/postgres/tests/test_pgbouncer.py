"""A store behind PgBouncer in transaction mode: calls through it, LISTEN past it."""

import asyncio

import asyncpg
import pytest
from pgbouncer import SERVER_CONNECTIONS, PgBouncer, program
from server import sqlalchemy_url
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from alkstore_core import DatabaseError, StopToken
from alkstore_postgres import PostgresOpts, PostgresStore

pytestmark = pytest.mark.once


SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@pytest.fixture
def pooled_url(postgres_url):
    """The test's database by way of a PgBouncer of its own."""
    with PgBouncer(postgres_url) as pooler:
        yield pooler.url


@pytest.fixture
def opts(postgres_url):
    """What the guide says to give."""
    return PostgresOpts(pgbouncer=True, listen_url=postgres_url)


async def test_workers_share_few_connections(postgres_url, pooled_url, opts):
    """Ten workers on three server connections do each of 200 jobs once."""
    done = []

    async def work(store, name):
        queue = store.queue("jobs")
        while (handle := await queue.claim_one(name)) is not None:
            done.append(handle.job.payload_as(dict)["n"])
            async with store.transaction() as tx:
                await tx.connection.execute(text("SELECT pg_backend_pid()"))
                await tx.publish_tx("done", handle.job.payload_as(dict))
            assert await handle.ack()

    async with (
        PostgresStore(pooled_url, opts=opts) as store,
        PostgresStore(pooled_url, opts=opts) as other,
    ):
        await asyncio.gather(*(store.queue("jobs").enqueue({"n": n}) for n in range(200)))
        await asyncio.gather(
            *(work(each, f"{id(each)}:{n}") for each in (store, other) for n in range(5))
        )
        direct = await asyncpg.connect(postgres_url)
        # Two listeners beside them.
        assert SERVER_CONNECTIONS + 2 >= await direct.fetchval(SESSIONS)
        await direct.close()
        events = await store.stream("done").read_since(0, 1000)
    assert sorted(done) == list(range(200))
    assert sorted(done) == sorted(event.payload_as(dict)["n"] for event in events)


async def test_wakes_go_past_the_pooler(pooled_url, opts):
    """A listener of one store is woken by a commit of another."""
    async with (
        PostgresStore(pooled_url, opts=opts) as listening,
        PostgresStore(pooled_url, opts=opts) as telling,
        listening.listen("cache") as cache,
        listening.stream("orders").subscribe("billing") as events,
    ):
        await telling.notify("cache")
        assert "cache" == (await asyncio.wait_for(cache.recv(), 10)).channel
        async with telling.transaction() as tx:
            await tx.publish_tx("orders", {"placed": 1})
        event = await asyncio.wait_for(events.recv(), 10)
        assert {"placed": 1} == event.payload_as(dict)


async def test_polling_instead_of_an_address_to_listen(pooled_url):
    """Where nothing can LISTEN, a store that polls is woken all the same."""
    opts = PostgresOpts(pgbouncer=True, poll_interval=0.05)
    async with (
        PostgresStore(pooled_url, opts=opts) as listening,
        PostgresStore(pooled_url, opts=opts) as telling,
        listening.queue("jobs").wakes() as wakes,
    ):
        await telling.queue("jobs").enqueue({})
        assert "jobs" == (await asyncio.wait_for(wakes.recv(), 10)).channel


async def test_schedules_lead_through_the_pooler(pooled_url, opts):
    """Who leads is a row and no lock of a session, so schedules fire in transaction mode."""
    stop = StopToken()
    async with PostgresStore(pooled_url, opts=opts) as store:
        await store.schedule("tick", "@every 1s", "due", None)
        running = [asyncio.create_task(store.run_schedules(stop)) for _ in range(2)]
        queue = store.queue("due")
        async with queue.wakes(stop) as wakes:
            while (handle := await queue.claim_one("w")) is None:
                await asyncio.wait_for(wakes.recv(), 10)
            await handle.ack()
        stop.stop()
        await asyncio.gather(*running)


async def test_applications_own_engine(pooled_url, opts):
    """An application's engine that keeps no statements is shared, and its sessions are joined."""
    engine = create_async_engine(
        sqlalchemy_url(pooled_url),
        connect_args={
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": str,
        },
    )
    async with PostgresStore(engine, opts=opts) as store:
        for _ in range(5):
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(text("SELECT 1"))
                await store.join(session).enqueue_tx("jobs", {})
        assert 5 == (await store.queue("jobs").stats()).ready
    await engine.dispose()


async def test_session_mode(postgres_url):
    """In session mode LISTEN goes through the pooler; for the rest the option is the same."""
    with PgBouncer(postgres_url, {"pool_mode": "session"}) as pooler:
        opts = PostgresOpts(pgbouncer=True, pool_size=1, listen_url=pooler.url)
        async with (
            PostgresStore(pooler.url, opts=opts) as store,
            store.listen("cache") as wakes,
        ):
            notify = await asyncpg.connect(postgres_url)
            await notify.execute("NOTIFY cache")
            await notify.close()
            assert "cache" == (await asyncio.wait_for(wakes.recv(), 10)).channel
            await store.queue("jobs").enqueue({})


async def test_forgotten_option(pooled_url):
    """Without the option the pooler refuses at once: nothing fails later, by chance."""
    with pytest.raises(DatabaseError, match="default_transaction_isolation"):
        async with PostgresStore(pooled_url):
            pass


def test_missing_pooler_is_no_silent_skip(monkeypatch, tmp_path):
    """Where PgBouncer is not installed, and nobody said to do without, these tests fail."""
    monkeypatch.setenv("ALKSTORE_TEST_PGBOUNCER", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgbouncer.shutil.which", lambda *_, **__: None)
    with pytest.raises(LookupError, match="ALKSTORE_TEST_PGBOUNCER=off"):
        program()
