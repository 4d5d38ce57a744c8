"""Handlers that cancel their own task, under a worker and under a consumer."""

import asyncio
import contextlib

import pytest
from dict_engine import until

from alkstore_core import Job, JobState, QueueOpts, StreamEvent, TxHandle
from alkstore_core.worker import Consumer, Outcome, PoisonedEvent, Worker, ending

TOLD = "the handler was cancelled, not by its worker"


def cancel():
    """Cancel the task of the caller, which does not notice before its next wait."""
    asyncio.current_task().cancel()


async def returning(_):
    """It is over before anybody notices."""
    cancel()


async def calling(_):
    """So it is with what it awaits."""

    async def inner():
        cancel()
        return 1

    await inner()


async def waiting(_):
    """It notices itself."""
    cancel()
    await asyncio.sleep(0)


def two(first):
    """A handler of several arguments, which are given in another way."""

    async def by_job(payload, job: Job):
        await first(payload)

    async def by_event(payload, event: StreamEvent):
        await first(payload)

    return by_job, by_event


CANCELLED = [returning, calling, waiting]


async def noticing(_):
    """It lets nobody else hear of it."""
    cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def timing_out(_):
    """A time-out within cancels, and takes that back."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()


async def grouping(_):
    """So does a group, one of whose tasks fails."""

    async def fail():
        raise ValueError

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.Event().wait()


DONE = [noticing, timing_out, grouping]


class First:
    """What the handler does with the first event or job, once; later ones are remembered."""

    def __init__(self, first):
        self.first = first
        self.seen = []
        self.heard = []

    async def __call__(self, payload):
        self.seen.append(payload)
        if self.seen == [payload]:
            await self.first(payload)

    async def hear(self, _, call_next):
        """Remember what becomes of each call, as a middleware."""
        error = None
        try:
            await call_next()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.heard.append(ending(error).outcome)


@pytest.mark.parametrize("first", CANCELLED)
async def test_a_job_whose_handler_cancelled_itself_is_retried(engine, store, runs, first):
    """Also when it returned before it noticed; its middlewares hear the same."""
    queue = store.queue("q", QueueOpts(backoff_base_s=10))
    await queue.enqueue_many([1, 2])
    handler = First(first)

    runs(Worker(store, "q", handler, concurrency=1, middlewares=[handler.hear]))
    await until(lambda: handler.heard == [Outcome.RETRIED, Outcome.ACKED])
    await until(lambda: [1] == list(engine.data.jobs))

    job = engine.data.jobs[1]
    assert (JobState.PENDING, 1, TOLD) == (job.state, job.attempts, job.last_error)


@pytest.mark.parametrize("first", CANCELLED)
async def test_an_event_whose_handler_cancelled_itself_comes_again(
    engine, store, runs, clock, first
):
    """As with a job: it is a failed try, and the consumer goes on."""
    await store.stream("s").publish_many([1, 2])
    handler = First(first)

    running = runs(Consumer(store, "s", "c", handler, middlewares=[handler.hear]))
    await until(lambda: 1_001 in {sleeper.due for sleeper in clock._sleepers})
    assert [1] == handler.seen
    await clock.advance(1)
    await until(lambda: [1, 1, 2] == handler.seen)
    await running.end()

    assert [Outcome.RETRIED, Outcome.ACKED, Outcome.ACKED] == handler.heard
    assert 2 == engine.data.offsets["s", "c"]


@pytest.mark.parametrize("first", CANCELLED)
async def test_a_transaction_whose_handler_cancelled_itself_is_rolled_back(
    engine, store, runs, clock, first
):
    """What it wrote is written once, with the event's next try."""
    await store.stream("s").publish(1)
    calls = First(first)

    async def handler(payload, tx: TxHandle):
        await tx.enqueue_tx("out", payload)
        await calls(payload)

    running = runs(Consumer(store, "s", "c", handler))
    await until(lambda: 1_001 in {sleeper.due for sleeper in clock._sleepers})
    assert ({}, set()) == (engine.data.jobs, engine.open_transactions)
    await clock.advance(1)
    await until(lambda: [1, 1] == calls.seen)
    await running.end()

    assert (1, 1) == (len(engine.data.jobs), engine.data.offsets["s", "c"])


@pytest.mark.parametrize("first", CANCELLED)
async def test_arguments_make_no_difference(engine, store, runs, clock, first):
    """A handler that asks for more is treated alike."""
    by_job, by_event = two(first)
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    await store.stream("s").publish(1)

    runs(Worker(store, "q", by_job))
    runs(Consumer(store, "s", "c", by_event))
    await until(lambda: engine.data.jobs[1].last_error)
    await until(lambda: 1_001 in {sleeper.due for sleeper in clock._sleepers})

    assert TOLD == engine.data.jobs[1].last_error


@pytest.mark.parametrize("first", DONE)
async def test_a_cancellation_that_the_handler_has_dealt_with_is_its_own(
    engine, store, runs, first
):
    """What it returns then is its answer, to a worker and to a consumer."""
    await store.queue("q").enqueue_many([1, 2])
    await store.stream("s").publish_many([1, 2])
    jobs, events = First(first), First(first)

    runs(Worker(store, "q", jobs, concurrency=1))
    running = runs(Consumer(store, "s", "c", events))
    await until(lambda: not engine.data.jobs and [1, 2] == events.seen)
    await running.end()

    assert ([1, 2], 2) == (jobs.seen, engine.data.offsets["s", "c"])


@pytest.mark.parametrize("first", [*CANCELLED, noticing])
async def test_a_cancellation_is_none_of_the_later_events(store, runs, clock, first):
    """All are handled in one task, which a `TaskGroup` would cancel again, from Python 3.13 on."""
    await store.stream("s").publish_many([1, 2])
    calls, requested = First(first), []

    async def handler(payload):
        requested.append(asyncio.current_task().cancelling())
        await calls(payload)

    runs(Consumer(store, "s", "c", handler))
    await until(lambda: 1_001 in {sleeper.due for sleeper in clock._sleepers})
    await clock.advance(1)
    await until(lambda: 2 in calls.seen)

    assert {0} == set(requested)


async def test_a_cancelled_handler_that_raises_is_judged_by_its_error(engine, store, runs, clock):
    """The cancellation that it has not noticed meets nothing that comes after it."""

    async def handler(_):
        cancel()
        raise ValueError("bad")

    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    await store.stream("s").publish(1)

    runs(Worker(store, "q", handler))
    consumer = runs(Consumer(store, "s", "c", handler, max_attempts=2))
    await until(lambda: engine.data.jobs[1].last_error)
    await until(lambda: 1_001 in {sleeper.due for sleeper in clock._sleepers})
    await clock.advance(1)
    with pytest.raises(PoisonedEvent) as caught:
        await asyncio.wait_for(consumer.task, 10)

    assert "ValueError: bad" == engine.data.jobs[1].last_error
    assert "bad" == str(caught.value.__cause__)


async def test_a_middleware_that_cancels_its_task_is_no_answer_either(engine, store, runs):
    """It wraps the handler, so its return is that of the call."""

    async def middleware(_, call_next):
        await call_next()
        cancel()

    async def handler(_):
        pass

    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    runs(Worker(store, "q", handler, middlewares=[middleware]))
    await until(lambda: engine.data.jobs[1].last_error)

    assert TOLD == engine.data.jobs[1].last_error
