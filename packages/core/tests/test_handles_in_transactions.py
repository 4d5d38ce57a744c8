"""A queue's handle in a transaction: its options are stamped, if it is this store's."""

import enum

import pytest
from dict_engine import DictEngine

from alkstore_core import DatabaseError, EnqueueOpts, InvalidName, ManualClock, QueueOpts, Store

SHORT = QueueOpts(
    visibility_timeout_s=7, max_attempts=9, backoff_base_s=1, dead_letter_retention_s=90
)


def stamps(job):
    """What a queue's options have left on a job."""
    return (
        job.visibility_timeout_s,
        job.max_attempts,
        job.backoff_base_s,
        job.dead_letter_retention_s,
    )


async def test_a_handle_stamps_its_options(store):
    """Those of a call come over them, and a name alone stands for the defaults."""
    queue = store.queue("q", SHORT)
    async with store.transaction() as tx:
        await tx.enqueue_tx(queue, 1)
        await tx.enqueue_tx(queue, 2, EnqueueOpts(max_attempts=2, priority=-1))
        await tx.enqueue_many_tx(queue, [3, 4], EnqueueOpts(priority=-2))
        await tx.enqueue_tx("q", 5)
        await tx.enqueue_tx(store.queue("q"), 6)

    by_payload = {job.payload_as(int): job for job in await queue.jobs()}
    assert [(7, 9, 1, 90), (7, 2, 1, 90), (7, 9, 1, 90), (7, 9, 1, 90)] == [
        stamps(by_payload[number]) for number in (1, 2, 3, 4)
    ]
    assert [(300, 3, 5, None)] * 2 == [stamps(by_payload[number]) for number in (5, 6)]
    assert [0, -1, -2, -2] == [by_payload[number].priority for number in (1, 2, 3, 4)]


async def test_a_handle_of_another_store_is_refused(store):
    """Its jobs would land in this one; the transaction goes on."""
    async with Store(DictEngine(ManualClock(1_000))) as other, store.transaction() as tx:
        for call in (tx.enqueue_tx, tx.enqueue_many_tx):
            with pytest.raises(DatabaseError, match="'q' is a handle of another store"):
                await call(other.queue("q"), [1])
        await tx.enqueue_tx("q", 1)

    assert 1 == len(await store.queue("q").jobs())


async def test_handles_of_other_kinds_are_refused(store):
    """They have options of their own, or none."""
    async with store.transaction() as tx:
        for wrong in (store.outbox("o"), store.stream("s"), store.outbox("o").backing, store):
            with pytest.raises(InvalidName, match="queue"):
                await tx.enqueue_tx(wrong, 1)


def test_a_name_is_a_name_whatever_it_is_of(blocking):
    """A member of an enumeration has the others as attributes."""
    names = enum.StrEnum("names", ["mail", "wrapped"])
    with blocking.transaction() as tx:
        tx.enqueue_tx(names.mail, 1)

    assert ["mail"] == blocking.queues()


def test_a_blocking_handle_stamps_its_options(blocking):
    """As the asynchronous one inside."""
    queue = blocking.queue("q", SHORT)
    with blocking.transaction() as tx:
        ids = [tx.enqueue_tx(queue, 1), *tx.enqueue_many_tx(queue, [2])]
        with pytest.raises(InvalidName):
            tx.enqueue_tx(blocking.stream("s"), 1)

    assert [(7, 9, 1, 90)] * 2 == [stamps(queue.get_job(number)) for number in ids]
