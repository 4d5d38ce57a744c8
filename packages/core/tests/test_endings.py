"""What becomes of a job or an event, as a middleware hears of it."""

import asyncio

import pytest
from dict_engine import until
from outcomes import ENDINGS, Scenes

from alkstore_core import CodecError, DatabaseError
from alkstore_core.worker import Consumer, Ending, Fail, Outcome, Retry, ending
from alkstore_core.worker.endings import ends_the_loop


class Hearing:
    """A middleware that asks at the end."""

    def __init__(self):
        self.heard = []

    async def __call__(self, _, call_next):
        error = None
        try:
            return await call_next()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.heard.append(ending(error))


@pytest.fixture
def hearing():
    """What was heard."""
    return Hearing()


@pytest.mark.parametrize("scene", ENDINGS)
async def test_a_middleware_hears_what_becomes_of_a_job(engine, store, runs, clock, hearing, scene):
    """It is what the worker does with the job, however the handler ended."""
    await Scenes(engine, store, runs, clock).play(scene, [hearing])
    outcome, timed_out, _ = ENDINGS[scene]

    assert [Ending(outcome=Outcome(outcome), timed_out=timed_out)] == hearing.heard


async def test_a_handler_that_returns_when_its_time_is_up_is_retried(
    engine, store, work, clock, hearing
):
    """It was cancelled, and returned all the same: that is no answer, as with a thread."""
    await store.queue("q").enqueue(1)
    begun = []

    async def handler(payload):
        begun.append(payload)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    work(handler, timeout=5, middlewares=[hearing])
    await until(lambda: begun and 1_005 in {s.due for s in clock._sleepers})
    await clock.advance(5)
    await until(lambda: hearing.heard)

    assert [Ending(outcome=Outcome.RETRIED, timed_out=True)] == hearing.heard


EVENTS = {
    "acked": (None, {}, Outcome.ACKED),
    "retried": (ValueError("no route"), {}, Outcome.RETRIED),
    "retried_by_retry": (Retry("busy", delay=60), {}, Outcome.RETRIED),
    "outage": (DatabaseError("away"), {"max_attempts": 1}, Outcome.RETRIED),
    "skipped": (ValueError("no route"), {"max_attempts": 1, "on_poison": "skip"}, Outcome.DEAD),
    "failed": (Fail("no such thing"), {"on_poison": "skip"}, Outcome.DEAD),
    "payload": (CodecError("no int"), {"on_poison": "skip"}, Outcome.DEAD),
    "stopped": (Fail("no such thing"), {}, Outcome.DEAD),
}


@pytest.mark.parametrize("scene", EVENTS)
async def test_a_middleware_hears_what_becomes_of_an_event(store, runs, hearing, scene):
    """It is what the consumer does with the event."""
    error, options, outcome = EVENTS[scene]
    await store.stream("s").publish(1)

    async def handler(_):
        if error is not None:
            raise error

    runs(Consumer(store, "s", "c", handler, middlewares=[hearing], **options))
    await until(lambda: hearing.heard)

    assert outcome is hearing.heard[0].outcome


@pytest.mark.parametrize(
    ("cut", "outcome"), [("lock lost", Outcome.LOST), ("grace over", Outcome.RELEASED)]
)
@pytest.mark.parametrize("raised", [None, ValueError("broken off")])
async def test_a_middleware_hears_that_a_consumer_was_cut(
    engine, store, runs, clock, hearing, cut, outcome, raised
):
    """Whatever the handler makes of it: its event has not failed, and comes again."""
    await store.stream("s").publish(1)
    begun = []

    async def handler(_):
        begun.append(clock.now())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if raised is not None and len(begun) == 1:
                raise raised from None
            raise

    running = runs(Consumer(store, "s", "c", handler, grace=7, middlewares=[hearing]))
    await until(lambda: begun)
    if cut == "lock lost":
        await until(lambda: 1_010 in {sleeper.due for sleeper in clock._sleepers})
        del engine.data.leases["consumer/s/c"]
        await clock.advance(10)
    else:
        running.stop.stop()
        await until(lambda: 1_007 in {sleeper.due for sleeper in clock._sleepers})
        await clock.advance(7)
    await until(lambda: hearing.heard)

    assert outcome is hearing.heard[0].outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.ACKED),
        (ValueError(), Outcome.RETRIED),
        (Fail(), Outcome.DEAD),
        (CodecError("no"), Outcome.DEAD),
        (asyncio.CancelledError(), Outcome.RELEASED),
    ],
)
def test_beside_any_worker_the_error_alone_decides(error, outcome):
    """A loop of one's own may use the same middlewares."""
    assert Ending(outcome=outcome) == ending(error)


async def test_a_coroutine_that_is_closed_has_not_failed():
    """Nobody runs it any more, so nothing is told of it; a handler's own `GeneratorExit` is."""
    task = asyncio.current_task()
    other = asyncio.ensure_future(asyncio.sleep(0))

    def in_another_thread(error):
        return ends_the_loop(error, task)

    assert not ends_the_loop(GeneratorExit(), task)
    assert ends_the_loop(GeneratorExit(), other)
    assert await asyncio.to_thread(in_another_thread, GeneratorExit())
    assert ends_the_loop(KeyboardInterrupt(), task)
    assert not await asyncio.to_thread(in_another_thread, KeyboardInterrupt())
    assert not ends_the_loop(SystemExit(), task)
    await other
