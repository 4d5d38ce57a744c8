"""Transactions of our own and the caller's: what a commit says is true."""

import asyncio

import asyncpg
import pytest
from server import sqlalchemy_url
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore

OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""
KILL_OPEN = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""


async def fail(connection):
    """A statement of the caller's that the server refuses; they carry on all the same."""
    with pytest.raises(SQLAlchemyError):
        await connection.execute(text("SELECT 1 / 0"))


async def test_a_commit_after_a_failed_statement_is_no_success(store, sql):
    """Postgres answers ROLLBACK to such a COMMIT; the caller hears that nothing is there."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    await fail(tx.connection)
    with pytest.raises(DatabaseError, match="nothing was committed"):
        await tx.commit()
    assert 0 == (await store.queue("q").stats()).ready
    assert 0 == await sql.fetchval(OPEN)


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
async def test_a_commit_of_what_was_ended_before_is_no_success(store, sql, end):
    """Postgres answers COMMIT to a COMMIT outside of transactions. Who ended ours by hand hears
    that it was over, and the connection is none the worse for it.
    """
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    await tx.connection.exec_driver_sql(end)
    with pytest.raises(DatabaseError, match="nothing to commit"):
        await tx.commit()
    assert (1 if end == "COMMIT" else 0) == (await store.queue("q").stats()).ready
    assert 0 == await sql.fetchval(OPEN)
    async with store.transaction() as another:
        await another.enqueue_tx("q2", 2)
    assert 1 == (await store.queue("q2").stats()).ready


async def test_what_a_server_refuses_to_commit_is_not_in_doubt(store, sql):
    """A constraint that is checked at the commit undoes the transaction, and nobody wonders."""
    await sql.execute("CREATE TABLE business (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    await tx.connection.execute(text("INSERT INTO business VALUES (1), (1)"))
    with pytest.raises(DatabaseError, match="refused") as refusal:
        await tx.commit()
    assert "unknown" not in str(refusal.value)
    assert 0 == (await store.queue("q").stats()).ready
    assert 0 == await sql.fetchval(OPEN)


@pytest.mark.parametrize("transactional", [False, True])
async def test_deallocated_statements_are_prepared_anew(postgres_url, transactional):
    """Whoever deallocates all prepared statements of a pooled connection, asyncpg's included,
    costs the calls that come next nothing, and a transaction no more than itself.
    """
    async with PostgresStore(postgres_url, opts=PostgresOpts(pool_size=1)) as store:
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)
            await tx.connection.exec_driver_sql("DEALLOCATE ALL")
        if transactional:
            with pytest.raises(DatabaseError, match="does not exist"):
                async with store.transaction() as tx:
                    await tx.enqueue_tx("q", 2)
            async with store.transaction() as tx:
                await tx.enqueue_tx("q", 2)
        else:
            await store.queue("q").enqueue(2)
        assert 2 == (await store.queue("q").stats()).ready


@pytest.mark.parametrize("joined", [False, True])
async def test_a_consumer_never_passes_what_others_may_commit(store, postgres_url, joined):
    """A transaction that publishes to the stream that it consumes is not shown its own event while
    a lower one can still commit: the offset saved behind it would skip that one.
    """
    other = await store.begin_tx()
    lower = await other.publish_tx("s", "lower")
    engine = create_async_engine(sqlalchemy_url(postgres_url))
    async with engine.begin() as connection, store.begin_tx() as own:
        tx = store.join(connection) if joined else own
        higher = await tx.publish_tx("s", "higher")
        assert [] == await tx.read_from_consumer_tx("s", "c", 9)
        assert [higher] == [event.offset for event in await tx.read_since_tx("s", 0, 9)]
        await other.commit()
        events = await tx.read_from_consumer_tx("s", "c", 9)
        assert [lower, higher] == [event.offset for event in events]
    await engine.dispose()


async def test_a_savepoint_saves_the_rest(store):
    """A failed statement behind a savepoint costs what came after it, no more."""
    async with store.transaction() as tx:
        await tx.enqueue_tx("q", 1)
        savepoint = await tx.connection.begin_nested()
        await tx.enqueue_tx("q", 2)
        await fail(tx.connection)
        await savepoint.rollback()
    assert 1 == (await store.queue("q").stats()).ready


async def test_business_writes_ride_along(store, sql):
    """What is executed on the handle's connection commits or vanishes with it."""
    await sql.execute("CREATE TABLE business (n int)")
    async with store.transaction() as tx:
        await tx.connection.execute(text("INSERT INTO business VALUES (1)"))
        await tx.enqueue_tx("q", 1)
    tx = await store.begin_tx()
    await tx.connection.execute(text("INSERT INTO business VALUES (2)"))
    await tx.rollback()
    assert [1] == [row["n"] for row in await sql.fetch("SELECT n FROM business")]
    assert 1 == (await store.queue("q").stats()).ready


