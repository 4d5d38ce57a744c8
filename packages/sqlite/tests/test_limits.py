"""Numbers at and beyond the ends of the range, and how many of them there may be."""

import asyncio
import itertools
import time

import pytest

from alkstore_core import AlkstoreError, DatabaseError, EnqueueOpts, QueueOpts
from alkstore_sqlite import SqliteStore

pytestmark = pytest.mark.once


FIRST = -(2**63)
LAST = 2**63 - 1
NOW = 1_000_000

NUMBERS = {
    "claim_batch": lambda store, n: store.queue("x").claim_batch("me", n),
    "get_job": lambda store, n: store.queue("x").get_job(n),
    "cancel": lambda store, n: store.queue("x").cancel(n),
    "redrive": lambda store, n: store.queue("x").redrive(n),
    "ack_batch": lambda store, n: store.queue("x").ack_batch([n], "me"),
    "jobs_limit": lambda store, n: store.queue("x").jobs(limit=n),
    "jobs_after": lambda store, n: store.queue("x").jobs(after_id=n),
    "dead_limit": lambda store, n: store.queue("x").dead_jobs(limit=n),
    "dead_after": lambda store, n: store.queue("x").dead_jobs(after_id=n),
    "purge_dead": lambda store, n: store.queue("x").purge_dead(before=n),
    "read_since": lambda store, n: store.stream("x").read_since(n, 10),
    "read_limit": lambda store, n: store.stream("x").read_since(0, n),
    "consumer_limit": lambda store, n: store.stream("x").read_from_consumer("me", n),
    "trim_to": lambda store, n: store.stream("x").trim_to(n),
    "save_offset": lambda store, n: store.stream("x").save_offset("me", n),
    "try_lock": lambda store, n: store.try_lock("x", "me", n),
    "delay": lambda store, n: store.queue("x").enqueue(1, EnqueueOpts(delay=n)),
    "run_at": lambda store, n: store.queue("x").enqueue(1, EnqueueOpts(run_at=n)),
    "priority": lambda store, n: store.queue("x").enqueue(1, EnqueueOpts(priority=n)),
    "max_attempts": lambda store, n: store.queue("x").enqueue(1, EnqueueOpts(max_attempts=n)),
    "expires": lambda store, n: store.queue("x").enqueue(1, EnqueueOpts(expires=n)),
    "delay_tx": lambda store, n: store.with_tx(
        lambda tx: tx.enqueue_tx("x", 1, EnqueueOpts(delay=n))
    ),
    "save_offset_tx": lambda store, n: store.with_tx(lambda tx: tx.save_offset_tx("x", "me", n)),
    "get_job_tx": lambda store, n: store.with_tx(lambda tx: tx.get_job_tx("x", n)),
    "read_since_tx": lambda store, n: store.with_tx(lambda tx: tx.read_since_tx("x", n, 10)),
}


OPTIONAL = {"delay", "run_at", "max_attempts", "expires", "delay_tx", "purge_dead"}


@pytest.mark.parametrize("call", NUMBERS)
async def test_what_is_no_i64_never_reaches_the_file(store, everything, call):
    """Ints outside i64, bools, floats, text and bytes raise at every entry, before any row."""
    before = everything()
    for value in (2**63, FIRST - 1, 10**400, True, 1.0, "1", b"", None):
        if value is None and call in OPTIONAL:
            continue
        with pytest.raises(DatabaseError) as caught:
            await NUMBERS[call](store, value)
        assert isinstance(caught.value.__cause__, (TypeError, OverflowError))

    assert before == everything()


@pytest.mark.parametrize("call", NUMBERS)
async def test_every_i64_is_an_answer_and_stays_an_integer(store, everything, call):
    """Any i64 has a defined meaning, except a lock's time of 0 or less; no float is stored."""
    for value in (FIRST, -1, 0, 1, LAST):
        await store.queue("x").enqueue(1)
        await store.stream("x").publish(1)
        if call == "try_lock" and value <= 0:
            with pytest.raises(DatabaseError) as caught:
                await NUMBERS[call](store, value)
            assert isinstance(caught.value.__cause__, ValueError)
        else:
            await NUMBERS[call](store, value)

    for table, rows in everything():
        assert not [row for row in rows if any(isinstance(cell, float) for cell in row)], table


