"""Transactions: together or not at all, and free again without help."""

import asyncio
import gc

import pytest
from dict_engine import DictEngine, until

from alkstore_core import (
    CodecError,
    DatabaseError,
    InvalidName,
    JobState,
    PayloadTooLarge,
    Store,
)


class BrokenError(Exception):
    """Something of the application's."""


async def test_commit_makes_everything_visible_together(engine, store):
    """What a transaction wrote is nowhere before its commit and everywhere after it."""
    tx = await store.begin_tx()
    job = await tx.enqueue_tx("q", {"n": 1})
    jobs = await tx.enqueue_many_tx("q", [2, 3])
    message = await tx.outbox_enqueue_tx("o", "m")
    event = await tx.publish_tx("s", "e")
    keyed = await tx.publish_with_key_tx("s", "k", "f")
    events = await tx.publish_many_tx("s", ["g", "h"])
    await tx.save_offset_tx("s", "c", event)
    assert {} == engine.data.jobs
    assert {} == engine.data.events

    await tx.commit()

    queue, stream = store.queue("q"), store.stream("s")
    assert b'{"n":1}' == (await queue.get_job(job)).payload
    assert [job, *jobs] == [j.id for j in await queue.jobs()]
    assert b'"m"' == (await store.outbox("o").backing.get_job(message)).payload
    assert [event, keyed, *events] == [e.offset for e in await stream.read_since(0, 10)]
    assert [None, "k", None, None] == [e.key for e in await stream.read_since(0, 10)]
    assert 1 == await stream.get_offset("c")


async def test_transaction_reads_its_own_writes(store):
    """Reads on the handle see what the transaction wrote; nobody else does."""
    async with store.begin_tx() as tx:
        job = await tx.enqueue_tx("q", 1)
        first = await tx.publish_tx("s", 1)
        await tx.publish_tx("s", 2)
        await tx.save_offset_tx("s", "c", first)

        assert JobState.PENDING is (await tx.get_job_tx("q", job)).state
        assert None is await tx.get_job_tx("other", job)
        assert [1, 2] == [e.offset for e in await tx.read_since_tx("s", 0, 10)]
        assert [2] == [e.offset for e in await tx.read_from_consumer_tx("s", "c", 10)]
        assert 1 == await tx.get_offset_tx("s", "c")
        assert [] == await tx.read_since_tx("s", 0, 0)
        assert [] == await tx.read_from_consumer_tx("s", "c", -1)
        assert [] == await store.stream("s").read_since(0, 10)


async def test_empty_batches_write_nothing(store):
    """A batch without payloads is no error and no row."""
    async with store.transaction() as tx:
        assert [] == await tx.enqueue_many_tx("q", [])
        assert [] == await tx.publish_many_tx("s", [])


async def test_notifications_wait_for_the_commit(store):
    """A receiver wakes after the commit and not before; a rollback wakes nobody."""
    async with store.listen("c") as wakes:
        waiting = asyncio.ensure_future(wakes.recv())
        async with store.begin_tx() as tx:
            await tx.notify_tx("c", 1)
        await asyncio.sleep(0)
        assert not waiting.done()

        async with store.transaction() as tx:
            await tx.notify_tx("c", 1)
            await asyncio.sleep(0)
            assert not waiting.done()

        assert "c" == (await waiting).channel


async def test_leaving_the_block_rolls_back(engine, store):
    """`begin_tx` without `commit` leaves nothing, and the writer is free."""
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", 1)

    assert {} == engine.data.jobs
    assert 1 == await store.queue("q").enqueue(2)


async def test_committed_block_keeps_what_was_committed(engine, store):
    """Leaving a block after `commit` changes nothing."""
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", 1)
        await tx.commit()

    assert ["begin", "insert_jobs", "commit"] == engine.calls[1:]


async def test_transaction_commits_on_a_clean_end(engine, store):
    """`transaction` commits when its block ends well."""
    async with store.transaction() as tx:
        await tx.enqueue_tx("q", 1)

    assert [1] == list(engine.data.jobs)


@pytest.mark.parametrize("error", [BrokenError, KeyboardInterrupt, asyncio.CancelledError])
async def test_transaction_rolls_back_on_anything_raised(engine, store, error):
    """`transaction` rolls back on any exception, which goes on as it was."""
    raised = error("as it was")

    async def work():
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)
            raise raised

    with pytest.raises(error) as caught:
        await work()

    assert caught.value is raised
    assert {} == engine.data.jobs
    assert not store._runtime.slot.taken


async def test_with_tx_returns_the_value(engine, store):
    """`with_tx` commits and returns what the function returned."""

    async def work(tx):
        return await tx.enqueue_tx("q", 1)

    assert 1 == await store.with_tx(work)
    assert [1] == list(engine.data.jobs)


