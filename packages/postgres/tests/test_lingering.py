"""Connections that were given back are at hand for a while, and in nobody's way."""

import asyncio

import pytest
from sqlalchemy import event

from alkstore_postgres import PostgresOpts, PostgresStore, connections


@pytest.fixture
def checkouts():
    """Count what a store takes out of its pool."""

    def count(store):
        taken = []
        engine = store._runtime.engine._connections.engine.sync_engine
        event.listen(engine, "checkout", lambda *_: taken.append(1))
        return taken

    return count


async def test_one_call_after_the_other_has_it_at_hand(store, checkouts, monkeypatch):
    """Whoever calls again at once does not go through the pool."""
    monkeypatch.setattr(connections, "LINGER", 60)
    await store.queue("q").enqueue(0)
    taken = checkouts(store)
    for n in range(10):
        await store.queue("q").enqueue(n)
        handle = await store.queue("q").claim_one("w")
        assert await handle.ack()
    assert len(taken) <= 1


async def test_calls_at_the_same_time_have_one_each(store, checkouts, monkeypatch):
    """So do those who call together, as a worker does that claims and acknowledges."""
    monkeypatch.setattr(connections, "LINGER", 60)
    queue = store.queue("q")
    taken = checkouts(store)
    for _ in range(10):
        await asyncio.gather(queue.enqueue(0), queue.claim_one("w"), queue.stats())
    assert len(taken) <= 3


async def test_it_goes_back_by_itself(store, monkeypatch):
    """A while after the last call the pool has all its connections."""
    monkeypatch.setattr(connections, "LINGER", 0.01)
    engine = store._runtime.engine._connections.engine.sync_engine
    back = asyncio.Event()
    event.listen(engine, "checkin", lambda *_: back.set())
    await store.queue("q").enqueue(1)
    async with asyncio.timeout(10):
        await back.wait()


async def test_a_closed_store_has_given_it_back(postgres_url, sql, monkeypatch):
    """Closing does not wait for the moment to pass, and leaves no session behind."""
    monkeypatch.setattr(connections, "LINGER", 60)
    async with PostgresStore(postgres_url) as store:
        await store.queue("q").enqueue(1)
        pool = store._runtime.engine._connections.engine.sync_engine.pool
        assert 1 == pool.checkedout()
    assert 0 == pool.checkedout()
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'alkstore%'"
    count += " AND datname = current_database()"
    async with asyncio.timeout(10):
        while await sql.fetchval(count):
            pass


async def test_it_is_not_kept_from_a_transaction(postgres_url, monkeypatch):
    """When the pool has nothing else left, it goes back at once, however much is called."""
    monkeypatch.setattr(connections, "LINGER", 60)
    opts = PostgresOpts(pool_size=2, pool_timeout=20)
    async with PostgresStore(postgres_url, opts=opts) as store, store.begin_tx() as one:
        await one.enqueue_tx("q", 0)
        stop = asyncio.Event()

        async def work():
            done = 0
            while not stop.is_set():
                await store.queue("q").enqueue(1)
                done += 1
            return done

        working = asyncio.create_task(work())
        async with asyncio.timeout(10):
            for _ in range(3):
                async with store.begin_tx() as other:
                    await other.enqueue_tx("q", 2)
                    await other.commit()
        stop.set()
        assert await working


async def test_transactions_get_all_that_are_at_hand(postgres_url, monkeypatch):
    """Who begins as many transactions as the pool has connections waits for none of them."""
    monkeypatch.setattr(connections, "LINGER", 60)
    opts = PostgresOpts(pool_size=3, pool_timeout=0.5)
    async with PostgresStore(postgres_url, opts=opts) as store:
        queue = store.queue("q")
        await asyncio.gather(queue.stats(), queue.claim_one("w"))
        assert 2 == len(store._runtime.engine._connections._at_hand)
        async with store.begin_tx(), store.begin_tx(), store.begin_tx() as tx:
            await tx.enqueue_tx("q", 1)
            await tx.commit()
        assert 1 == (await queue.stats()).ready


async def test_one_that_the_server_has_closed_is_not_used(store, sql, monkeypatch):
    """A session that was cut off while it was at hand is no caller's error."""
    monkeypatch.setattr(connections, "LINGER", 60)
    await store.queue("q").enqueue(1)
    raw = store._runtime.engine._connections._at_hand[-1].raw
    closed = asyncio.Event()
    raw.add_termination_listener(lambda _: closed.set())
    await sql.execute(f"SELECT pg_terminate_backend({raw.get_server_pid()}, 10000)")
    async with asyncio.timeout(10):
        await closed.wait()
    await store.queue("q").enqueue(2)
    assert 2 == (await store.queue("q").stats()).ready
