"""Cancelled calls are whole or absent, strand no job and leave no session behind."""

import asyncio
import contextlib
import random

from alkstore_postgres import PostgresOpts, PostgresStore

SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'alkstore%'
"""
OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""


async def transact(store):
    """A transaction of two statements."""
    async with store.transaction() as tx:
        await tx.enqueue_tx("t", 1)
        await tx.publish_tx("s", 1)


def calls(store):
    """One call of each kind that waits for the server."""
    queue, stream = store.queue("q"), store.stream("s")
    return (
        lambda: queue.enqueue(1),
        lambda: queue.enqueue_many([1, 2, 3]),
        lambda: queue.claim_one("w"),
        lambda: queue.claim_batch("w", 5),
        lambda: stream.publish(1),
        lambda: stream.read_since(0, 10),
        lambda: transact(store),
        lambda: store.try_lock("l", "me", 10),
        queue.stats,
    )


async def test_three_hundred_cancelled_calls(postgres_url, sql):
    """On a pool of 5: sessions stay within pool and listener, all jobs can be claimed after it."""
    chance = random.Random(3)
    async with PostgresStore(postgres_url, opts=PostgresOpts(pool_size=5)) as store:
        await store.queue("q").enqueue_many(range(200))
        kinds = calls(store)

        async def cancelled(number):
            task = asyncio.create_task(kinds[number % len(kinds)]())
            await asyncio.sleep(chance.uniform(0, 0.03))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                return await task

        kept = 0
        for start in range(0, 300, 30):
            for value in await asyncio.gather(*(cancelled(n) for n in range(start, start + 30))):
                if isinstance(value, list) and value and hasattr(value[0], "ack"):
                    kept += len(value)
                elif hasattr(value, "ack"):
                    kept += 1
            assert await sql.fetchval(SESSIONS) <= 5 + 1
        await asyncio.wait_for(store.queue("q").enqueue(1), 10)
        # What was cancelled is given back in the background; nothing else holds a job.
        async with asyncio.timeout(10):
            while (await store.queue("q").stats()).processing != kept:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        stats = await store.queue("q").stats()
        rest = await store.queue("q").claim_batch("w", 10_000)
        assert stats.ready == len(rest)
        assert {1} == {handle.job.attempts for handle in rest}
        assert 0 == await sql.fetchval(OPEN)
    assert 0 == await sql.fetchval(SESSIONS)


async def test_a_call_that_has_not_started_is_never_made(postgres_url, sql):
    """While the pool is taken, a cancelled enqueue that waits for its turn never happens."""
    async with PostgresStore(postgres_url, opts=PostgresOpts(pool_size=1)) as store:
        async with store.begin_tx():
            calls = [asyncio.create_task(store.queue("q").enqueue(n)) for n in range(3)]
            await asyncio.sleep(0.05)
            late = asyncio.create_task(store.queue("q").enqueue(99))
            await asyncio.sleep(0.05)
            late.cancel()
        await asyncio.gather(*calls)
        stored = [int(job.payload) for job in await store.queue("q").jobs()]
        assert [0, 1, 2] == sorted(stored)
