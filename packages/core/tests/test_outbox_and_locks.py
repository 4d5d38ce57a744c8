"""Outboxes and locks."""

import asyncio

import pytest
from dict_engine import until

from alkstore_core import (
    DatabaseError,
    EnqueueOpts,
    JobHandle,
    JobSource,
    JobState,
    Outbox,
)


@pytest.fixture
def outbox(store):
    """An outbox."""
    return store.outbox("mail")


async def deliver(_):
    """A delivery that succeeds."""


async def test_messages_get_the_outbox_defaults(store, outbox):
    """Messages are stamped 60 s, 5 attempts, backoff from 5 s, in and outside a transaction."""
    numbers = [
        await outbox.enqueue({"to": "a"}, EnqueueOpts(priority=1)),
        await store.with_tx(lambda tx: tx.outbox_enqueue_tx("mail", {"to": "b"})),
    ]

    for number, priority in zip(numbers, (1, 0), strict=True):
        job = await outbox.backing.get_job(number)
        stamps = (job.visibility_timeout_s, job.max_attempts, job.backoff_base_s, job.priority)
        assert (60, 5, 5, priority) == stamps
        assert "__alkstore_outbox:mail" == job.queue


async def test_nothing_to_deliver(outbox):
    """Without a message `run_once` is `False` and delivers nothing."""

    async def forbidden(_):
        raise AssertionError

    assert False is await outbox.run_once("w", forbidden)


async def test_delivered_message_is_gone(outbox):
    """The delivery gets the job's handle; when it returns the message is acked."""
    await outbox.enqueue("hello")
    seen = []

    async def see(handle):
        seen.append(handle)

    assert True is await outbox.run_once("w", see)

    assert isinstance(seen[0], JobHandle)
    assert b'"hello"' == seen[0].job.payload
    assert None is await outbox.backing.get_job(1)


async def test_failed_delivery_is_retried_with_backoff(outbox):
    """A delivery that raises is tried again later, with the error in the job; `True` as ever."""
    await outbox.enqueue(1)

    async def fail(_):
        raise ValueError("mailbox full")

    assert True is await outbox.run_once("w", fail)

    job = await outbox.backing.get_job(1)
    assert (JobState.PENDING, "ValueError: mailbox full") == (job.state, job.last_error)
    assert 1_002 <= job.run_at <= 1_005


async def test_a_plain_function_is_refused_once_it_has_delivered(outbox):
    """A delivery that is no async function raises, and its message does not go out again."""
    sent = []
    await outbox.enqueue("hello")

    with pytest.raises(DatabaseError, match="async function"):
        await outbox.run_once("w", lambda handle: sent.append(handle.job.payload))

    assert [b'"hello"'] == sent
    assert [] == await outbox.backing.jobs()


async def test_message_is_dead_after_five_deliveries(clock, outbox):
    """The fifth failed delivery is the last; the message can be redriven."""
    await outbox.enqueue(1)

    async def fail(_):
        raise ValueError("no")

    for _ in range(5):
        assert await outbox.run_once("w", fail)
        await clock.advance(3_600)

    assert False is await outbox.run_once("w", fail)
    assert ["ValueError: no"] == [job.last_error for job in await outbox.backing.dead_jobs()]
    assert 2 == await outbox.backing.redrive(1)
    assert True is await outbox.run_once("w", deliver)


@pytest.mark.parametrize("outcome", ["returns", "raises"])
async def test_settled_handle_is_left_alone(outbox, outcome):
    """A delivery that settled its handle has decided."""
    await outbox.enqueue(1)

    async def settle(handle):
        await handle.fail("refused")
        if outcome == "raises":
            raise ValueError

    assert await outbox.run_once("w", settle)

    job = await outbox.backing.get_job(1)
    assert (JobState.DEAD, "refused") == (job.state, job.last_error)


