"""Workers and time: heartbeats, lost claims, jobs that take too long."""

import asyncio
import threading

import pytest
from dict_engine import until

from alkstore_core import DatabaseError, JobHandle, JobState, QueueOpts
from alkstore_core.worker import ClaimLost
from alkstore_core.worker import pulse as pulse_module


def job(engine, number=1):
    """The job as it is stored, or `None`."""
    return engine.data.jobs.get(number)


async def asleep(clock, due):
    """Wait until somebody sleeps until a time."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


async def wait_for(happened):
    """As `until`, for what another thread does."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - the thread has no event of this loop.
            await asyncio.sleep(0.001)


class Endless:
    """A handler that runs until it is let go, and tells how it was cancelled."""

    def __init__(self):
        self.begun = []
        self.go = asyncio.Event()
        self.cancelled = []

    async def __call__(self, payload):
        self.begun.append(payload)
        try:
            await self.go.wait()
        except asyncio.CancelledError as error:
            self.cancelled.append(error.args[0])
            raise


@pytest.fixture
async def endless():
    """A handler that does not end by itself."""
    return Endless()


async def test_one_heartbeat_for_all_at_a_third(engine, store, work, clock, endless):
    """Two jobs that run far beyond their visibility timeout are kept by one statement a third."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=30))
    await queue.enqueue_many([1, 2])

    work(endless)
    await until(lambda: [1, 2] == endless.begun)
    for beat in range(1, 7):
        await asleep(clock, 1_000 + beat * 10)
        await clock.advance(10)
        await until(lambda beat=beat: engine.calls.count("extend") == beat)
        expected = 1_000 + beat * 10 + 30
        await until(lambda due=expected: job(engine, 2).claim_expires_at == due)
    endless.go.set()
    await until(lambda: not engine.data.jobs)

    assert 6 == engine.calls.count("extend")
    assert [] == endless.cancelled


async def test_jobs_of_other_timeouts_have_a_heartbeat_of_their_own(
    engine, store, work, clock, endless
):
    """Each claim is extended by the visibility timeout of its own job."""
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    await store.queue("q", QueueOpts(visibility_timeout_s=90)).enqueue(2)

    work(endless)
    await until(lambda: len(endless.begun) == 2)
    await asleep(clock, 1_010)
    await clock.advance(25)
    await until(lambda: job(engine, 1).claim_expires_at == 1_055)
    between = job(engine, 2).claim_expires_at
    await asleep(clock, 1_030)
    await clock.advance(5)
    await until(lambda: job(engine, 2).claim_expires_at == 1_120)

    assert 1_090 == between
    assert 1_055 == job(engine, 1).claim_expires_at


class Extending:
    """A handler that sends a heartbeat of its own, and then runs until it is let go."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.go = asyncio.Event()
        self.extended = asyncio.Event()
        self.cancelled = []

    async def __call__(self, handle: JobHandle):
        assert await handle.heartbeat(self.seconds)
        self.extended.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError as error:
            self.cancelled.append(error.args[0])
            raise


async def test_a_shorter_heartbeat_of_the_handler_is_renewed_in_time(engine, store, work, clock):
    """The claim ends when the handler said; the worker keeps it, by the same seconds each time."""
    await store.queue("q", QueueOpts(visibility_timeout_s=300)).enqueue(1)
    handler = Extending(30)

    work(handler)
    await handler.extended.wait()
    ends = [job(engine).claim_expires_at]
    for beat in (1, 2, 3):
        await asleep(clock, 1_000 + beat * 10)
        await clock.advance(10)
        await until(lambda due=1_030 + beat * 10: job(engine).claim_expires_at == due)
    handler.go.set()
    await until(lambda: not engine.data.jobs)

    assert [1_030] == ends
    assert [] == handler.cancelled


async def test_a_longer_heartbeat_of_the_handler_is_not_cut_down(
    engine, store, work, clock, endless
):
    """Neither the worker's next heartbeat ends the claim earlier, nor is the handler cancelled."""
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue_many([1, 2])
    handler = Extending(120)

    async def either(handle: JobHandle):
        await (handler(handle) if handle.job.id == 1 else endless(2))

    work(either)
    await handler.extended.wait()
    await until(lambda: endless.begun)
    for second in range(10, 100, 10):
        await asleep(clock, 1_000 + second)
        await clock.advance(10)
        await until(lambda due=1_030 + second: job(engine, 2).claim_expires_at == due)
    kept = job(engine).claim_expires_at
    await asleep(clock, 1_100)
    await clock.advance(10)
    await until(lambda: job(engine).claim_expires_at == 1_130)
    handler.go.set()
    endless.go.set()
    await until(lambda: not engine.data.jobs)

    assert 1_120 == kept
    assert [] == handler.cancelled


