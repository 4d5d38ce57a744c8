"""A scheduler has a connection of its own while it runs."""

import asyncio

from alkstore_core import StopToken
from alkstore_postgres import PostgresOpts, PostgresStore

SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'alkstore%'
"""


async def test_held_transactions_do_not_starve_it(postgres_url, sql):
    """While open transactions hold the whole pool it takes the lead, fires and renews."""
    opts = PostgresOpts(pool_size=2, pool_timeout=0.2)
    stop = StopToken()
    async with PostgresStore(postgres_url, opts=opts) as store:
        await store.schedule("often", "@every 1s", "q", 1)
        async with store.begin_tx(), store.begin_tx(), asyncio.timeout(20):
            running = asyncio.create_task(store.run_schedules(stop))
            count = "SELECT count(*) FROM alkstore.__alkstore_jobs"
            while await sql.fetchval(count) < 2:  # noqa: ASYNC110 - the pool is held
                await asyncio.sleep(0.05)
            assert await sql.fetchval(SESSIONS) <= 2 + 1 + 1
            stop.stop()
            await running
        assert [] == await store.locks()
    assert 0 == await sql.fetchval(SESSIONS)
