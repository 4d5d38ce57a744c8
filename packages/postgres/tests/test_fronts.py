"""Claims that go on where the last one arrived, beside an old snapshot."""

import contextlib
import random
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import asyncpg as dialect

from alkstore_core import DatabaseError, EnqueueOpts, ManualClock
from alkstore_core.sql.compile import Compiler
from alkstore_postgres import PostgresOpts, PostgresStore, claims, fronts

pytestmark = pytest.mark.once

JOBS = "alkstore.__alkstore_jobs"
BEST = f"""
SELECT id FROM {JOBS} WHERE queue = 'q' AND state = 'ready'
ORDER BY priority DESC, run_at, id LIMIT 1
"""


@pytest.fixture
def always(monkeypatch):
    """Each search was slow, and a front stays."""
    monkeypatch.setattr(claims, "SLOW_SECONDS", -1)
    monkeypatch.setattr(fronts, "LIFE_SECONDS", 1e9)


@pytest.fixture
def behind(monkeypatch):
    """What claims found behind a front, claim by claim."""
    counts = []
    claim_behind = claims._claim_behind

    def counted(*args):
        found = yield from claim_behind(*args)
        counts.append(len(found))
        return found

    monkeypatch.setattr(claims, "_claim_behind", counted)
    return counts


@contextlib.asynccontextmanager
async def another(url):
    """A connection of somebody else's."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def claimed(queue, n=1):
    """The payloads of the next jobs."""
    return [handle.job.payload_as(Any) for handle in await queue.claim_batch("w", n)]


async def test_goes_on_behind(always, behind, store):
    """From the second claim on nothing before the front is looked at."""
    queue = store.queue("q")
    await queue.enqueue_many(range(6))

    assert [[0, 1], [2], [3, 4]] == [await claimed(queue, n) for n in (2, 1, 2)]

    assert [0, 1, 2] == behind


@pytest.mark.parametrize("opts", [EnqueueOpts(priority=1), EnqueueOpts(run_at=1)])
async def test_newcomer(always, behind, store, opts):
    """A job that belongs before the front is the next, whenever it came."""
    queue = store.queue("q")
    await queue.enqueue_many(range(4))
    await claimed(queue)
    await queue.enqueue("first", opts)

    assert [["first"], [1]] == [await claimed(queue) for _ in range(2)]

    assert [0, 0] == behind[:2]


async def test_newcomer_of_a_long_transaction(always, store, postgres_url):
    """What an older transaction enqueued is before the front, and was not there when it was set."""
    queue = store.queue("q")
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", "early")
        await queue.enqueue_many(range(9))
        async with another(postgres_url) as busy:
            # Other transactions come and go, so that its number is far from the newest.
            for _ in range(5):
                assert 1 == len(await claimed(queue))
                await busy.execute("SELECT pg_current_xact_id()")
        await tx.commit()

    assert ["early"] == await claimed(queue)


async def test_given_back_before_the_front(always, postgres_url):
    """A job that is claimable again is before the front, and the next one."""
    async with PostgresStore(postgres_url, clock=ManualClock(1_700_000_000)) as store:
        queue = store.queue("q")
        await queue.enqueue_many(range(5))
        first, second = await queue.claim_batch("w", 2)
        assert await first.release()
        assert [0] == await claimed(queue)
        assert await second.retry("again", 0)
        assert [[1], [2]] == [await claimed(queue) for _ in range(2)]


async def test_lapsed_before_the_front(always, postgres_url):
    """A claim that lapsed is before the front as well."""
    clock = ManualClock(1_700_000_000)
    async with PostgresStore(postgres_url, clock=clock) as store:
        queue = store.queue("q")
        await queue.enqueue_many(range(5))
        assert [0] == await claimed(queue)
        assert [1] == await claimed(queue)
        await clock.advance(301)
        assert [0, 1, 2] == await claimed(queue, 3)


async def test_claim_that_came_to_nothing(always, store, postgres_url):
    """What another claim held and did not take is found when nothing else is left."""
    queue = store.queue("q")
    await queue.enqueue_many(range(4))
    async with another(postgres_url) as other:
        held = other.transaction()
        await held.start()
        await other.fetch(f"{BEST} FOR UPDATE")
        assert [1] == await claimed(queue)
        await held.rollback()

    assert [[2], [3], [0], []] == [await claimed(queue) for _ in range(4)]


async def test_what_was_claimed_is_handed_out_when_the_rest_fails(always, monkeypatch, store):
    """A claim that took some jobs behind the front, and then fails at the beginning, gives those:
    nobody else could, before they lapse. One that has none tells of the failure.
    """
    queue = store.queue("q")
    await queue.enqueue_many(range(3))
    await queue.enqueue("low", EnqueueOpts(priority=-1))
    assert [0] == await claimed(queue)

    def fail(*args):
        yield text("SELECT 1 / 0"), {}

    with monkeypatch.context() as broken:
        broken.setattr(claims, "_claim_from_the_beginning", fail)
        assert [1, 2] == await claimed(queue, 3)
        with pytest.raises(DatabaseError, match="division by zero"):
            await queue.claim_batch("w", 3)

    assert ["low"] == await claimed(queue, 3)


async def test_a_claim_that_is_undone_half_way_goes_on(always, monkeypatch, store):
    """What it took before the server undid a step for others' sake is in the answer, once."""
    queue = store.queue("q")
    await queue.enqueue_many(range(3))
    await queue.enqueue("low", EnqueueOpts(priority=-1))
    assert [0] == await claimed(queue)
    claim_from_the_beginning = claims._claim_from_the_beginning
    undone = []

    def fail_once(*args):
        if not undone:
            undone.append(1)
            yield text("DO $$ BEGIN RAISE deadlock_detected; END $$"), {}
        return (yield from claim_from_the_beginning(*args))

    monkeypatch.setattr(claims, "_claim_from_the_beginning", fail_once)
    assert [1, 2, "low"] == await claimed(queue, 4)
    assert undone