async def test_cancelled_delivery_is_neither_acked_nor_failed(outbox):
    """A cancelled delivery leaves its message claimed until the claim lapses."""
    await outbox.enqueue(1)
    inside = asyncio.Event()

    async def hang(_):
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(outbox.run_once("w", hang))
    await inside.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    job = await outbox.backing.get_job(1)
    assert (JobState.PROCESSING, 1, None) == (job.state, job.attempts, job.last_error)


async def test_late_delivery_is_no_error(clock, outbox):
    """A delivery slower than its claim may be repeated; `run_once` is `True` all the same."""
    await outbox.enqueue(1)

    async def dawdle(_):
        await clock.advance(61)

    assert True is await outbox.run_once("w", dawdle)
    assert True is await outbox.run_once("w", deliver)


async def test_database_failure_is_no_value(engine, outbox):
    """When the claim or the ack fails, `run_once` raises."""
    await outbox.enqueue(1)
    engine.faults["claim"].append(DatabaseError("connection lost"))
    with pytest.raises(DatabaseError):
        await outbox.run_once("w", deliver)
    engine.faults["ack"].append(DatabaseError("connection lost"))
    with pytest.raises(DatabaseError):
        await outbox.run_once("w", deliver)


def test_backing_queue_cannot_enqueue(store):
    """The backing queue has everything but a way in."""
    outbox = store.outbox("o")

    assert isinstance(outbox, Outbox)
    assert type(outbox.backing) is JobSource
    assert not hasattr(outbox.backing, "enqueue")


async def test_lock_excludes_others(store):
    """While a lease is live nobody else gets the lock; afterwards the token is higher."""
    lock = await store.try_lock("l", "a", 10)
    assert ("l", "a", 1) == (lock.name, lock.owner, lock.token)
    assert None is await store.try_lock("l", "b", 10)

    assert True is await lock.release()

    assert False is await lock.release()
    other = await store.try_lock("l", "b", 10)
    assert 2 == other.token


async def test_owner_gets_its_lease_unrefreshed(clock, store):
    """The owner's second `try_lock` is a handle on the same lease, which ends when it would."""
    first = await store.try_lock("l", "a", 10)
    await clock.advance(8)

    second = await store.try_lock("l", "a", 10)

    assert first.token == second.token
    await clock.advance(3)
    assert await store.try_lock("l", "b", 10)


async def test_handle_is_fenced_by_its_token(clock, store):
    """After its lease lapsed a handle does nothing, also when its owner locked again."""
    stale = await store.try_lock("l", "a", 10)
    await clock.advance(10)
    assert await stale.renew(10)
    await clock.advance(11)
    fresh = await store.try_lock("l", "a", 10)

    assert [False, False] == [await stale.renew(10), await stale.release()]
    assert True is await fresh.renew(10)


async def test_lock_block_releases(store):
    """Leaving the block frees the lock, whatever happened in it."""
    async with await store.try_lock("l", "a", 10):
        assert None is await store.try_lock("l", "b", 10)
    with pytest.raises(ValueError, match="mine"):
        async with await store.try_lock("l", "b", 10):
            raise ValueError("mine")

    assert [] == await store.locks()


async def test_failed_release_does_not_hide_the_error(engine, store):
    """The block's own error leaves it, not the release's."""
    engine.faults["release_lock"] += [DatabaseError("connection lost")] * 2
    with pytest.raises(ValueError, match="mine"):
        async with await store.try_lock("l", "a", 10):
            raise ValueError("mine")
    with pytest.raises(DatabaseError):
        async with await store.try_lock("l", "a", 10):
            pass


async def test_cancelled_block_releases_first(engine, store):
    """A block that is cancelled while it releases still frees the lock."""
    gate = engine.hold("before", "release_lock")

    async def work():
        async with await store.try_lock("l", "a", 10):
            pass

    task = asyncio.create_task(work())
    await gate.reached.wait()
    task.cancel()
    gate.open()
    await asyncio.gather(task, return_exceptions=True)

    await until(lambda: not engine.data.leases)
    assert task.cancelled()