async def test_the_caller_s_statements_are_planned_as_ever(store):
    """What the planner is told is about our statements, not about those that ride along."""
    async with store.transaction() as tx:
        assert "auto" == await tx.connection.scalar(text("SHOW plan_cache_mode"))
        assert "on" == await tx.connection.scalar(text("SHOW enable_seqscan"))


async def test_a_killed_session_is_an_error_and_no_more(store, sql):
    """A transaction whose backend is gone cannot be used or committed; the store goes on."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    await sql.fetch(KILL_OPEN)
    with pytest.raises(DatabaseError):
        await tx.enqueue_tx("q", 2)
    with pytest.raises(DatabaseError):
        await tx.commit()
    assert 0 == (await store.queue("q").stats()).ready
    async with store.transaction() as another:
        await another.enqueue_tx("q", 3)
    assert 1 == (await store.queue("q").stats()).ready


async def test_a_connection_lost_in_commit_leaves_it_open(store, sql):
    """The error says that nobody knows."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    await sql.fetch(KILL_OPEN)
    with pytest.raises(DatabaseError, match="unknown"):
        await tx.commit()


async def test_a_cancelled_statement_of_the_caller_s_ends_the_transaction(store, sql):
    """SQLAlchemy gives such a connection up, and nothing of it stays open or is committed."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    sleeping = asyncio.create_task(tx.connection.execute(text("SELECT pg_sleep(60)")))
    await asyncio.sleep(0.1)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    with pytest.raises(DatabaseError):
        await tx.commit()
    async with asyncio.timeout(10):
        while await sql.fetchval(OPEN):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert 0 == (await store.queue("q").stats()).ready


async def test_dropped_handles_give_their_connections_back(postgres_url, sql):
    """A handle that is lost rolls back; a pool of one is free again without help."""
    async with PostgresStore(postgres_url, opts=PostgresOpts(pool_size=1)) as store:
        for _ in range(5):
            tx = await store.begin_tx()
            await tx.enqueue_tx("q", 1)
            del tx
        assert 0 == (await store.queue("q").stats()).ready
        assert 0 == await sql.fetchval(OPEN)


async def test_joined_to_another_database_is_refused(store, databases):
    """A joined connection has to lead to this store's own tables."""
    with databases.empty() as elsewhere:
        engine = create_async_engine(sqlalchemy_url(elsewhere))
        async with PostgresStore(elsewhere), engine.connect() as connection:
            with pytest.raises(DatabaseError, match="another database"):
                await store.join(connection).enqueue_tx("q", 1)
        await engine.dispose()
    sqlite = create_engine("sqlite://")
    with sqlite.connect() as connection, pytest.raises(DatabaseError, match="sqlite"):
        store.join(connection).enqueue_tx("q", 1)
    sqlite.dispose()