async def test_of_two_heartbeats_at_once_the_shorter_is_believed(engine, store, work, clock):
    """Nobody knows which the database took last, so the next one comes in time for either."""
    await store.queue("q", QueueOpts(visibility_timeout_s=300)).enqueue(1)
    begun, beat, extended, go = (asyncio.Event() for _ in range(4))

    async def handler(handle: JobHandle):
        begun.set()
        await beat.wait()
        assert await handle.heartbeat(30)
        extended.set()
        await go.wait()

    work(handler)
    await begun.wait()
    await asleep(clock, 1_100)
    gate = engine.hold("before", "extend")
    await clock.advance(100)
    await gate.reached.wait()
    engine.gates.clear()
    clock._now += 1
    beat.set()
    await extended.wait()
    gate.open()
    await until(lambda: job(engine).claim_expires_at == 1_401)
    await asleep(clock, 1_111)
    go.set()
    await until(lambda: not engine.data.jobs)


async def test_a_refused_heartbeat_cancels_the_handler(engine, store, work, clock, endless, caplog):
    """The job was cancelled: its handler hears of it by `ClaimLost`, and nothing is settled."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=30))
    await queue.enqueue_many([1, 2])

    running = work(endless)
    await until(lambda: len(endless.begun) == 2)
    await queue.cancel(1)
    await asleep(clock, 1_010)
    await clock.advance(10)
    await until(lambda: endless.cancelled)
    endless.go.set()
    await until(lambda: not engine.data.jobs)

    (reason,) = endless.cancelled
    assert isinstance(reason, ClaimLost)
    assert "heartbeat was refused" in str(reason)
    assert "job 1 is cancelled" in caplog.text
    assert "too late" not in caplog.text
    assert 0 == running.worker.running


@pytest.mark.parametrize("trouble", ["refuses", "hangs"])
async def test_without_a_heartbeat_the_handler_goes_before_the_claim(
    engine, store, work, clock, endless, monkeypatch, trouble
):
    """A database that refuses heartbeats, or does not answer: cancelled 1 s before the end."""
    monkeypatch.setattr(pulse_module, "TRY_AGAIN_S", 0.001)
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    if trouble == "hangs":
        engine.hold("before", "extend")
    else:
        engine.faults["extend"] += [DatabaseError("away")] * 10_000

    work(endless)
    await until(lambda: endless.begun)
    await asleep(clock, 1_010)
    await clock.advance(28)
    await until(lambda: "extend" in engine.calls)
    await asleep(clock, 1_029)
    early = list(endless.cancelled)
    await clock.advance(1)
    await until(lambda: endless.cancelled)

    assert [] == early
    assert isinstance(endless.cancelled[0], ClaimLost)
    assert clock.now() <= job(engine).claim_expires_at
    assert JobState.PROCESSING == job(engine).state


async def test_a_heartbeat_that_failed_is_tried_again(
    engine, store, work, clock, endless, monkeypatch, caplog
):
    """One refusal costs nothing: the next heartbeat keeps the claim."""
    monkeypatch.setattr(pulse_module, "TRY_AGAIN_S", 0.001)
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    engine.faults["extend"] += [DatabaseError("away")]

    work(endless)
    await until(lambda: endless.begun)
    await asleep(clock, 1_010)
    await clock.advance(10)
    await wait_for(lambda: job(engine).claim_expires_at == 1_040)

    assert "no heartbeat: away" in caplog.text
    assert [] == endless.cancelled


async def test_a_job_that_takes_too_long_is_cancelled_and_retried(
    engine, store, work, clock, endless
):
    """Its last error says so, and its slot is free."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue_many([1, 2])

    work(endless, timeout=20, concurrency=1)
    await until(lambda: [1] == endless.begun)
    await asleep(clock, 1_020)
    await clock.advance(20)
    await until(lambda: [1, 2] == endless.begun)

    assert JobState.PENDING == job(engine).state
    assert "timed out after 20 s" == job(engine).last_error
    assert ["its time is up"] == endless.cancelled


