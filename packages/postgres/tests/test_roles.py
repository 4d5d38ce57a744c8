"""Two roles: one that may change the schema, one that may do no more than work with it."""

import asyncio
import re
import secrets
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest
from server import sqlalchemy_url
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError, QueueOpts, ScheduleOpts, StopToken
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.migrations import VERSION_TABLE, head, scripts

# The guide shows these very statements; `docs/tests` compares them.
STATEMENTS = Path(__file__).with_name("roles.sql").read_text()
UNMIGRATED = PostgresOpts(migrate=False)

pytestmark = pytest.mark.once


class Roles(NamedTuple):
    """URLs of one database for each of its users."""

    dba: str
    owner: str
    app: str


@pytest.fixture
async def roles(postgres_url):
    """A database with the two roles of the guide, under names of their own."""
    suffix, password = secrets.token_hex(4), secrets.token_hex(8)
    statements = re.sub(r"\b(shop_owner|shop_app)\b", rf"\1_{suffix}", STATEMENTS)
    owner, app = f"shop_owner_{suffix}", f"shop_app_{suffix}"
    dba = await asyncpg.connect(postgres_url)
    try:
        await dba.execute(statements)
        for role in (owner, app):
            await dba.execute(f"ALTER ROLE {role} PASSWORD '{password}'")
        parts = urlsplit(postgres_url)
        place = parts.netloc.rpartition("@")[2]
        yield Roles(
            postgres_url,
            *(parts._replace(netloc=f"{r}:{password}@{place}").geturl() for r in (owner, app)),
        )
    finally:
        for role in (app, owner):
            await dba.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
        await dba.close()


async def migrate(url):
    """Make the schema as somebody, as `alkstore-postgres upgrade` does."""
    async with PostgresStore(url):
        pass


async def use_queues(store):
    """Everything that can become of a job."""
    queue = store.queue("mail", QueueOpts(max_attempts=2, dead_letter_retention_s=0))
    first, *_ = await queue.enqueue_many([{"n": n} for n in range(8)])
    await queue.enqueue({"n": 8})
    await queue.cancel(first)
    acked, retried, failed, released, *batch = await queue.claim_batch("w", 8)
    assert await acked.heartbeat(60)
    assert await acked.ack()
    assert await retried.retry("later", 0)
    assert await failed.fail("never")
    assert await released.release()
    assert 4 == await queue.ack_batch(batch, "w")
    assert (await queue.stats()).dead == 1
    (dead,) = await queue.dead_jobs()
    assert await queue.redrive(dead.id)
    assert 3 == len(await queue.jobs())
    for handle in await queue.claim_batch("w", 2):
        await handle.fail()
    assert 2 == await queue.purge_dead()
    assert 0 == await queue.sweep_expired()


async def use_streams(store):
    """Publish, read, follow, save, trim."""
    stream = store.stream("orders")
    first = await stream.publish_with_key("1", {"placed": 1})
    last = (await stream.publish_many([{"placed": 2}, {"placed": 3}]))[-1]
    assert 3 == len(await stream.read_since(0, 10))
    async with stream.subscribe("billing") as events:
        assert first == (await events.recv()).offset
        await events.save_offset()
    assert 2 == len(await stream.read_from_consumer("billing", 10))
    assert last == (await stream.bounds()).last
    assert 1 == await stream.trim_to(first)
    assert ["billing"] == [p.consumer for p in await stream.consumers()]


async def use_locks_and_schedules(store):
    """A lease, and a schedule that fires."""
    lock = await store.try_lock("report", "me", 60)
    assert await lock.renew(60)
    assert await lock.release()
    await store.schedule("sweep", "@every 1s", "due", None, ScheduleOpts(expires=60))
    stop = StopToken()
    due = store.queue("due")
    async with due.wakes(stop) as wakes:
        running = asyncio.create_task(store.run_schedules(stop))
        while (handle := await due.claim_one("w")) is None:
            await wakes.recv()
        await handle.ack()
        stop.stop()
        await running
    assert await store.unschedule("sweep")


async def use_outbox_and_notify(store):
    """A message delivered, a listener woken."""
    outbox = store.outbox("hooks")
    await outbox.enqueue({"url": "x"})

    async def deliver(handle):
        assert {"url": "x"} == handle.job.payload_as(dict)

    assert await outbox.run_once("w", deliver)
    async with store.listen("cache") as wakes:
        await store.notify("cache", {"key": 1})
        assert "cache" == (await wakes.recv()).channel


