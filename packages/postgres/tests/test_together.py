"""Concurrent calls are one statement, and each caller is as if alone."""

import asyncio

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, literal_column

from alkstore_core import DatabaseError
from alkstore_core.spi import Topic
from alkstore_core.sql.op import Mode
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.channels import channel_of

PICKY = """
CREATE FUNCTION picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF convert_from(NEW.payload, 'UTF8') LIKE '%bad%' THEN RAISE EXCEPTION 'no bad ones'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER picky BEFORE INSERT ON alkstore.__alkstore_jobs
    FOR EACH ROW EXECUTE FUNCTION picky();
CREATE TRIGGER picky BEFORE INSERT ON alkstore.__alkstore_events
    FOR EACH ROW EXECUTE FUNCTION picky();
"""
COUNT = """
CREATE TABLE statements (n int);
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END $$;
CREATE TRIGGER counted AFTER INSERT OR DELETE ON alkstore.__alkstore_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION counted();
"""


async def test_one_caller_s_error_is_never_another_s(store, sql):
    """Of fifty concurrent enqueues and publishes exactly those fail whose row is refused."""
    await sql.execute(PICKY)
    payloads = [f"bad {n}" if n % 10 == 0 else f"good {n}" for n in range(50)]
    for call in (store.queue("q").enqueue, store.stream("s").publish):
        outcomes = await asyncio.gather(*map(call, payloads), return_exceptions=True)
        refused = [isinstance(outcome, DatabaseError) for outcome in outcomes]
        assert [payload.startswith("bad") for payload in payloads] == refused
        kept = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(set(kept)) == 45
    assert 45 == (await store.queue("q").stats()).ready
    assert 45 == len(await store.stream("s").read_since(0, 100))


async def test_fifty_calls_are_a_few_statements(store, sql):
    """Fifty concurrent enqueues are one statement, then fifty acks one or two that share them."""
    await sql.execute(COUNT)
    queue = store.queue("q")
    ids = await asyncio.gather(*(queue.enqueue(n) for n in range(50)))
    assert 50 == len(set(ids))
    assert 1 == await sql.fetchval("SELECT count(*) FROM statements")
    handles = await queue.claim_batch("w", 50)
    assert all(await asyncio.gather(*(handle.ack() for handle in handles)))
    assert (await sql.fetchval("SELECT count(*) FROM statements")) in {2, 3}


async def test_ids_belong_to_their_callers(store):
    """Each concurrent caller gets the id of its own job, and the offset of its own event."""
    ids = await asyncio.gather(*(store.queue("q").enqueue(n) for n in range(100)))
    many = await asyncio.gather(*(store.queue("q").enqueue_many([n, -n]) for n in range(1, 20)))
    jobs = {job.id: int(job.payload) for job in await store.queue("q").jobs(limit=1000)}
    assert list(range(100)) == [jobs[id_] for id_ in ids]
    assert [[n, -n] for n in range(1, 20)] == [[jobs[id_] for id_ in pair] for pair in many]
    offsets = await asyncio.gather(*(store.stream("s").publish(n) for n in range(100)))
    events = {e.offset: int(e.payload) for e in await store.stream("s").read_since(0, 1000)}
    assert list(range(100)) == [events[offset] for offset in offsets]


async def test_two_acks_of_one_claim(store):
    """Of several concurrent acks of one claim exactly one has done it."""
    await store.queue("q").enqueue(1)
    handle = await store.queue("q").claim_one("w")
    other = await store.queue("q").claim_one("w")
    assert other is None
    ids = [handle.job.id]
    counts = await asyncio.gather(
        *(store.queue("q").ack_batch(ids, "w") for _ in range(5)), handle.ack()
    )
    assert 1 == sum(counts)


async def test_a_statement_notifies_once_and_only_if_it_did_something(store, sql):
    """Many jobs are one notification, and a retry that comes too late is none."""
    queue = store.queue("q")
    await queue.enqueue(1)
    handle = await queue.claim_one("w")
    assert 1 == await queue.ack_batch([handle.job.id], "w")
    heard, end = [], asyncio.Event()
    channel = channel_of("alkstore", Topic("queue", "q"))
    await sql.add_listener(channel, lambda *_: heard.append(channel))
    await sql.add_listener("end", lambda *_: end.set())
    assert not await handle.retry()
    assert 5 == len(await queue.enqueue_many(range(5)))
    await store.notify("end")
    async with asyncio.timeout(10):
        await end.wait()
    assert [channel] == heard


