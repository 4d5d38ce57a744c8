"""Sentences of the contract that no other module's tests would miss."""

import asyncio
import threading

import pytest

from alkstore_core import DatabaseError, EnqueueOpts, JobState, QueueOpts
from alkstore_core.streams import EventReceiver
from alkstore_sqlite import SqliteStore
from alkstore_sqlite.signals import SqliteSignals

HEADERS = {"trace": "7", "ä": "☃"}


async def soon(awaitable):
    """What must come comes in time; the bound is for failures only."""
    async with asyncio.timeout(10):
        return await awaitable


# -- time ---------------------------------------------------------------------------------


async def test_a_handles_calls_see_their_own_time(store, clock):
    """Time is read when an op runs, not when its transaction began."""
    async with store.transaction() as tx:
        await tx.enqueue_tx("x", 1)
        await clock.advance(10)
        await tx.enqueue_tx("x", 2)
        await tx.publish_tx("x", 3)

    jobs = await store.queue("x").jobs()
    [event] = await store.stream("x").read_since(0, 10)
    assert [1_000_000, 1_000_010] == [job.created_at for job in jobs]
    assert 1_000_010 == event.created_at


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection", "Session", "Connection"])
async def test_a_joined_transactions_calls_see_their_own_time(store, clock, path, ways, kind):
    """Time is read when an op runs, also in a transaction that the caller began."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        await ways.settled(tx.enqueue_tx("x", 1))
        await clock.advance(10)
        await ways.settled(tx.enqueue_tx("x", 2))
        await ways.settled(owner.commit())

    jobs = await store.queue("x").jobs()
    assert [1_000_000, 1_000_010] == [job.created_at for job in jobs]


async def test_a_call_that_waited_sees_the_time_at_which_it_runs(store, clock):
    """Time is read when an op runs, not when it was queued behind others."""
    reached, opened = threading.Event(), threading.Event()

    def stop():
        reached.set()
        opened.wait(30)
        yield from ()

    try:
        writer = store._runtime.engine._writer
        stopped = writer.run(None, stop)
        assert await asyncio.to_thread(reached.wait, 30)
        waiting = asyncio.create_task(store.queue("x").enqueue(1))
        await asyncio.sleep(0)
        await clock.advance(10)
    finally:
        opened.set()
    await soon(stopped)
    await soon(waiting)

    assert [1_000_010] == [job.created_at for job in await store.queue("x").jobs()]


# -- files --------------------------------------------------------------------------------

WRITES = {
    "enqueue": lambda store: store.queue("x").enqueue(1),
    "notify": lambda store: store.notify("x", 1),
    "try_lock": lambda store: store.try_lock("x", "me", 60),
    "begin_tx": lambda store: store.begin_tx(),
    "with_tx": lambda store: store.with_tx(lambda tx: tx.enqueue_tx("x", 1)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fate", ["deleted", "replaced"])
async def test_a_write_to_a_lost_file_is_refused(store, path, tmp_path, fate, write):
    """When the path names the opened file no more, no write is acknowledged."""
    await store.queue("x").enqueue("before")
    path.rename(tmp_path / "moved.db")
    if fate == "replaced":
        path.write_bytes(b"")

    with pytest.raises(DatabaseError, match="deleted or replaced"):
        await WRITES[write](store)


async def test_a_commit_to_a_lost_file_is_refused(store, path, tmp_path):
    """A transaction whose file was replaced since its begin does not report a commit."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("x", 1)
    path.rename(tmp_path / "moved.db")
    path.write_bytes(b"")

    with pytest.raises(DatabaseError, match="deleted or replaced"):
        await tx.commit()


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection", "Session", "Connection"])
async def test_a_joined_commit_to_a_lost_file_is_refused(store, path, tmp_path, ways, kind):
    """A joined transaction whose file was replaced since its begin does not commit."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        await ways.settled(store.join(owner).enqueue_tx("x", 1))
        path.rename(tmp_path / "moved.db")
        path.write_bytes(b"")

        async def commit() -> None:
            await ways.settled(owner.commit())

        with pytest.raises(DatabaseError, match="deleted or replaced"):
            await commit()


# -- queues -------------------------------------------------------------------------------


async def claimed(queue):
    """The job that is there, claimed."""
    handle = await queue.claim_one("me")
    assert HEADERS == handle.job.headers
    return handle


@pytest.mark.parametrize("way", ["retry", "release", "release_batch", "lapse", "redrive", "fail"])
async def test_headers_stay_with_a_job(store, clock, way):
    """A job that is retried, given back, taken over, buried or redriven keeps its headers."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    job_id = await queue.enqueue(1, EnqueueOpts(headers=HEADERS))
    handle = await claimed(queue)
    match way:
        case "retry":
            await handle.retry("again", 0)
        case "release":
            await handle.release()
        case "release_batch":
            await queue.release_batch([handle])
        case "lapse":
            await clock.advance(61)
        case "redrive":
            await handle.fail("no")
            await queue.redrive(job_id)
        case "fail":
            await handle.fail("no")
            [dead] = await queue.dead_jobs()
            assert HEADERS == dead.headers
            return

    await claimed(queue)