async def test_with_tx_rolls_back_on_cancellation(engine, store):
    """A cancelled `with_tx` leaves nothing, and re-raises the cancellation."""
    inside = asyncio.Event()

    async def work(tx):
        await tx.enqueue_tx("q", 1)
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(store.with_tx(work))
    await inside.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert {} == engine.data.jobs
    assert 1 == await store.queue("q").enqueue(1)


async def test_rollback_by_hand_inside_the_block_is_legal(engine, store):
    """`transaction` has nothing to commit after a rollback by hand."""
    async with store.transaction() as tx:
        await tx.enqueue_tx("q", 1)
        await tx.rollback()

    assert {} == engine.data.jobs


async def test_spent_handle_says_so(store):
    """After the end every call raises and tells how it ended; `rollback` does nothing."""
    committed = await store.begin_tx()
    await committed.commit()
    undone = await store.begin_tx()
    await undone.rollback()

    await committed.rollback()
    await undone.rollback()
    for tx, how in ((committed, "committed"), (undone, "rolled back")):
        with pytest.raises(DatabaseError, match=f"this transaction was {how}"):
            await tx.enqueue_tx("q", 1)
        with pytest.raises(DatabaseError, match=how):
            await tx.commit()


@pytest.mark.parametrize("call", ["nothing", "enqueue"])
async def test_dropped_handle_rolls_back(engine, store, call):
    """Losing the last reference rolls back, and the writer is free again without help."""
    tx = await store.begin_tx()
    if call == "enqueue":
        await tx.enqueue_tx("q", 1)
    del tx
    gc.collect()

    await until(lambda: not store._runtime.slot.taken)
    assert set() == engine.open_transactions
    assert {} == engine.data.jobs


async def test_dropped_handle_rolls_back_though_all_tasks_are_cancelled(engine, store):
    """Also when the task that rolls back is cancelled before it begins, as frameworks may do."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    before = asyncio.all_tasks()
    del tx
    gc.collect()
    await until(lambda: asyncio.all_tasks() - before)
    for task in asyncio.all_tasks() - before:
        task.cancel()

    await until(lambda: not store._runtime.slot.taken)
    assert set() == engine.open_transactions
    assert {} == engine.data.jobs


async def test_task_that_dropped_its_handle_waits_for_the_rollback(engine, store):
    """A write right after the handle was lost waits its turn instead of being refused."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", "lost")
    del tx
    gc.collect()

    await store.queue("q").enqueue("kept")

    assert [b'"kept"'] == [job.payload for job in engine.data.jobs.values()]


async def test_handle_dropped_after_a_failed_call_rolls_back(engine, store):
    """A failed call does not keep a dropped handle alive."""
    engine.faults["insert_jobs"].append(DatabaseError("disk full"))
    tx = await store.begin_tx()
    with pytest.raises(DatabaseError):
        await tx.enqueue_tx("q", 1)
    del tx
    gc.collect()

    await until(lambda: not store._runtime.slot.taken)
    assert set() == engine.open_transactions


async def test_failed_checks_leave_the_transaction_usable(clock):
    """What is refused before it reaches the database does no harm to the transaction."""
    async with Store(DictEngine(clock, notify_limit=4)) as store, store.transaction() as tx:
        with pytest.raises(PayloadTooLarge) as caught:
            await tx.notify_tx("c", "abc")
        with pytest.raises(InvalidName):
            await tx.enqueue_tx("", 1)
        with pytest.raises(CodecError):
            await tx.enqueue_tx("q", float("nan"))
        with pytest.raises(DatabaseError):
            await tx.get_job_tx("q", True)
        await tx.notify_tx("c", "ab")

        assert 1 == await tx.enqueue_tx("q", 1)
    assert (4, 5) == (caught.value.limit, caught.value.size)


async def test_notify_limit_is_checked_before_any_call(clock):
    """Too large a payload is refused without a round trip."""
    engine = DictEngine(clock, notify_limit=4)
    async with Store(engine) as store:
        engine.calls.clear()
        with pytest.raises(PayloadTooLarge):
            await store.notify("c", "abc")
        assert [] == engine.calls


async def test_failed_call_forbids_the_commit(engine, store):
    """After a call failed in the database, `commit` raises and nothing is there."""
    engine.faults["insert_jobs"].append(DatabaseError("disk full"))
    tx = await store.begin_tx()
    await tx.publish_tx("s", 1)
    with pytest.raises(DatabaseError):
        await tx.enqueue_tx("q", 1)

    with pytest.raises(DatabaseError, match=r"nothing was committed.*disk full"):
        await tx.commit()

    assert {} == engine.data.events
    assert not store._runtime.slot.taken


async def test_failed_commit_frees_the_writer(engine, store):
    """A commit that fails leaves nothing and frees the writer."""
    engine.faults["commit"].append(DatabaseError("disk full"))
    with pytest.raises(DatabaseError, match="disk full"):
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)

    assert set() == engine.open_transactions
    assert 1 == await store.queue("q").enqueue(1)