async def test_a_handler_that_returns_when_its_time_is_up_has_not_done_its_work(
    engine, store, work, clock
):
    """Who swallows the cancellation, as a library may, and returns is retried as anybody else."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    begun = asyncio.Event()

    async def handler(_):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    work(handler, timeout=20)
    await begun.wait()
    await asleep(clock, 1_020)
    await clock.advance(20)
    await until(lambda: job(engine).state is JobState.PENDING)

    assert "timed out after 20 s" == job(engine).last_error
    assert "ack" not in engine.calls


async def test_a_handler_that_settles_when_its_time_is_up_is_left_as_settled(
    engine, store, work, clock
):
    """Who has done the work in spite of the time-out says so by its handle."""
    await store.queue("q").enqueue(1)
    begun = asyncio.Event()

    async def handler(handle: JobHandle):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await handle.ack()

    work(handler, timeout=20)
    await begun.wait()
    await asleep(clock, 1_020)
    await clock.advance(20)
    await until(lambda: not engine.data.jobs)

    assert "requeue" not in engine.calls


async def test_a_handler_that_will_not_be_cancelled_keeps_its_claim(engine, store, work, clock):
    """As long as it runs heartbeats go on, so that nobody does its job beside it."""
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(_):
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    work(handler, timeout=5)
    await begun.wait()
    for second in range(1_005, 1_100, 5):
        await until(lambda: any(s.due <= clock.now() + 10 for s in clock._sleepers))
        await clock.advance(5)
        await until(lambda at=second: job(engine).claim_expires_at > at + 15)
    go.set()
    await until(lambda: job(engine).state is JobState.PENDING)


async def test_a_plain_function_that_takes_too_long_is_retried_when_it_returns(
    engine, store, work, clock, caplog
):
    """Nobody can cancel a thread: the job is retried once it has returned, not beside it."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    go = threading.Event()

    def handler(_):
        go.wait(30)

    work(handler, timeout=20)
    await asleep(clock, 1_020)
    await clock.advance(20)
    await until(lambda: "still runs in its thread" in caplog.text)
    meanwhile = job(engine).state
    go.set()
    await wait_for(lambda: job(engine).state is JobState.PENDING)

    assert JobState.PROCESSING == meanwhile
    assert "timed out after 20 s" == job(engine).last_error


async def test_a_plain_function_that_hangs_loses_its_claim_and_no_earlier(
    engine, store, work, clock
):
    """Without heartbeats the claim lapses; then another handler gets the job."""
    await store.queue("q", QueueOpts(visibility_timeout_s=90)).enqueue(1)
    go = threading.Event()
    calls = []

    def handler(_):
        calls.append(clock.now())
        if len(calls) == 1:
            go.wait(60)

    work(handler, timeout=20)
    await wait_for(lambda: calls)
    await asleep(clock, 1_020)
    await clock.advance(20)
    await until(lambda: clock.now() == 1_020)
    # The queue's own timer asks once a real second when the claim will lapse.
    await wait_for(lambda: 1_091 in {sleeper.due for sleeper in clock._sleepers})
    await clock.advance(71)
    await wait_for(lambda: len(calls) == 2)
    await wait_for(lambda: not engine.data.jobs)
    go.set()

    assert [1_000, 1_091] == calls
    assert "extend" not in engine.calls


async def test_a_result_that_comes_after_the_lapse_is_told_and_dropped(
    engine, store, work, clock, caplog, monkeypatch
):
    """An acknowledgement is fenced: who is late changes nothing, and the log says so."""
    monkeypatch.setattr(pulse_module, "TRY_AGAIN_S", 0.001)
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)

    async def handler(_):
        # As a handler that blocks the loop: nobody gets to beat meanwhile.
        clock._now += 31

    work(handler, concurrency=1)
    await until(lambda: "too late" in caplog.text)

    assert job(engine) is not None


async def test_jobs_whose_claim_is_over_when_they_arrive_are_not_begun(
    engine, store, work, clock, endless, caplog
):
    """The process stood still between the claim and its answer: others have them by now."""
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    gate = engine.hold("after", "claim")

    running = work(endless)
    await gate.reached.wait()
    clock._now += 29
    gate.open()
    await until(lambda: "came too late" in caplog.text)

    assert [] == endless.begun
    assert 0 == running.worker.running
    assert JobState.PROCESSING == job(engine).state


async def test_an_engine_s_fault_does_not_stop_the_heart(
    engine, store, work, clock, endless, monkeypatch, caplog
):
    """A bug below is told with its traceback, and the next heartbeat is sent all the same."""
    monkeypatch.setattr(pulse_module, "TRY_AGAIN_S", 0.001)
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)
    engine.faults["extend"] += [ZeroDivisionError("a bug")]

    work(endless)
    await until(lambda: endless.begun)
    await asleep(clock, 1_010)
    await clock.advance(10)
    await wait_for(lambda: job(engine).claim_expires_at == 1_040)

    assert "ZeroDivisionError: a bug" in caplog.text


async def test_a_closed_store_cancels_at_the_next_heartbeat(engine, store, work, clock, endless):
    """Nobody keeps the claims any more, so what runs has to go."""
    await store.queue("q", QueueOpts(visibility_timeout_s=30)).enqueue(1)

    running = work(endless)
    await until(lambda: endless.begun)
    monkey = asyncio.Event()
    running.worker._break = lambda _: monkey.set()
    await store.close()
    await monkey.wait()
    await asleep(clock, 1_010)
    await clock.advance(10)
    await until(lambda: endless.cancelled)
    running.task.cancel()

    assert "the store was closed" in str(endless.cancelled[0])
