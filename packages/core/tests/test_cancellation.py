"""A cancelled call is whole or absent, and a cancelled claim strands no job."""

import asyncio

import pytest
from dict_engine import until

from alkstore_core import DatabaseError, JobState, QueueOpts, Store


async def test_cancelled_claim_under_way_is_given_back(engine, store):
    """A claim cancelled while the database works on it is given back, attempt restored."""
    queue = store.queue("q")
    await queue.enqueue(1)
    gate = engine.hold("after", "claim")
    task = asyncio.create_task(queue.claim_one("w"))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.open()

    await until(lambda: "release" in engine.calls)
    job = await queue.get_job(1)
    assert (JobState.PENDING, 0, None) == (job.state, job.attempts, job.worker_id)


async def test_cancellation_between_result_and_resumption_gives_back(engine, store):
    """A claim whose result came, but not to the cancelled task, is given back."""
    queue = store.queue("q")
    await queue.enqueue(1)
    gate = engine.hold("after", "claim")
    task = asyncio.create_task(queue.claim_batch("w", 10))
    await gate.reached.wait()
    gate.open()
    # One turn: the claim has ended, its caller has not resumed yet.
    await asyncio.sleep(0)
    assert 1 == engine.data.jobs[1].attempts
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await until(lambda: engine.data.jobs[1].attempts == 0)
    assert JobState.PENDING is engine.data.jobs[1].state


async def test_given_back_job_wakes_its_queue(engine, store):
    """Workers that wait learn of a job that was given back."""
    queue = store.queue("q")
    await queue.enqueue(1)
    gate = engine.hold("after", "claim")
    async with queue.wakes() as wakes:
        task = asyncio.create_task(queue.claim_one("w"))
        await gate.reached.wait()
        waiting = asyncio.ensure_future(wakes.recv())
        task.cancel()
        gate.open()

        assert "q" == (await waiting).channel


async def test_cancelled_claim_of_nothing_gives_nothing_back(engine, store):
    """Without a job there is nothing to release."""
    gate = engine.hold("after", "claim")
    task = asyncio.create_task(store.queue("q").claim_one("w"))
    await gate.reached.wait()
    task.cancel()
    gate.open()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not store._runtime._background)

    assert "release" not in engine.calls


async def test_cancelled_claim_that_fails_is_quiet(engine, store, caplog):
    """A claim that was cancelled and then fails bothers nobody but the log."""
    gate = engine.hold("before", "claim")
    engine.faults["claim"].append(DatabaseError("connection lost"))
    task = asyncio.create_task(store.queue("q").claim_one("w"))
    await gate.reached.wait()
    task.cancel()
    gate.open()
    await asyncio.gather(task, return_exceptions=True)

    await until(lambda: "connection lost" in caplog.text)


async def test_close_waits_for_give_backs(engine):
    """A job claimed by a cancelled call is given back before `close` returns."""
    store = Store(engine)
    await store.open()
    queue = store.queue("q")
    await queue.enqueue(1)
    gate = engine.hold("after", "claim")
    task = asyncio.create_task(queue.claim_one("w"))
    await gate.reached.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    gate.open()
    await closing

    assert JobState.PENDING is engine.data.jobs[1].state
    assert ["release", "close"] == engine.calls[-2:]


async def test_give_back_waits_for_the_writer(engine, store):
    """A give-back takes its turn behind an open transaction."""
    queue = store.queue("q")
    await queue.enqueue(1)
    gate = engine.hold("after", "claim")
    task = asyncio.create_task(queue.claim_one("w"))
    await gate.reached.wait()
    async with store.begin_tx() as tx:
        task.cancel()
        gate.open()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: store._runtime.slot._queue)
        assert "release" not in engine.calls
        await tx.rollback()

    await until(lambda: "release" in engine.calls)


async def test_given_back_job_of_a_later_claim_stays(engine, clock, store):
    """A give-back that comes too late leaves the job to whoever claimed it since."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=5))
    await queue.enqueue(1)
    release = engine.hold("before", "release")
    claim = engine.hold("after", "claim")
    task = asyncio.create_task(queue.claim_one("w"))
    await claim.reached.wait()
    task.cancel()
    claim.open()
    await asyncio.gather(task, return_exceptions=True)
    await release.reached.wait()
    await clock.advance(6)
    handle = await queue.claim_one("other")
    release.open()
    await until(lambda: not store._runtime._background)

    assert 2 == handle.job.attempts
    assert await handle.ack()


async def test_claim_costs_no_task_once_it_is_over(engine, store):
    """A thousand cancelled claims leave no task behind."""
    before = asyncio.all_tasks()
    queue = store.queue("q")
    tasks = [asyncio.create_task(queue.claim_one("w")) for _ in range(1_000)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("how", ["cancelled", "refused"])
async def test_release_in_doubt_is_the_last_call(engine, store, how, batch):
    """Once a release is on its way its handle does nothing any more, for the job may have gone to
    somebody else, whose claim has the same attempt.
    """
    queue = store.queue("q")
    await queue.enqueue(1)
    handle = await queue.claim_one("w")
    gate = engine.hold("after", "release")
    releasing = asyncio.create_task(queue.release_batch([handle]) if batch else handle.release())
    await gate.reached.wait()
    if how == "cancelled":
        releasing.cancel()
        error = asyncio.CancelledError
    else:
        error = DatabaseError
        gate.error = DatabaseError("nobody knows whether it is done")
    gate.open()
    with pytest.raises(error):
        await releasing
    engine.gates.clear()
    other = await queue.claim_one("x")
    assert handle.claim == other.claim

    assert handle.settled
    assert [False, False, False, False, False] == [
        await handle.release(),
        await handle.ack(),
        await handle.retry(),
        await handle.fail(),
        await handle.heartbeat(10),
    ]
    assert 0 == await queue.release_batch([handle])
    assert 0 == await queue.ack_batch([handle], "w")
    assert await other.ack()