async def test_the_application_s_engine_is_not_ours(postgres_url, sql):
    """A store on an `AsyncEngine` uses its pool, joins its sessions and does not dispose it."""
    engine = create_async_engine(sqlalchemy_url(postgres_url), pool_size=2, max_overflow=0)
    async with PostgresStore(engine) as store:
        await store.queue("q").enqueue(1)
        async with AsyncSession(engine) as session, session.begin():
            await store.join(session).enqueue_tx("q", 2)
            await store.join(session).publish_tx("s", 2)
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 3)
        assert 3 == (await store.queue("q").stats()).ready
    async with engine.connect() as connection:
        assert 3 == await connection.scalar(text("SELECT count(*) FROM alkstore.__alkstore_jobs"))
        assert "READ COMMITTED" == await connection.get_isolation_level()
    assert engine.pool.checkedout() == 0
    await engine.dispose()


async def test_joined_sessions_of_psycopg(store, postgres_url):
    """A blocking `Session` carries calls as well, and its rollback takes them along."""

    def business():
        engine = create_engine(sqlalchemy_url(postgres_url, "psycopg"))
        with Session(engine) as session:
            joined = store.join(session)
            ids = joined.enqueue_many_tx("q", ["100%", {"ü": None}])
            assert ids[0] == joined.get_job_tx("q", ids[0]).id
            session.commit()
            store.join(session).enqueue_tx("q", "never")
            session.rollback()
        engine.dispose()

    async with store.queue("q").wakes() as wakes:
        await asyncio.to_thread(business)
        async with asyncio.timeout(5):
            await wakes.recv()
    payloads = [job.payload for job in await store.queue("q").jobs()]
    assert [b'"100%"', '{"ü":null}'.encode()] == payloads


@pytest.mark.parametrize("target", ["mysql://x", "postgres:///x", "nonsense", 7, None])
def test_targets(target):
    """What leads to no Postgres is refused when the store is made, and is not repeated."""
    with pytest.raises(DatabaseError, match=r"postgresql://|Postgres URL"):
        PostgresStore(target)


async def test_an_engine_on_another_driver_is_refused(postgres_url):
    """Only asyncpg: the ops run on its connections."""
    engine = create_async_engine(sqlalchemy_url(postgres_url, "psycopg"))
    with pytest.raises(DatabaseError, match="asyncpg"):
        PostgresStore(engine)
    await engine.dispose()


@pytest.mark.parametrize(
    "url", ["postgresql://me:hush@127.0.0.1:1/x", "postgresql://me:hu:sh@h:o:st/x"]
)
async def test_no_password_in_errors(url):
    """Neither in the message nor in what caused it."""
    store = PostgresStore(url, opts=PostgresOpts(connect_timeout=1))
    with pytest.raises(DatabaseError) as caught:
        await store.open()
    error = caught.value
    while error is not None:
        assert "hush" not in f"{error!r} {error}"
        assert "hu:sh" not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__


async def test_clocks_of_hosts_do_not_count(store, monkeypatch):
    """A process whose clock is ten minutes ahead steals no claim and no lock."""
    await store.queue("q").enqueue(1)
    handle = await store.queue("q").claim_one("slow")
    lock = await store.try_lock("l", "slow", 60)
    real = __import__("time").time
    monkeypatch.setattr("time.time", lambda: real() + 600)
    assert await store.queue("q").claim_one("fast") is None
    assert await store.try_lock("l", "fast", 60) is None
    assert await lock.renew(60)
    assert await handle.ack()


async def test_an_abandoned_transaction_of_the_application_s(postgres_url):
    """A connection that comes to `begin_tx` in somebody's open transaction is cleaned first."""
    engine = create_async_engine(sqlalchemy_url(postgres_url), pool_size=1, max_overflow=0)
    async with PostgresStore(engine) as store:
        async with engine.connect() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert isinstance(raw, asyncpg.Connection)
            await raw.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; SELECT 1")
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)
            level = await tx.connection.scalar(text("SHOW transaction_isolation"))
            assert "read committed" == level
        assert 1 == (await store.queue("q").stats()).ready
    await engine.dispose()
