"""When one machine is outgrown: everything goes from a file to Postgres, and back if need be."""

import asyncio
import random

import pytest

from alkstore_core import CopyRefused, EnqueueOpts, ManualClock, QueueOpts, copy_store
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_sqlite import SqliteStore

# Text that collations sort in another order than its bytes.
NAMES = ["a", "B", "ä", "Z", "_", "\U0001f600", "b c"]


@pytest.fixture
def clock():
    """Time that moves by hand."""
    return ManualClock(start=1_700_000_000)


@pytest.fixture
async def source(tmp_path, clock):
    """A file with something of each kind in it, under names and texts of all sorts."""
    dice = random.Random(5)
    async with SqliteStore(tmp_path / "app.db", clock=clock) as store:
        for number, name in enumerate(NAMES):
            queue = store.queue(name, QueueOpts(visibility_timeout_s=1))
            await queue.enqueue_many(
                [{"text": f"{name}\0\n'\"\\", "n": n} for n in range(20)],
                EnqueueOpts(priority=number % 3, headers={"ü": "\0"}, expires=9_000),
            )
            for handle in await queue.claim_batch("w", 9):
                settle = dice.choice([handle.fail, handle.retry, handle.release, handle.ack])
                await (settle() if settle in (handle.release, handle.ack) else settle("é\0 \ud800"))
            await queue.claim_batch("lost", 2)
            await clock.advance(3)
            stream = store.stream(name)
            for n in range(20):
                await stream.publish_with_key(name, n, {"trace": name})
            for consumer in NAMES:
                await stream.save_offset(consumer, dice.randint(0, 20 * len(NAMES) + 9))
            await store.schedule(name, f"@every {number + 1}h", name, [name])
            await store.outbox(name).enqueue(name)
        await clock.advance(10)
        yield store


async def unread(store):
    """What each consumer has before it."""
    found = {}
    for name in await store.streams():
        for place in await store.stream(name).consumers():
            events = await store.stream(name).read_since(place.offset, 1000)
            found[name, place.consumer] = [
                (e.key, e.payload, e.headers, e.created_at) for e in events
            ]
    return found


async def jobs(store):
    """Every job, dead ones too, without its id."""
    found = []
    sources = [store.queue(name) for name in await store.queues()]
    sources += [store.outbox(name).backing for name in await store.outboxes()]
    for source in sources:
        for job in await source.jobs(limit=1000) + await source.dead_jobs(limit=1000):
            stamps = job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s
            times = job.run_at, job.created_at, job.expires_at, job.claimed_at, job.died_at
            work = job.payload, job.headers, job.priority, job.attempts, job.max_attempts
            found.append((job.queue, job.state, job.last_error, job.worker_id, stamps, times, work))
    return found


async def handed_out(store):
    """What workers get, in their order."""
    found = []
    for name in await store.queues():
        while handles := await store.queue(name).claim_batch("w", 7):
            found += [(name, h.job.payload, h.job.attempts) for h in handles]
    return found


async def holds_the_same(one, other):
    """Whether readers, workers and schedules go on alike."""
    assert await unread(one) == await unread(other) != {}
    assert await jobs(one) == await jobs(other) != []
    assert await one.schedules() == await other.schedules() != []
    assert await handed_out(one) == await handed_out(other) != []


async def test_a_file_moves_to_postgres(source, postgres_url, clock):
    """Everything is there, in its order, whatever the server's collation makes of names."""
    async with PostgresStore(postgres_url, clock=clock) as target:
        report = await copy_store(source, target, batch=30)

        assert (report.events, report.schedules) == (140, 7)
        assert (await copy_store(source, target)).resumed
        await holds_the_same(source, target)


async def test_a_database_moves_to_a_file(source, postgres_url, clock, tmp_path):
    """The way back is the same."""
    async with (
        PostgresStore(postgres_url, clock=clock) as between,
        SqliteStore(tmp_path / "back.db", clock=clock) as back,
    ):
        there = await copy_store(source, between)
        here = await copy_store(between, back)

        assert there.digests["jobs"] == here.digests["jobs"]
        assert there.digests["events"] == here.digests["events"]
        await holds_the_same(source, back)


async def test_a_copy_whose_connections_are_cut_is_gone_on_with(source, postgres_url, clock, sql):
    """Backends that are ended at random moments cost a call, and nothing is lost or doubled."""
    dice = random.Random(3)
    cuts = 0
    for _ in range(40):
        async with PostgresStore(postgres_url, clock=clock) as target:
            steps = dice.randint(1, 12)
            reached = asyncio.Event()
            left = [steps]

            def told(at, left=left, reached=reached):
                left[0] -= at.step != "reading"
                if left[0] == 0:
                    reached.set()

            copying = asyncio.create_task(copy_store(source, target, batch=10, progress=told))
            waiting = asyncio.create_task(reached.wait())
            await asyncio.wait({copying, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if dice.random() < 0.5:
                copying.cancel()
            else:
                await sql.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            (outcome,) = await asyncio.gather(copying, return_exceptions=True)
            cuts += isinstance(outcome, BaseException)
            if cuts == 10:
                break
    assert cuts == 10
    async with PostgresStore(postgres_url, clock=clock) as target:
        await copy_store(source, target)
        await holds_the_same(source, target)


async def test_an_event_that_may_still_commit_is_waited_for(postgres_url, tmp_path):
    """While a publisher is open, what follows its event cannot be copied in order."""
    async with (
        PostgresStore(postgres_url) as source,
        SqliteStore(tmp_path / "target.db") as target,
    ):
        async with source.transaction() as tx:
            await tx.publish_tx("events", "first")
            await source.stream("events").publish("second")
            with pytest.raises(CopyRefused, match="'events' is still open"):
                await copy_store(source, target)
        await copy_store(source, target)
        events = await target.stream("events").read_since(0, 10)
        assert [b'"first"', b'"second"'] == [event.payload for event in events]


async def test_two_schemas_of_one_database_are_two(postgres_url):
    """A database may be copied beside itself, but not onto itself."""
    async with (
        PostgresStore(postgres_url) as source,
        PostgresStore(postgres_url) as again,
        PostgresStore(postgres_url, opts=PostgresOpts(schema="beside")) as beside,
    ):
        await source.queue("q").enqueue(1)
        with pytest.raises(CopyRefused, match="one database"):
            await copy_store(source, again)
        assert 1 == (await copy_store(source, beside)).jobs
