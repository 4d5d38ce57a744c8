"""Workers: how they end."""

import asyncio
import contextlib
import threading

import pytest
from dict_engine import until

from alkstore_core import DatabaseError, JobState
from alkstore_core.worker import runner as runner_module


def job(engine, number=1):
    """The job as it is stored, or `None`."""
    return engine.data.jobs.get(number)


async def asleep(clock, due):
    """Wait until somebody sleeps until a time."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


@pytest.fixture
def endless():
    """A handler that runs until it is let go, with what happened to it."""

    class Endless:
        def __init__(self):
            self.begun, self.go, self.ended = [], asyncio.Event(), []

        async def __call__(self, payload):
            self.begun.append(payload)
            try:
                await self.go.wait()
            finally:
                self.ended.append(payload)

    return Endless()


async def test_stop_lets_what_runs_end_and_claims_nothing(engine, store, work, endless):
    """What was begun is acknowledged; what waits stays as it was."""
    await store.queue("q").enqueue_many([1, 2])

    running = work(endless, concurrency=1)
    await until(lambda: [1] == endless.begun)
    running.stop.stop()
    await until(lambda: running.worker._stopping)
    endless.go.set()
    await running.task

    assert [1] == endless.begun
    assert job(engine, 1) is None
    assert (JobState.PENDING, 0) == (job(engine, 2).state, job(engine, 2).attempts)


async def test_after_the_grace_period_the_rest_is_given_back(engine, store, work, clock, endless):
    """Handlers are cancelled; their jobs are pending at once, with their attempt restored."""
    await store.queue("q").enqueue_many([1, 2])

    running = work(endless, grace=10)
    await until(lambda: [1, 2] == endless.begun)
    running.stop.stop()
    await asleep(clock, 1_010)
    await clock.advance(9)
    meanwhile = list(endless.ended)
    await clock.advance(1)
    await running.task

    assert [] == meanwhile
    assert [1, 2] == sorted(endless.ended)
    for number in (1, 2):
        assert (JobState.PENDING, 0) == (job(engine, number).state, job(engine, number).attempts)
        assert job(engine, number).last_error is None


async def test_a_handler_that_returns_when_it_is_cut_gives_its_job_back(engine, store, work, clock):
    """Who swallows the cancellation and returns has not done its work."""
    await store.queue("q").enqueue(1)
    begun = asyncio.Event()

    async def handler(_):
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    running = work(handler, grace=10)
    await begun.wait()
    running.stop.stop()
    await asleep(clock, 1_010)
    await clock.advance(10)
    await running.task

    assert (JobState.PENDING, 0) == (job(engine).state, job(engine).attempts)
    assert job(engine).last_error is None


async def test_abort_ends_the_grace_period(engine, store, work, endless):
    """A second signal need not wait for the first one's grace."""
    await store.queue("q").enqueue(1)

    running = work(endless)
    await until(lambda: endless.begun)
    running.stop.stop()
    running.abort.stop()
    await running.task

    assert (JobState.PENDING, 0) == (job(engine).state, job(engine).attempts)


async def test_heartbeats_go_on_while_it_ends(engine, store, work, clock, endless):
    """A grace period longer than the visibility timeout keeps the claims all the same."""
    await store.queue("q").enqueue(1)

    running = work(endless, grace=1_000)
    await until(lambda: endless.begun)
    running.stop.stop()
    await asleep(clock, 1_100)
    await clock.advance(100)
    await until(lambda: job(engine).claim_expires_at == 1_400)
    endless.go.set()
    await running.task

    assert {} == engine.data.jobs


async def test_a_cancelled_run_gives_back_at_once(engine, store, work, endless):
    """Cancelling `run` cancels the handlers, gives their jobs back and is re-raised."""
    await store.queue("q").enqueue(1)

    running = work(endless)
    await until(lambda: endless.begun)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task

    assert [1] == endless.ended
    assert (JobState.PENDING, 0) == (job(engine).state, job(engine).attempts)


async def test_a_claim_that_comes_after_the_end_is_given_back(
    engine, store, work, clock, monkeypatch
):
    """The worker left while its database did not answer; what it claimed meanwhile is free."""
    await store.queue("q").enqueue_many([1, 2])
    silence = asyncio.Event()
    telling = asyncio.Event()

    async def tell():
        telling.set()
        await silence.wait()

    async def handler(payload):
        if payload == 1:
            monkeypatch.setattr(running.worker._settling, "tell", tell)
            engine.hold("after", "claim")

    running = work(handler, concurrency=1)
    await until(lambda: engine.held)
    (claim,) = engine.held
    await asyncio.gather(telling.wait(), claim.reached.wait())
    running.abort.stop()
    for now in (1_005, 1_006):
        await asleep(clock, now)
        await clock.advance(now - clock.now())
    await running.task
    claim.open()

    await until(lambda: job(engine, 2).attempts == 0)
    assert JobState.PENDING is job(engine, 2).state