async def test_nothing_happens_without_a_caller(store, clock):
    """While nobody claims or sweeps, a lapsed job stays `processing`, whoever listens."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    job_id = await queue.enqueue(1)
    await queue.claim_one("vanished")
    async with queue.wakes() as wakes:
        await clock.advance(61)
        await soon(wakes.recv())

        assert JobState.PROCESSING == (await queue.get_job(job_id)).state
        stats = await queue.stats()
    assert (0, 0, 1) == (stats.ready, stats.processing, stats.lapsed)


@pytest.mark.parametrize("state", ["live", "dead"])
async def test_a_job_is_seen_by_its_own_queue_only(store, state):
    """`get_job` finds live and dead jobs of its queue, and neither of another."""
    queue, other = store.queue("x"), store.queue("y")
    job_id = await queue.enqueue("tea")
    if state == "dead":
        await (await queue.claim_one("me")).fail("no")

    assert b'"tea"' == (await queue.get_job(job_id)).payload
    assert None is await other.get_job(job_id)
    async with store.begin_tx() as tx:
        assert b'"tea"' == (await tx.get_job_tx("x", job_id)).payload
        assert None is await tx.get_job_tx("y", job_id)


async def test_batches_and_sweeps_do_not_lock_each_other_out(path, clock):
    """Acks of the same jobs in opposite order, from two stores, beside sweeps: all end, each
    job is counted once.
    """
    async with SqliteStore(path, clock=clock) as one, SqliteStore(path, clock=clock) as two:
        queue = one.queue("x")
        await queue.enqueue_many(list(range(3_000)))
        ids = [handle.job.id for handle in await queue.claim_batch("me", 3_000)]
        counts = await asyncio.wait_for(
            asyncio.gather(
                queue.ack_batch(ids, "me"),
                two.queue("x").ack_batch(ids[::-1], "me"),
                queue.sweep_expired(),
                two.queue("x").sweep_expired(),
            ),
            60,
        )

        assert 3_000 == counts[0] + counts[1]
        assert [0, 0] == counts[2:]
        assert [] == await queue.jobs()


# -- streams ------------------------------------------------------------------------------


async def test_first_saves_in_parallel_end_at_the_maximum(path):
    """Consumers of one name that save for the first time at once stand at the furthest."""
    async with SqliteStore(path) as one, SqliteStore(path) as two:
        saves = [3, 9, 1, 7, 5, 8]
        await asyncio.gather(
            *(
                (one if number % 2 else two).stream("x").save_offset("me", number)
                for number in saves
            )
        )

        assert 9 == await one.stream("x").get_offset("me")


async def test_a_gap_wider_than_a_page_is_not_the_end(store):
    """Readers go on behind thousands of offsets that another stream got, or that were trimmed."""
    stream, other = store.stream("x"), store.stream("y")
    await stream.publish("first")
    await other.publish_many(list(range(2_500)))
    await stream.publish("behind the gap")
    await stream.trim_to(1)
    await other.publish_many(list(range(2_500)))
    await stream.publish("last")

    expected = [b'"behind the gap"', b'"last"']
    assert expected == [event.payload for event in await stream.read_since(0, 10)]
    assert expected == [event.payload for event in await stream.read_from_consumer("me", 10)]
    async with stream.subscribe("me") as events:
        assert isinstance(events, EventReceiver)
        assert expected == [(await soon(events.recv())).payload for _ in range(2)]


# -- wakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["publish", "publish_tx"])
async def test_a_wake_of_ones_own_commit_never_precedes_its_sight(path, sql, monkeypatch, way):
    """When a stream's receivers are woken, any connection can read the event already."""
    seen = []
    fire = SqliteSignals.fire

    def look_and_fire(signals, topic, mark=None):
        [(tail,)] = sql("SELECT coalesce(max(offset), 0) FROM __alkstore_events")
        seen.append((mark, tail))
        fire(signals, topic, mark)

    monkeypatch.setattr(SqliteSignals, "fire", look_and_fire)
    async with SqliteStore(path) as store:
        for number in range(1, 21):
            if way == "publish":
                assert number == await store.stream("x").publish(1)
            else:
                await store.with_tx(lambda tx: tx.publish_tx("x", 1))
            assert (number if way == "publish" else None, number) == seen[-1]
    assert 20 == len(seen)