@pytest.mark.parametrize("extent", [FIRST, -1, 0])
async def test_extents_of_nothing_give_nothing(store, extent):
    """A limit of 0 or less is the empty answer, never the whole queue or stream."""
    await store.queue("x").enqueue_many([1, 2])
    await store.stream("x").publish_many([1, 2])

    assert [] == await store.queue("x").claim_batch("me", extent)
    assert [] == await store.queue("x").jobs(limit=extent)
    assert [] == await store.queue("x").dead_jobs(limit=extent)
    assert [] == await store.stream("x").read_since(0, extent)
    assert [] == await store.stream("x").read_from_consumer("me", extent)
    assert 2 == (await store.queue("x").stats()).ready


async def test_extents_of_everything_give_what_is_there(store):
    """The largest limit is no error and no overflow."""
    await store.queue("x").enqueue_many([1, 2])
    await store.stream("x").publish_many([1, 2])

    assert 2 == len(await store.stream("x").read_since(FIRST, LAST))
    assert [] == await store.stream("x").read_since(LAST, LAST)
    assert 2 == len(await store.queue("x").jobs(limit=LAST, after_id=FIRST))
    assert 2 == len(await store.queue("x").claim_batch("me", LAST))


async def test_boundaries_are_total(store):
    """Trims and saves at the ends of the range do what their order says."""
    stream = store.stream("x")
    await stream.publish_many([1, 2, 3])

    assert 0 == await stream.trim_to(FIRST)
    assert 0 == await stream.trim_to(-1)
    await stream.save_offset("me", FIRST)
    assert 0 == await stream.get_offset("me")
    await stream.save_offset("me", LAST)
    await stream.save_offset("me", 1)
    assert LAST == await stream.get_offset("me")
    assert 3 == await stream.trim_to(LAST)