async def test_giving_back_is_tried_once(engine, store, work, endless, caplog):
    """A job whose release got no answer is left to its lapse: it may be somebody else's by now."""
    await store.queue("q").enqueue(1)
    running = work(endless)
    await until(lambda: endless.begun)
    engine.faults["release"] += [DatabaseError("the answer is lost")]

    running.abort.stop()
    await running.task

    assert 1 == engine.calls.count("release")
    assert (JobState.PROCESSING, 1) == (job(engine).state, job(engine).attempts)
    assert "1 jobs may not have been given back" in caplog.text
    assert "the answer is lost" in caplog.text


async def test_jobs_that_arrive_after_the_stop_are_given_back(engine, store, work, endless):
    """A claim that was on its way when the stop came starts nothing."""
    await store.queue("q").enqueue(1)
    gate = engine.hold("after", "claim")

    running = work(endless)
    await gate.reached.wait()
    running.stop.stop()
    await until(lambda: running.worker._stopping)
    gate.open()
    await running.task

    assert [] == endless.begun
    assert (JobState.PENDING, 0) == (job(engine).state, job(engine).attempts)


async def test_a_handler_not_begun_yet_is_given_back(engine, store, work, endless):
    """A stop without grace, in the very turn in which jobs arrive, loses none of them."""
    await store.queue("q").enqueue(1)
    gate = engine.hold("after", "claim")

    running = work(endless)
    await gate.reached.wait()
    start = running.worker._start

    def start_and_cut(handles, mark):
        start(handles, mark)
        running.worker._stop()
        running.worker._cut_all()

    running.worker._start = start_and_cut
    gate.open()
    await running.task

    assert [] == endless.begun
    assert (JobState.PENDING, 0) == (job(engine).state, job(engine).attempts)


async def test_a_plain_function_that_still_runs_is_not_given_back(engine, store, work, caplog):
    """Its thread goes on, so nobody gets its job before the claim has lapsed."""
    await store.queue("q").enqueue(1)
    begun, go = threading.Event(), threading.Event()

    def handler(_):
        begun.set()
        go.wait(60)

    running = work(handler, grace=0)
    await asyncio.to_thread(begun.wait, 30)
    running.stop.stop()
    async with asyncio.timeout(30):
        await running.task
    state = job(engine)
    go.set()

    assert (JobState.PROCESSING, 1) == (state.state, state.attempts)
    assert "still runs in its thread" in caplog.text
    assert "1 jobs could not be settled" in caplog.text


async def test_a_handler_that_will_not_end_is_left_behind(engine, store, work, clock, caplog):
    """The end of a worker has a bound; such a job is not given back, since it still runs."""
    await store.queue("q").enqueue(1)
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(_):
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    running = work(handler, grace=10)
    await begun.wait()
    running.stop.stop()
    await asleep(clock, 1_010)
    await clock.advance(10)
    await asleep(clock, 1_010 + int(runner_module.CLEANUP_S))
    await clock.advance(5)
    await running.task
    state = job(engine)
    go.set()
    await asyncio.sleep(0)

    assert (JobState.PROCESSING, 1) == (state.state, state.attempts)
    assert "1 jobs could not be settled" in caplog.text


async def test_an_outage_does_not_hold_up_the_end_for_ever(engine, store, work, clock, caplog):
    """Outcomes that the database does not take are given up after the grace period, and told."""
    await store.queue("q").enqueue(1)
    engine.faults["ack"] += [DatabaseError("away")] * 10_000
    done = asyncio.Event()

    async def handler(_):
        done.set()

    running = work(handler, grace=10)
    await done.wait()
    await until(lambda: "could not be told" in caplog.text)
    running.stop.stop()
    await asleep(clock, 1_010)
    await clock.advance(10)
    await asleep(clock, 1_015)
    await clock.advance(5)
    await running.task

    assert JobState.PROCESSING == job(engine).state
    assert "1 jobs could not be settled" in caplog.text


async def test_a_worker_leaves_no_task_and_no_thread(engine, store, work):
    """After `run` has returned everything it started has ended."""
    await store.queue("q").enqueue_many(range(3))
    tasks = len(asyncio.all_tasks())
    threads = threading.active_count()

    def handler(_):
        pass

    running = work(handler)
    async with asyncio.timeout(30):
        while engine.data.jobs:  # noqa: ASYNC110 - threads have no event of this loop.
            await asyncio.sleep(0.001)
        await running.end()
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        while threading.active_count() > threads:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_call_that_never_returns_does_not_hold_up_the_end_for_ever(
    engine, store, work, clock, endless, caplog
):
    """After the grace period and five seconds a claim on its way is left to itself."""
    gate = engine.hold("before", "claim")

    running = work(endless, grace=10)
    await gate.reached.wait()
    running.stop.stop()
    for now in (1_010, 1_015, 1_016):
        await asleep(clock, now)
        await clock.advance(now - clock.now())
    await running.task
    gate.open()

    assert "ended without an answer of the database" in caplog.text