async def use_transactions(store, url):
    """One of the store's own, one of the application's, one of a blocking application."""
    everything = (
        lambda tx: tx.enqueue_tx("tx", {}),
        lambda tx: tx.outbox_enqueue_tx("tx", {}),
        lambda tx: tx.publish_tx("tx", {}),
        lambda tx: tx.save_offset_tx("tx", "reader", 1),
        lambda tx: tx.notify_tx("tx"),
        lambda tx: tx.read_since_tx("tx", 0, 10),
    )
    async with store.transaction() as tx:
        for call in everything:
            await call(tx)
    engine = create_async_engine(sqlalchemy_url(url))
    async with engine.begin() as connection:
        for call in everything:
            await call(store.join(connection))
    await engine.dispose()

    def blocking():
        engine = create_engine(sqlalchemy_url(url, "psycopg"))
        with engine.begin() as connection:
            for call in everything:
                call(store.join(connection))
        engine.dispose()

    await asyncio.to_thread(blocking)
    assert 3 == (await store.queue("tx").stats()).ready
    assert 3 == len(await store.stream("tx").read_since(0, 10))


async def look(store):
    """What is there, for operators."""
    assert "tx" in await store.queues()
    assert "orders" in await store.streams()
    assert ["tx"] == await store.outboxes()
    assert [] == await store.locks()
    assert [] == await store.schedules()
    assert [] == await store.diagnose()


async def test_application_role_does_everything(roles):
    """With these grants the application's role uses every mechanism."""
    await migrate(roles.owner)
    async with PostgresStore(roles.app, opts=UNMIGRATED) as store:
        await use_queues(store)
        await use_streams(store)
        await use_locks_and_schedules(store)
        await use_outbox_and_notify(store)
        await use_transactions(store, roles.app)
        await look(store)


async def test_open_at_head_needs_no_more(roles):
    """Opening with `migrate` left on changes nothing at the newest revision, so it is allowed."""
    await migrate(roles.owner)
    async with PostgresStore(roles.app) as store:
        await store.queue("mail").enqueue({})


async def test_application_role_makes_no_schema(roles):
    """It may not make the tables; opening says so, and leaves nothing behind."""
    with pytest.raises(DatabaseError, match="permission denied"):
        await migrate(roles.app)
    with pytest.raises(DatabaseError, match=r"run `alkstore-postgres upgrade`"):
        async with PostgresStore(roles.app, opts=UNMIGRATED):
            pass
    dba = await asyncpg.connect(roles.dba)
    assert 0 == await dba.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'alkstore'")
    await dba.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE alkstore.mine (id int)",
        "ALTER TABLE alkstore.__alkstore_jobs ADD COLUMN mine int",
        "DROP TABLE alkstore.__alkstore_jobs",
        "TRUNCATE alkstore.__alkstore_jobs",
    ],
)
async def test_application_role_changes_no_table(roles, statement):
    """What it is not granted it cannot do."""
    await migrate(roles.owner)
    engine = create_async_engine(sqlalchemy_url(roles.app))
    with pytest.raises(Exception, match=r"permission denied|must be owner"):
        async with engine.begin() as connection:
            await connection.execute(text(statement))
    await engine.dispose()


async def test_owner_may_do_no_more_than_own(roles):
    """The migrating role needs no right to make schemas, for the schema is there."""
    dba = await asyncpg.connect(roles.dba)
    owner = urlsplit(roles.owner).username
    assert not await dba.fetchval(
        "SELECT has_database_privilege($1, current_database(), 'CREATE')", owner
    )
    await migrate(roles.owner)
    assert head(scripts()) == await dba.fetchval(
        f"SELECT version_num FROM alkstore.{VERSION_TABLE}"
    )
    await dba.close()


async def test_grants_come_with_later_tables(roles):
    """A table that a later revision makes is granted as those of today are."""
    await migrate(roles.owner)
    owner = await asyncpg.connect(roles.owner)
    await owner.execute("CREATE TABLE alkstore.later (id bigserial PRIMARY KEY)")
    await owner.close()
    app = await asyncpg.connect(roles.app)
    assert 1 == await app.fetchval("INSERT INTO alkstore.later DEFAULT VALUES RETURNING id")
    await app.close()