async def test_a_front_grows_old(always, monkeypatch, store, postgres_url):
    """After a second a claim begins at the beginning."""
    queue = store.queue("q")
    await queue.enqueue_many(range(4))
    async with another(postgres_url) as other:
        held = other.transaction()
        await held.start()
        await other.fetch(f"{BEST} FOR UPDATE")
        assert [1] == await claimed(queue)
        await held.rollback()
    monkeypatch.setattr(fronts, "LIFE_SECONDS", -1)

    assert [0] == await claimed(queue)


@pytest.mark.parametrize("seed", range(6))
async def test_each_claim_takes_the_best(always, behind, postgres_url, seed):
    """Whatever happened to jobs before: a claim takes the one that SQL says is the best."""
    chance = random.Random(seed)
    clock = ManualClock(1_700_000_000)
    opts = PostgresOpts(pool_size=3)
    async with (
        another(postgres_url) as sql,
        PostgresStore(postgres_url, clock=clock, opts=opts) as store,
        PostgresStore(postgres_url, clock=clock, opts=opts) as neighbour,
    ):
        queues = [store.queue("q"), neighbour.queue("q")]
        handles = []
        taken = 0
        for _ in range(250):
            queue = chance.choice(queues)
            match chance.choice("eeecccccrtab"):
                case "e":
                    priority = chance.choice((0, 0, 0, 0, 0, 1, -1))
                    await queue.enqueue("x", EnqueueOpts(priority=priority))
                case "c":
                    best = await sql.fetchval(BEST)
                    handle = await queue.claim_one("w")
                    assert best == (handle and handle.job.id)
                    if handle is not None:
                        taken += 1
                        handles.append(handle)
                case "r" if handles:
                    assert await handles.pop(chance.randrange(len(handles))).release()
                case "t" if handles:
                    handle = handles.pop(chance.randrange(len(handles)))
                    assert await handle.retry("again", 0)
                case "a" if handles:
                    assert await handles.pop(chance.randrange(len(handles))).ack()
                case "b":
                    await clock.advance(1)
    assert taken > 50
    assert any(behind)


async def test_search_behind_is_short(store, sql, postgres_url):
    """Beside an old snapshot a claim from the front reads few pages; from the beginning, many."""
    queue = store.queue("q")
    await queue.enqueue("x")
    async with another(postgres_url) as reader, reader.transaction(isolation="repeatable_read"):
        await reader.execute(f"SELECT FROM {JOBS}")
        for _ in range(10):
            await queue.enqueue_many(["x"] * 1000)
            handles = await queue.claim_batch("w", 1000)
            assert 1000 == await queue.ack_batch(handles, "w")
        last = handles[-1].job
        since = await sql.fetchval("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
        await queue.enqueue_many(["x"] * 10)
        row = {"queue": "q", "worker_id": "w", "limit": 1, "now": None, "slow": 1.0}
        front = fronts.Front(last.priority, last.run_at, last.id, since, 0.0)

        async def pages(statement, given):
            compiler = Compiler(dialect.dialect()).for_schema("alkstore")
            text, arguments, _ = compiler.request(statement, given)
            rows = await sql.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT) {text}", *arguments)
            first = next(line for (line,) in rows if "Buffers" in line)
            return sum(int(part.partition("=")[2]) for part in first.split() if "=" in part)

        from_front = await pages(claims.CLAIM_BEHIND, {**row, **front.parameters})
        from_beginning = await pages(claims.CLAIM, row)

    assert from_front * 4 < from_beginning


async def test_a_job_that_changed_its_place_marks_no_front(always, store, sql, postgres_url):
    """What was made ready again while a claim waited for it stands elsewhere than was looked at."""
    queue = store.queue("q")
    await queue.enqueue_many(range(4))
    row = {"queue": "q", "worker_id": "w", "limit": 4, "now": None, "slow": -1}
    text, arguments, _ = (
        Compiler(dialect.dialect()).for_schema("alkstore").request(claims.CLAIM, row)
    )
    # As if between the look and the lock: in the claim's own transaction, so not in its snapshot's
    # past.
    async with sql.transaction():
        await sql.execute(f"UPDATE {JOBS} SET run_at = run_at + 60, state = 'ready' WHERE id = 2")
        rows = await sql.fetch(text, *arguments)

    marks = {found[0]: found[-1] for found in rows}
    assert [False, True, False, False] == [marks[number] is None for number in (1, 2, 3, 4)]


async def test_a_front_is_the_last_job_that_was_seen(store):
    """Jobs without a mark move no front."""
    queue = store.queue("q")
    await queue.enqueue_many(range(3))
    first, second, third = [handle.job for handle in await queue.claim_batch("w", 3)]
    known = fronts.Fronts()

    known.put("q", [(first, None), (second, None)])
    assert known.get("q") is None
    known.put("q", [(first, 5), (second, 7), (third, None)])
    front = known.get("q")
    assert (second.priority, second.run_at, second.id, 7) == front[:4]
    known.put("q", [(third, None)], moved=front)
    assert front is known.get("q")


async def test_a_front_keeps_no_payload(store):
    """The jobs that it was made of are let go, however large they are."""
    queue = store.queue("q")
    await queue.enqueue("x")
    (handle,) = await queue.claim_batch("w", 1)
    known = fronts.Fronts()
    known.put("q", [(handle.job, 5)])
    assert {int, float} == set(map(type, known.get("q")))
