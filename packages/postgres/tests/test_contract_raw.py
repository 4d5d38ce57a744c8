"""What rates are divided by: plain asyncpg has really done the work, on the same tables."""

from typing import get_args

import pytest

from alkstore_contract import RawWorkload
from alkstore_contract.bench_rounds import WORKLOADS, Pace, sample
from alkstore_postgres.contract import SERVER, PostgresHarness
from alkstore_postgres.contract_raw import POOL, raw_pool, raw_rows

TINY = Pace(rounds=3, slices=1, seconds=0.001, wakes=2)
BY_NAME = {workload.name: workload for workload in WORKLOADS}


@pytest.mark.parametrize("workload", get_args(RawWorkload))
def test_plain_asyncpg_does_every_workload(workload, postgres_url, monkeypatch):
    """The kit counts after each call what it left in the tables, and there is a ratio."""
    monkeypatch.setenv(SERVER, postgres_url)
    found = sample(PostgresHarness(), BY_NAME[workload], TINY)
    assert found.raw > 0
    assert found.engine > 0


async def test_producers_share_a_pool_of_ten(store, postgres_url, sql):
    """Not fewer connections, which would flatter us, and not more than were promised."""
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before = await sql.fetchval(count)
    async with raw_pool(postgres_url, "alkstore", b"1") as pool:
        assert before + POOL == await sql.fetchval(count)
        await pool.enqueue()
    assert 1 == (await store.queue("bench").stats()).ready


async def test_a_raw_claim_takes_the_jobs_that_a_claim_would_take(store, postgres_url):
    """In the same order, so many as it should, and a deleted job is gone."""
    queue = store.queue("bench")
    ids = await queue.enqueue_many(range(5))
    async with raw_rows(postgres_url, "alkstore", b"1") as [rows]:
        claimed = await rows.claim(3)
        assert ids[:3] == sorted(row["id"] for row in claimed)
        handle = await queue.claim_one("w")
        assert ids[3] == handle.job.id
        await rows.delete(claimed)
        assert 2 == await rows.claim_and_delete() + (await queue.stats()).processing
    assert 0 == (await queue.stats()).ready