async def test_a_pool_that_is_taken_is_an_error_in_time(postgres_url):
    """When open transactions hold every connection, each call ends with a `DatabaseError`."""
    opts = PostgresOpts(pool_size=2, pool_timeout=0.3)
    async with PostgresStore(postgres_url, opts=opts) as store:
        async with store.begin_tx(), store.begin_tx(), asyncio.timeout(5):
            outcomes = await asyncio.gather(
                *(store.queue("q").enqueue(n) for n in range(20)),
                store.queue("q").stats(),
                store.begin_tx().__aenter__(),
                return_exceptions=True,
            )
        assert {DatabaseError} == {type(outcome) for outcome in outcomes}
        assert all("pool_size" in str(outcome) for outcome in outcomes)
        assert 1 == len(await store.queue("q").enqueue_many([1]))


async def test_deadlocks_are_nobody_s_business(store):
    """Batches that settle the same jobs in every order, sweeps between: no error, each once."""
    queue = store.queue("q")
    ids = await queue.enqueue_many(range(200))
    assert 200 == len(await queue.claim_batch("w", 200))
    orders = [ids, ids[::-1], ids[1::2] + ids[::2]]
    counts = await asyncio.gather(
        *(queue.ack_batch(order, "w") for order in orders * 3),
        *(queue.sweep_expired() for _ in range(5)),
    )
    assert 200 == sum(counts)


async def test_a_changed_table_under_running_workers(store, sql):
    """A column more, seen by nobody's prepared statement, in or out of a transaction of ours."""
    queue = store.queue("q")
    stop = asyncio.Event()

    async def work():
        done = 0
        while not stop.is_set():
            await queue.enqueue_many([1, 2])
            for handle in await queue.claim_batch("w", 2):
                done += await handle.ack()
            await store.schedule("name", "@every 1h", "q", 1)
            await queue.get_job(1)
        return done

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for n in range(6):
        await asyncio.sleep(0.05)
        await sql.execute(f"ALTER TABLE alkstore.__alkstore_jobs ADD COLUMN extra{n} int")
        await sql.execute("ALTER TABLE alkstore.__alkstore_dead_jobs ADD COLUMN e int DEFAULT 1")
        await sql.execute("ALTER TABLE alkstore.__alkstore_dead_jobs DROP COLUMN e")
    stop.set()
    assert all(await asyncio.gather(*workers))


async def test_what_is_done_and_cannot_be_read_is_not_done_again(store, sql):
    """A statement alone is committed before its rows are read; one unread is not repeated."""
    await sql.execute("CREATE TABLE alkstore.log (n int)")
    log = Table("log", MetaData(), Column("n", Integer))
    # The whole row: once the table has a column more, asyncpg cannot read it.
    one = literal_column("1", Integer)
    statement = insert(log).values(n=one).returning(literal_column("log"))

    def write():
        return (yield statement, {}).count

    driver = store._runtime.engine._driver
    driver._stepwise |= {write}
    # All on one connection, which remembers what the row looked like.
    assert 1 == await driver.run(Mode.WRITE, write)
    await sql.execute("ALTER TABLE alkstore.log ADD COLUMN more int")
    with pytest.raises(DatabaseError, match="unknown"):
        await driver.run(Mode.WRITE, write)
    assert 2 == await sql.fetchval("SELECT count(*) FROM alkstore.log")


async def test_our_statements_wait_no_longer_than_they_may(postgres_url, sql):
    """A row that somebody else's transaction holds is a `DatabaseError` after the time-out."""
    opts = PostgresOpts(statement_timeout=0.3)
    async with PostgresStore(postgres_url, opts=opts) as store:
        await store.queue("q").enqueue(1)
        handle = await store.queue("q").claim_one("w")
        async with sql.transaction():
            await sql.execute("SELECT FROM alkstore.__alkstore_jobs FOR UPDATE")
            async with asyncio.timeout(5):
                with pytest.raises(DatabaseError, match="timeout"):
                    await handle.ack()
        assert await handle.ack()