async def test_times_saturate(store, clock):
    """A delay, an expiry, a claim and a lock of 2**63-1 seconds mean never."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=LAST))
    never = await queue.enqueue(1, EnqueueOpts(delay=LAST))
    past = await queue.enqueue(2, EnqueueOpts(delay=FIRST, expires=LAST))
    fixed = await queue.enqueue(3, EnqueueOpts(run_at=LAST))

    assert LAST == (await queue.get_job(never)).run_at
    assert LAST == (await queue.get_job(past)).expires_at
    assert LAST == (await queue.get_job(fixed)).run_at
    handle = await queue.claim_one("me")
    assert past == handle.job.id
    assert LAST == handle.job.claim_expires_at
    assert await handle.heartbeat(LAST)
    lock = await store.try_lock("x", "me", LAST)
    assert await lock.renew(LAST)
    await clock.advance(1_000_000_000)
    assert await queue.claim_one("me") is None
    assert await store.try_lock("x", "other", 1) is None
    assert await handle.retry("never", LAST)
    assert LAST == (await queue.get_job(past)).run_at


@pytest.mark.parametrize("seconds", [0, -1, FIRST])
async def test_durations_of_nothing_are_refused(store, seconds):
    """A lease, a renewal, a heartbeat or a visibility of 0 s or less is an error with a cause."""
    await store.queue("x").enqueue(1)
    handle = await store.queue("x").claim_one("me")
    lock = await store.try_lock("x", "me", 60)

    for call in (
        lambda: store.try_lock("y", "me", seconds),
        lambda: lock.renew(seconds),
        lambda: handle.heartbeat(seconds),
    ):
        with pytest.raises(DatabaseError) as caught:
            await call()
        assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(AlkstoreError):
        await store.queue("x", QueueOpts(visibility_timeout_s=seconds)).enqueue(1)
    assert await lock.renew(60)
    assert await handle.ack()


@pytest.mark.parametrize(
    ("asked", "stored"), [(FIRST, 1), (-1, 1), (0, 1), (1, 1), (2, 2), (LAST, LAST)]
)
async def test_max_attempts_is_at_least_one(store, asked, stored):
    """A job has at least one attempt, whatever was asked for."""
    by_job = await store.queue("x").enqueue(1, EnqueueOpts(max_attempts=asked))
    by_queue = await store.queue("x", QueueOpts(max_attempts=asked)).enqueue(1)

    assert stored == (await store.queue("x").get_job(by_job)).max_attempts
    assert stored == (await store.queue("x").get_job(by_queue)).max_attempts


@pytest.mark.parametrize(
    ("base", "least", "most"),
    [(FIRST, 0, 0), (0, 0, 0), (1, 0, 1), (5, 2, 5), (3600, 1800, 3600), (LAST, 1800, 3600)],
)
async def test_backoff_stays_in_its_range(store, base, least, most):
    """The first retry of a base comes within its half and its whole, never beyond an hour."""
    queue = store.queue("x", QueueOpts(backoff_base_s=base))
    job_id = await queue.enqueue(1)
    handle = await queue.claim_one("me")
    assert await handle.retry("again")

    assert NOW + least <= (await queue.get_job(job_id)).run_at <= NOW + most


async def test_forty_thousand_acks_in_one_call(store, clock):
    """`ack_batch` takes any number of handles or ids, ignores strangers, counts what it did."""
    queue = store.queue("x")
    ids = await queue.enqueue_many(list(range(40_000)))
    assert 40_000 == len(set(ids))
    handles = await queue.claim_batch("me", 40_000)
    assert ids == [handle.job.id for handle in handles]

    other = store.queue("y")
    stranger = await other.enqueue("another queue's")
    await other.claim_one("me")
    asked = [*ids[:20_000], *ids[:20_000], stranger, LAST, FIRST, 0]
    assert 0 == await queue.ack_batch(asked, "you")
    assert 20_000 == await queue.ack_batch(asked, "me")
    assert 20_000 == await queue.ack_batch([*handles, *handles[20_000:]], "me")
    assert [] == await queue.jobs()
    assert await other.get_job(stranger) is not None


@pytest.mark.alone
async def test_long_work_does_not_hold_heartbeats_up(store, clock):
    """Beside a sweep, a trim and a batch ack of 40,000 rows each a heartbeat takes no second."""
    queue, stream, other = store.queue("x"), store.stream("x"), store.queue("y")
    await queue.enqueue_many([0] * 40_000, EnqueueOpts(expires=1))
    await stream.publish_many([0] * 40_000)
    await other.enqueue_many([0] * 40_001)
    *handles, mine = await other.claim_batch("me", 40_001)
    await clock.advance(2)
    long = asyncio.gather(
        queue.sweep_expired(), stream.trim_to(LAST), other.ack_batch(handles, "me")
    )
    waits = []
    while not long.done():
        began = time.monotonic()
        assert await mine.heartbeat(600)
        waits.append(time.monotonic() - began)
        await asyncio.sleep(0.001)

    assert [40_000, 40_000, 40_000] == await long
    assert len(waits) > 10
    assert max(waits) < 0.5


async def test_numbers_are_never_given_twice(path, clock):
    """Ids, offsets and tokens go on after the tables were emptied and the process restarted."""
    used = []
    for _ in range(3):
        async with SqliteStore(path, clock=clock) as store:
            queue, stream = store.queue("x"), store.stream("x")
            ids = await queue.enqueue_many([1, 2])
            offsets = await stream.publish_many([1, 2])
            lock = await store.try_lock("x", "me", 60)
            used.append((*ids, *offsets, lock.token))
            assert 2 == await queue.ack_batch(await queue.claim_batch("me", 2), "me")
            assert 2 == await stream.trim_to(LAST)
            assert await lock.release()

    for earlier, later in itertools.pairwise(used):
        assert min(later[:2]) > max(earlier[:2])
        assert min(later[2:4]) > max(earlier[2:4])
        assert later[4] > earlier[4]


async def test_a_dead_jobs_id_is_not_given_again(path, clock):
    """Ids go on past those that only dead jobs, or redriven ones, still have."""
    async with SqliteStore(path, clock=clock) as store:
        queue = store.queue("x")
        first = await queue.enqueue(1)
        assert await (await queue.claim_one("me")).fail()
    async with SqliteStore(path, clock=clock) as store:
        queue = store.queue("x")
        second = await queue.redrive(first)
        assert await queue.cancel(second)
        third = await queue.enqueue(1)

    assert first < second < third