async def test_failed_rollback_frees_the_writer(engine, store):
    """A rollback that fails is told, and the writer is free."""
    engine.faults["rollback"].append(DatabaseError("connection lost"))
    tx = await store.begin_tx()

    with pytest.raises(DatabaseError, match="connection lost"):
        await tx.rollback()

    assert not store._runtime.slot.taken


async def test_failed_rollback_does_not_hide_the_error(engine, store):
    """The application's own error leaves the block, not the rollback's."""
    engine.faults["rollback"].append(DatabaseError("connection lost"))
    with pytest.raises(BrokenError):
        async with store.transaction():
            raise BrokenError


async def test_failed_begin_frees_the_writer(engine, store):
    """A begin that fails leaves the writer free."""
    engine.faults["begin"].append(DatabaseError("no such file"))
    with pytest.raises(DatabaseError, match="no such file"):
        await store.begin_tx()

    assert not store._runtime.slot.taken


@pytest.mark.parametrize("when", ["before", "after"])
async def test_cancelled_begin_ends_and_is_rolled_back(engine, store, when):
    """A cancelled begin runs to its end, is rolled back, and only then is cancelled."""
    gate = engine.hold(when, "begin")

    async def begin():
        await store.begin_tx()

    task = asyncio.create_task(begin())
    await gate.reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.open()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert set() == engine.open_transactions
    assert "rollback" == engine.calls[-1]
    assert not store._runtime.slot.taken


@pytest.mark.parametrize("when", ["before", "after"])
async def test_cancelled_commit_ends_first(engine, store, when):
    """A cancelled commit is a whole commit; the cancellation follows."""
    gate = engine.hold(when, "commit")
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    task = asyncio.create_task(tx.commit())
    await gate.reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.open()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [1] == list(engine.data.jobs)
    assert 2 == await store.queue("q").enqueue(1)


async def test_cancelled_rollback_ends_first(engine, store):
    """A cancelled rollback is a whole rollback; the cancellation follows."""
    gate = engine.hold("before", "rollback")
    tx = await store.begin_tx()
    task = asyncio.create_task(tx.rollback())
    await gate.reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    gate.open()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert set() == engine.open_transactions
    assert not store._runtime.slot.taken


async def test_cancelled_call_rolls_the_transaction_back(engine, store):
    """A call cancelled half-way leaves unknown contents, so its transaction is undone at once."""
    gate = engine.hold("after", "insert_jobs")
    tx = await store.begin_tx()
    task = asyncio.create_task(tx.enqueue_tx("q", 1))
    await gate.reached.wait()
    task.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task

    with pytest.raises(DatabaseError, match="rolled back, because a call in it was cancelled"):
        await tx.commit()
    assert {} == engine.data.jobs
    assert not store._runtime.slot.taken


async def test_call_behind_a_cancelled_one_is_refused(engine, store):
    """A call that waited behind a cancelled one never runs on what is half done."""
    gate = engine.hold("before", "insert_jobs")
    tx = await store.begin_tx()
    first = asyncio.create_task(tx.enqueue_tx("q", 1))
    await gate.reached.wait()
    second = asyncio.create_task(tx.publish_tx("s", 1))
    await until(lambda: tx._tx._lock._waiters)
    first.cancel()

    with pytest.raises(DatabaseError, match="was cancelled"):
        await second
    assert "append" not in engine.calls


async def test_clean_end_after_a_cancelled_call_is_told(engine, store):
    """A block that swallowed a call's time-out does not seem to have committed."""
    engine.hold("after", "insert_jobs")

    async def work(tx):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await tx.enqueue_tx("q", 1)

    with pytest.raises(DatabaseError, match="was cancelled"):
        await store.with_tx(work)


async def test_calls_of_several_tasks_take_turns(store):
    """Calls on one handle may be gathered; they run one after the other."""
    async with store.transaction() as tx:
        ids = await asyncio.gather(*(tx.enqueue_tx("q", n) for n in range(20)))

    assert 20 == len(set(ids))
    assert 20 == (await store.queue("q").stats()).ready


async def test_waiting_call_of_an_ended_transaction_is_refused(engine, store):
    """A call that waited while another task ended the transaction is refused."""
    gate = engine.hold("before", "insert_jobs")
    tx = await store.begin_tx()
    first = asyncio.create_task(tx.enqueue_tx("q", 1))
    await gate.reached.wait()
    ending = asyncio.create_task(tx.rollback())
    await asyncio.sleep(0)
    second = asyncio.create_task(tx.enqueue_tx("q", 2))
    await until(lambda: len(tx._tx._lock._waiters or ()) == 2)
    gate.open()

    assert 1 == await first
    await ending
    with pytest.raises(DatabaseError, match="rolled back"):
        await second
