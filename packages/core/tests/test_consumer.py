"""Consumers: order, offsets, poison, and who is live."""

import asyncio
import contextlib
import math
import threading

import attrs
import pytest
from dict_engine import DictEngine, until

from alkstore_core import (
    Closed,
    DatabaseError,
    EnqueueOpts,
    InvalidName,
    Store,
    StreamEvent,
    TxHandle,
)
from alkstore_core.worker import Consumer, Fail, Outcome, PoisonedEvent, Retry, ending
from alkstore_core.worker.alarm import Backoff


@attrs.frozen
class Order:
    """A payload."""

    number: int


def offset(engine, stream="s", consumer="c"):
    """The saved offset."""
    return engine.data.offsets.get((stream, consumer), 0)


async def asleep(clock, due):
    """Wait until somebody sleeps until a time."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


async def wait_for(happened):
    """As `until`, for what waits for real time or a thread."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - it has no event of this loop.
            await asyncio.sleep(0.001)


@pytest.fixture
def consume(store, runs):
    """Start consumer `c` of stream `s`; it ends with the test."""
    return lambda handler, **options: runs(Consumer(store, "s", "c", handler, **options))


class Seen:
    """A handler that remembers."""

    def __init__(self):
        self.payloads = []

    async def __call__(self, payload):
        self.payloads.append(payload)


@pytest.fixture
def seen():
    """A handler that remembers what it was given."""
    return Seen()


async def test_events_are_handled_in_order_and_saved_at_the_end(engine, store, consume, seen):
    """Those that were there and those that come; a stop saves how far it came."""
    await store.stream("s").publish_many([1, 2])

    running = consume(seen)
    await until(lambda: seen.payloads == [1, 2])
    await store.stream("s").publish(3)
    await until(lambda: seen.payloads == [1, 2, 3])
    before = offset(engine)
    await running.end()

    assert 0 == before
    assert 3 == offset(engine)


async def test_offsets_are_saved_a_second_after(engine, store, consume, seen, clock):
    """An idle consumer does not keep what it has handled to itself."""
    await store.stream("s").publish_many([1, 2])

    consume(seen)
    await until(lambda: seen.payloads == [1, 2])
    await asleep(clock, 1_001)
    before = offset(engine)
    await clock.advance(1)
    await until(lambda: offset(engine) == 2)

    assert 0 == before


async def test_offsets_are_saved_each_hundred_events(engine, store, consume, seen):
    """A busy consumer repeats a hundred events at most."""
    await store.stream("s").publish_many(range(250))

    consume(seen)
    await until(lambda: len(seen.payloads) == 250)

    assert 200 == offset(engine)
    assert 2 == engine.calls.count("save_offset")


async def test_a_save_that_fails_is_done_again(engine, store, consume, seen, clock, caplog):
    """It is told, and the next one a second later lands."""
    await store.stream("s").publish(1)
    engine.faults["save_offset"].append(DatabaseError("away"))

    consume(seen)
    await asleep(clock, 1_001)
    await clock.advance(1)
    await until(lambda: "cannot save offset 1: away" in caplog.text)
    await asleep(clock, 1_002)
    await clock.advance(1)
    await until(lambda: offset(engine) == 1)


async def test_a_consumer_goes_on_behind_its_offset(engine, store, consume, seen):
    """What was saved does not come again."""
    await store.stream("s").publish_many([1, 2, 3])
    await store.stream("s").save_offset("c", 2)

    consume(seen)
    await until(lambda: seen.payloads)

    assert [3] == seen.payloads


async def test_a_handler_gets_what_its_annotations_say(store, consume):
    """The payload by type, and the event."""
    await store.stream("s").publish_with_key("k", Order(7))
    seen = []

    async def handler(event: StreamEvent, order: Order):
        seen.append((event.key, order))

    consume(handler)
    await until(lambda: seen)

    assert [("k", Order(7))] == seen


async def test_a_plain_function_runs_in_a_thread(engine, store, consume):
    """One event at a time, and saved like others."""
    await store.stream("s").publish_many([1, 2])
    seen = []

    def handler(payload):
        seen.append((payload, threading.current_thread() is threading.main_thread()))

    running = consume(handler)
    await wait_for(lambda: len(seen) == 2)
    await running.end()

    assert [(1, False), (2, False)] == seen
    assert 2 == offset(engine)


async def test_middlewares_wrap_the_handler(store, consume, seen):
    """They see the event."""
    await store.stream("s").publish("x")
    around = []

    async def middleware(event, call_next):
        around.append(event.offset)
        await call_next()

    consume(seen, middlewares=[middleware])
    await until(lambda: seen.payloads)

    assert [1] == around


async def test_a_middleware_that_returns_a_promise_has_called_nothing(store, consume, seen):
    """The event is not taken for handled."""
    await store.stream("s").publish("x")

    async def middleware(_, call_next):
        return call_next()

    running = consume(seen, middlewares=[middleware], max_attempts=1)
    await until(running.task.done)
    with pytest.raises(PoisonedEvent) as caught:
        await running.task

    assert "the middleware returned a coroutine" in str(caught.value.__cause__)


class Failing:
    """A handler that fails at one payload a number of times."""

    def __init__(self, error, payload=2, times=10**6):
        self.error, self.payload, self.times = error, payload, times
        self.payloads = []

    async def __call__(self, payload):
        self.payloads.append(payload)
        if payload == self.payload and self.times:
            self.times -= 1
            raise self.error


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (ValueError("bad"), [1, 2, 4, 8, 16, 32, 60, 60]),
        (Retry("later", 7), [7, 7]),
        (asyncio.CancelledError(), [1, 2]),
    ],
    ids=["error", "Retry", "cancelled"],
)
async def test_a_failing_event_blocks_with_backoff(
    engine, store, consume, clock, caplog, error, pauses
):
    """It is tried again and again; nothing behind it is handled, nothing is skipped."""
    await store.stream("s").publish_many([1, 2, 3])
    handler = Failing(error, times=len(pauses))

    running = consume(handler, lease=1_000)
    for number, pause in enumerate(pauses, 1):
        await until(lambda n=number: handler.payloads == [1] + [2] * n)
        await asleep(clock, clock.now() + pause)
        await clock.advance(pause - 1)
        assert number == handler.payloads.count(2)
        await clock.advance(1)
    await until(lambda: handler.payloads[-1] == 3)
    await running.end()

    assert 3 == offset(engine)
    assert f"offset 2 failed (attempt 1), again in {pauses[0]} s" in caplog.text


@pytest.mark.parametrize(
    "error",
    [Fail("no"), ValueError("bad"), GeneratorExit("mine")],
    ids=["Fail", "attempts", "GeneratorExit"],
)
async def test_poison_stops(engine, store, consume, clock, error):
    """After its tries, or at once on `Fail`, the consumer ends with the event in its error."""
    await store.stream("s").publish_many([1, 2, 3])
    handler = Failing(error)

    running = consume(handler, max_attempts=2)
    if not isinstance(error, Fail):
        await until(lambda: handler.payloads == [1, 2])
        await asleep(clock, 1_001)
        await clock.advance(1)
    with pytest.raises(PoisonedEvent, match=r"'c' of stream 's' stopped at offset 2") as caught:
        await running.task

    assert error is caught.value.__cause__
    assert 2 == caught.value.offset
    assert 1 == offset(engine)
    assert {} == engine.data.leases


async def test_poison_is_skipped(engine, store, consume, caplog):
    """A payload that does not fit is logged as an error and left behind; later ones follow."""
    await store.stream("s").publish_many([{"number": 1}, "odd", {"number": 3}])
    seen = []

    async def handler(order: Order):
        seen.append(order.number)

    running = consume(handler, on_poison="skip")
    await until(lambda: seen == [1, 3])
    await running.end()

    assert "skips offset 2" in caplog.text
    assert 3 == offset(engine)


async def test_a_skipped_event_at_the_end_is_saved(engine, store, consume, clock, caplog):
    """It does not come again after a restart."""
    await store.stream("s").publish("odd")

    async def handler(order: Order, tx: TxHandle):
        raise AssertionError

    consume(handler, on_poison="skip")
    await until(lambda: "skips offset 1" in caplog.text)
    await asleep(clock, 1_001)
    await clock.advance(1)
    await until(lambda: offset(engine) == 1)


# -- exactly once ---------------------------------------------------------------------------


async def test_effect_and_offset_commit_together(engine, store, consume):
    """A handler that asks for the transaction writes in the one that saves the offset."""
    await store.stream("s").publish_many([1, 2])
    offsets = []

    async def handler(payload, tx: TxHandle):
        offsets.append(offset(engine))
        await tx.enqueue_tx("done", payload)

    running = consume(handler)
    await until(lambda: offset(engine) == 2)
    await running.end()

    assert [0, 1] == offsets
    assert [b"1", b"2"] == [job.payload for job in engine.data.jobs.values()]


async def test_an_optional_transaction_is_the_open_one(engine, store, consume):
    """Exactly once is not given up in silence because the annotation says `None`, too."""
    await store.stream("s").publish(1)

    async def handler(number: int, tx: TxHandle | None = None):
        await tx.enqueue_tx("next", number)

    consume(handler)
    await until(lambda: offset(engine) == 1)

    assert ["next"] == [job.queue for job in engine.data.jobs.values()]


async def test_a_failed_effect_is_undone(engine, store, consume, clock):
    """Neither effect nor offset of an attempt that raised is there; the next one writes once."""
    await store.stream("s").publish(1)
    failures = [ValueError("bad")]

    async def handler(payload, tx: TxHandle):
        await tx.enqueue_tx("done", payload)
        if failures:
            raise failures.pop()

    consume(handler)
    await asleep(clock, 1_001)
    between = len(engine.data.jobs), offset(engine)
    await clock.advance(1)
    await until(lambda: offset(engine) == 1)

    assert (0, 0) == between
    assert 1 == len(engine.data.jobs)


async def test_a_handler_that_commits_by_itself_commits_the_offset_too(engine, store, consume):
    """Whoever commits, effect and offset belong together."""
    await store.stream("s").publish(1)
    calls = []

    async def handler(payload, tx: TxHandle):
        calls.append(payload)
        await tx.enqueue_tx("done", payload)
        await tx.commit()

    running = consume(handler)
    await until(lambda: offset(engine) == 1)
    await running.end()

    assert [1] == calls
    assert 1 == len(engine.data.jobs)


async def test_a_handler_that_rolled_back_has_not_handled_its_event(
    engine, store, consume, clock, caplog
):
    """That it returned all the same is no success: its effect is gone, so its event comes again."""
    await store.stream("s").publish_many([1, 2])
    seen = []

    async def handler(payload, tx: TxHandle):
        seen.append(payload)
        await tx.enqueue_tx("done", payload)
        if seen == [1]:
            await tx.rollback()

    consume(handler, max_attempts=2)
    await asleep(clock, 1_001)
    between = list(seen)
    await clock.advance(1)
    await until(lambda: offset(engine) == 2)

    assert [1] == between
    assert [1, 1, 2] == seen
    assert [b"1", b"2"] == [job.payload for job in engine.data.jobs.values()]
    assert "rolled its transaction back and returned" in caplog.text


async def test_a_handler_that_always_rolls_back_is_poison(store, consume):
    """As one that raises."""
    await store.stream("s").publish(1)

    async def handler(_, tx: TxHandle):
        await tx.rollback()

    with pytest.raises(PoisonedEvent) as caught:
        await consume(handler, max_attempts=1).task
    assert "raise instead" in str(caught.value.__cause__)


async def test_an_event_that_another_has_passed_is_left_alone(engine, store, consume):
    """The offset is looked at in the transaction: a stalled consumer repeats nothing."""
    await store.stream("s").publish_many([1, 2, 3])
    seen = []

    async def handler(payload, tx: TxHandle):
        seen.append(payload)
        if payload == 1:
            await tx.save_offset_tx("s", "c", 2)

    running = consume(handler)
    await until(lambda: 3 in seen)
    await running.end()

    assert [1, 3] == seen


async def test_an_outage_is_no_attempt(engine, store, consume, caplog):
    """Trouble with the store's own database never makes an event poison."""
    await store.stream("s").publish(1)
    engine.faults["begin"] += [DatabaseError("away")] * 3
    seen = []

    async def handler(payload, tx: TxHandle):
        seen.append(payload)

    consume(handler, max_attempts=1, on_poison="skip")
    await wait_for(lambda: offset(engine) == 1)

    assert [1] == seen
    assert 3 == caplog.text.count("offset 1: away")


@pytest.fixture
def soon(monkeypatch):
    """Tries follow each other without a pause worth waiting for."""
    monkeypatch.setattr(Backoff, "FIRST", 0.001)


async def test_errors_of_the_handler_by_the_stores_own_class_count(engine, store, consume, soon):
    """A wrong argument is a `DatabaseError` too: from the second one on it is a failed try."""
    await store.stream("s").publish_many([2**70, 1])
    outcomes = []

    async def judging(_, call_next):
        try:
            await call_next()
        except DatabaseError as error:
            outcomes.append(ending(error).outcome)
            raise

    async def handler(payload: int, store: Store):
        await store.queue("q").enqueue(None, EnqueueOpts(delay=payload))

    running = consume(handler, max_attempts=1, on_poison="skip", middlewares=[judging])
    await wait_for(lambda: engine.data.jobs)
    await running.end()

    assert [Outcome.RETRIED, Outcome.DEAD] == outcomes
    assert 2 == offset(engine)


async def test_a_refused_commit_counts(engine, store, consume, soon):
    """A handler that goes on behind a statement that failed cannot be committed, ever."""
    await store.stream("s").publish(1)
    calls = []

    async def handler(payload, tx: TxHandle):
        calls.append(payload)
        engine.faults["insert_jobs"].append(DatabaseError("a key is there twice"))
        with contextlib.suppress(DatabaseError):
            await tx.enqueue_tx("done", payload)

    with pytest.raises(PoisonedEvent) as caught:
        await consume(handler, max_attempts=1).task
    assert "nothing was committed" in str(caught.value.__cause__)
    assert [1, 1] == calls


async def test_errors_do_not_count_while_the_database_takes_no_write(engine, store, consume, soon):
    """It is asked after each, so that an outage skips no event."""
    await store.stream("s").publish(1)
    handler = Failing(DatabaseError("away"), payload=1, times=4)
    engine.faults["save_offset"] += [DatabaseError("away")] * 4

    consume(handler, max_attempts=1)
    await wait_for(lambda: len(handler.payloads) == 5)

    assert [] == engine.faults["save_offset"]


async def test_a_database_that_is_back_at_once_was_in_trouble_all_the_same(
    engine, store, consume, soon
):
    """A lost connection is one error: it does not count, nor does another one much later."""
    await store.stream("s").publish(1)
    lost = DatabaseError("connection lost")
    answers = [lost, Retry("not yet", delay=0), lost, "begin", lost, None]
    calls = []

    async def handler(payload, tx: TxHandle):
        calls.append(payload)
        await tx.enqueue_tx("done", payload)
        answer = answers.pop(0)
        if answers[:1] == ["begin"]:
            engine.faults["begin"].append(DatabaseError(answers.pop(0)))
        if answer is not None:
            raise answer

    consume(handler, max_attempts=2)
    await wait_for(lambda: offset(engine) == 1)

    assert 5 == len(calls)
    assert 1 == len(engine.data.jobs)


# -- who is live ----------------------------------------------------------------------------


@pytest.fixture
async def other(clock, engine):
    """Another client of the same database."""
    second = DictEngine(clock, single_writer=False)
    second.data, second.signals = engine.data, engine.signals
    async with Store(second) as opened:
        yield opened


async def test_of_two_one_is_live(engine, store, other, consume, runs, seen):
    """The second one stands by, and goes on where the first one ended, at once."""
    first = consume(seen)
    await until(lambda: first.worker.live)
    late = Seen()
    second = runs(Consumer(other, "s", "c", late))
    await until(lambda: engine.calls.count("acquire") and not second.worker.live)
    await store.stream("s").publish_many([1, 2])
    await until(lambda: seen.payloads == [1, 2])
    await first.end()
    await until(lambda: second.worker.live)
    await store.stream("s").publish(3)
    await until(lambda: late.payloads)

    assert [3] == late.payloads


async def test_the_successor_of_a_dead_one_waits_for_its_lease(engine, store, consume, seen, clock):
    """Who vanishes without a word is followed after its lease has lapsed."""
    await store.stream("s").publish(1)
    await store.try_lock("consumer/s/c", "dead", 30)

    running = consume(seen)
    for now in (1_010, 1_020, 1_030):
        await asleep(clock, now)
        await clock.advance(10)
        assert not running.worker.live
    await asleep(clock, 1_040)
    await clock.advance(10)
    await until(lambda: seen.payloads == [1])


async def test_the_lease_is_renewed_at_a_third(engine, store, consume, seen, clock):
    """As long as it lives nobody else can take over."""
    running = consume(seen)
    await until(lambda: running.worker.live)
    for now in (1_010, 1_020, 1_030, 1_040):
        await asleep(clock, now)
        await clock.advance(10)
        until_ = now + 30
        await until(lambda due=until_: engine.data.leases["consumer/s/c"].expires_at == due)

    assert running.worker.lock in engine.data.leases


async def test_a_renewal_that_failed_is_tried_again(engine, store, consume, seen, clock, caplog):
    """One refusal of the database costs no lease."""
    running = consume(seen)
    await until(lambda: running.worker.live)
    await asleep(clock, 1_010)
    engine.faults["renew"].append(DatabaseError("away"))
    await clock.advance(10)
    await wait_for(lambda: engine.data.leases["consumer/s/c"].expires_at == 1_040)

    assert "could not be renewed, trying again: away" in caplog.text
    assert running.worker.live


async def test_wakes_that_the_database_refuses_are_tried_again(
    engine, store, consume, seen, monkeypatch, caplog
):
    """Who cannot hear of a holder's end attaches later, and works meanwhile."""
    subscribe, tries = engine.signals.subscribe, []

    async def failing(topic):
        if topic.kind == "channel":
            tries.append(topic)
            if len(tries) == 1:
                raise DatabaseError("away")
        return await subscribe(topic)

    monkeypatch.setattr(engine.signals, "subscribe", failing)
    running = consume(seen)
    await wait_for(lambda: len(tries) == 2)

    assert running.worker.live
    assert "no wakes, trying again: away" in caplog.text


@pytest.mark.parametrize("trouble", ["refused", "hangs"])
async def test_a_lost_lease_cancels_the_handler(engine, store, consume, clock, caplog, trouble):
    """Before another one can be live: a second before the lease lapses at the latest."""
    await store.stream("s").publish(1)
    reasons = []

    async def handler(_):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            reasons.append(str(error.args[0]))
            raise

    running = consume(handler)
    await until(lambda: running.worker.live)
    await asleep(clock, 1_010)
    if trouble == "hangs":
        gate = engine.hold("before", "renew")
        await clock.advance(10)
        await gate.reached.wait()
        await asleep(clock, 1_029)
        await clock.advance(19)
    else:
        del engine.data.leases["consumer/s/c"]
        await clock.advance(10)
    await until(lambda: reasons)
    for gate in engine.held:
        gate.open()

    assert "the lock of consumer 'c' of stream 's'" in reasons[0]
    assert "its lock is lost" in caplog.text
    assert 0 == offset(engine)


@pytest.mark.parametrize(
    ("cut", "in_tx"),
    # On an engine with one writer its open transaction keeps others from the lock, too.
    [("lock lost", False), ("grace over", False), ("grace over", True)],
)
@pytest.mark.parametrize("raised", [ValueError("broken off"), Fail("broken off"), None])
async def test_what_a_handler_makes_of_being_cut_is_no_failure(
    engine, store, consume, clock, caplog, cut, raised, in_tx
):
    """Its event comes again: neither skipped nor counted as a try, nor taken for handled."""
    await store.stream("s").publish(1)
    begun = []

    async def plain(_):
        begun.append(clock.now())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if len(begun) > 1:
                raise
            if raised is not None:
                raise raised from None

    async def handler(payload, tx: TxHandle):
        await plain(payload)

    running = consume(handler if in_tx else plain, max_attempts=1, on_poison="skip", grace=7)
    await until(lambda: begun)
    if cut == "lock lost":
        await asleep(clock, 1_010)
        del engine.data.leases["consumer/s/c"]
        await clock.advance(10)
        await until(lambda: len(begun) == 2)
    else:
        running.stop.stop()
        await asleep(clock, 1_007)
        await clock.advance(7)
        await running.task

    assert "its handler raised when it was cut" in caplog.text
    assert "skips" not in caplog.text
    assert 0 == offset(engine)


async def test_a_lost_lease_lets_nothing_more_begin(engine, store, consume, clock):
    """Also when the handler did not heed its cancellation and the next event is there already."""
    await store.stream("s").publish_many([1, 2])
    begun, go = [], asyncio.Event()

    async def handler(payload):
        begun.append(payload)
        try:
            await go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    running = consume(handler)
    await until(lambda: begun)
    await asleep(clock, 1_010)
    acquire = engine.hold("before", "acquire")
    del engine.data.leases["consumer/s/c"]
    await clock.advance(10)
    await acquire.reached.wait()
    seen, live = list(begun), running.worker.live
    go.set()
    acquire.open()

    assert [1] == seen
    assert not live


async def test_a_process_that_stood_still_begins_no_event(engine, store, consume, seen, clock):
    """Its lease is over before it has heard so: the event is the successor's."""
    gate = engine.hold("after", "read")

    running = consume(seen)
    await store.stream("s").publish(1)
    await gate.reached.wait()
    clock._now += 29
    engine.faults["acquire"].append(DatabaseError("away"))
    gate.open()
    await until(lambda: not running.worker.live)

    assert [] == seen.payloads


# -- ending ---------------------------------------------------------------------------------


async def test_stop_lets_the_handler_end(engine, store, consume):
    """The event under way is finished and saved; the next one is left."""
    await store.stream("s").publish_many([1, 2])
    begun, go, seen = asyncio.Event(), asyncio.Event(), []

    async def handler(payload):
        begun.set()
        await go.wait()
        seen.append(payload)

    running = consume(handler)
    await begun.wait()
    running.stop.stop()
    await until(lambda: running.worker._stopping)
    go.set()
    await running.task

    assert [1] == seen
    assert 1 == offset(engine)
    assert {} == engine.data.leases


async def test_after_the_grace_period_the_handler_is_cancelled(engine, store, consume, clock):
    """Its event is not saved; the lock is free at once."""
    await store.stream("s").publish(1)
    begun = asyncio.Event()

    async def handler(_):
        begun.set()
        await asyncio.Event().wait()

    running = consume(handler, grace=7)
    await begun.wait()
    running.stop.stop()
    await asleep(clock, 1_007)
    await clock.advance(7)
    await running.task

    assert 0 == offset(engine)
    assert {} == engine.data.leases


async def unmoved(go):
    """Wait, whoever cancels that."""
    while not go.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await go.wait()


async def test_a_handler_that_will_not_end_is_left_behind(engine, store, consume, clock, caplog):
    """The end has a bound, 5 s after the grace period."""
    await store.stream("s").publish(1)
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(_):
        begun.set()
        await unmoved(go)

    running = consume(handler, grace=7)
    await begun.wait()
    running.stop.stop()
    await asleep(clock, 1_007)
    await clock.advance(7)
    await asleep(clock, 1_012)
    await clock.advance(5)
    await running.task
    go.set()
    await asyncio.sleep(0)

    assert "its handler does not end" in caplog.text
    assert ["consumer/s/c"] == list(engine.data.leases), "another one would run beside it"


async def test_a_handler_left_behind_keeps_the_lock_when_offsets_cannot_be_saved(
    engine, store, consume, clock
):
    """Also an end that gives up on the database leaves the lock to lapse."""
    await store.stream("s").publish_many([1, 2])
    begun, go = asyncio.Event(), asyncio.Event()

    async def handler(payload):
        if payload == 2:
            begun.set()
            await unmoved(go)

    running = consume(handler, grace=7)
    await begun.wait()
    saving = engine.hold("before", "save_offset")
    running.stop.stop()
    await asleep(clock, 1_007)
    await clock.advance(7)
    await asleep(clock, 1_012)
    await clock.advance(5)
    await saving.reached.wait()
    await asleep(clock, 1_013)
    await clock.advance(1)
    await running.task
    go.set()

    assert ["consumer/s/c"] == list(engine.data.leases), "another one would run beside it"


async def test_a_thread_that_goes_on_keeps_the_lock_until_it_lapses(store, engine, consume, clock):
    """A plain function cannot be cancelled: nobody begins its event beside it."""
    await store.stream("s").publish(1)
    begun, go = threading.Event(), threading.Event()

    def handler(_):
        begun.set()
        go.wait(30)

    running = consume(handler, grace=7)
    await wait_for(begun.is_set)
    running.stop.stop()
    await asleep(clock, 1_007)
    await clock.advance(7)
    await running.task
    leases = list(engine.data.leases)
    go.set()

    assert ["consumer/s/c"] == leases


async def test_a_call_that_never_returns_does_not_hold_up_the_end_for_ever(
    engine, store, consume, seen, clock, caplog
):
    """After the grace period and five seconds a call on its way is left to itself."""
    gate = engine.hold("before", "acquire")

    running = consume(seen, grace=7)
    await gate.reached.wait()
    running.stop.stop()
    for now in (1_007, 1_012, 1_013):
        await asleep(clock, now)
        await clock.advance(now - clock.now())
    await running.task
    gate.open()

    assert "ended without an answer of the database" in caplog.text


async def test_stop_does_not_wait_for_a_backoff(engine, store, consume):
    """A blocked consumer ends at once, and its event stays."""
    await store.stream("s").publish(2)
    handler = Failing(ValueError("bad"))

    running = consume(handler)
    await until(lambda: handler.payloads)
    await running.end()

    assert 0 == offset(engine)


async def test_a_cancelled_run_frees_the_lock(engine, store, consume, seen):
    """Cancelling `run` is a stop without grace, and is re-raised."""
    running = consume(seen)
    await until(lambda: running.worker.live)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task

    assert {} == engine.data.leases


async def test_a_store_that_closes_ends_its_consumers_with_an_error(store, consume, seen):
    """`run` raises `Closed`."""
    running = consume(seen)
    await until(lambda: running.worker.live)
    assert ("s", "c") == (running.worker.stream, running.worker.name)
    await store.close()

    with pytest.raises(Closed):
        await running.task


@pytest.mark.parametrize("call", ["acquire", "renew", "get_offset", "read"])
async def test_an_outage_is_waited_out(engine, store, consume, seen, caplog, call):
    """Whatever the database refuses is told and tried again."""
    await store.stream("s").publish(1)
    engine.faults[call] += [DatabaseError("away")]

    consume(seen)
    await wait_for(lambda: seen.payloads == [1])

    assert "trying again: away" in caplog.text


async def test_an_outage_that_lets_it_take_the_lock_is_waited_out_ever_longer(
    engine, store, consume, seen, monkeypatch
):
    """That it took the lock, and heard itself give it up, is no reason to try again at once."""
    monkeypatch.setattr(Backoff, "FIRST", 0.02)
    await store.stream("s").publish(1)
    engine.faults["get_offset"] += [DatabaseError("away")] * 3
    loop = asyncio.get_running_loop()

    began = loop.time()
    consume(seen)
    await wait_for(lambda: seen.payloads == [1])

    assert loop.time() - began >= 0.02 + 0.04 + 0.08


@pytest.mark.parametrize("call", ["acquire", "get_offset", "read"])
async def test_a_stop_does_not_wait_for_an_outage(
    engine, store, consume, seen, monkeypatch, caplog, call
):
    """There is nothing to try again for."""
    monkeypatch.setattr(Backoff, "FIRST", 60)
    engine.faults[call] += [DatabaseError("away")]

    running = consume(seen)
    await until(lambda: "trying again: away" in caplog.text)
    async with asyncio.timeout(10):
        await running.end()


async def in_thread(tx: TxHandle):
    """A handler that is async, for the next one to be like."""


def plain_with_tx(tx: TxHandle):
    """A handler in a thread with something of the loop."""


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"handler": plain_with_tx}, TypeError),
        ({"max_attempts": 0}, ValueError),
        ({"lease": 2}, ValueError),
        ({"grace": -1}, ValueError),
        ({"on_poison": "ignore"}, ValueError),
        ({"name": ""}, InvalidName),
        ({"stream": "__alkstore_x"}, Exception),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_options_out_of_range_are_refused(store, change, error):
    """Each has its bound, told where the consumer is made."""
    arguments = {"stream": "s", "name": "c", "handler": in_thread} | change

    with pytest.raises(error):
        Consumer(store, **arguments)


KINDS = {
    "max_attempts": "an int or None",
    "lease": "an int",
    "grace": "a number of seconds",
    "on_poison": "'stop' or 'skip'",
    "stream": "a stream or its name",
    "middlewares": "functions in a list or tuple",
}


@pytest.mark.parametrize("value", [b"5", True, object(), 5j, [5], {"a": 1}])
@pytest.mark.parametrize("option", KINDS)
def test_options_of_another_type_are_refused(store, option, value):
    """The error names the option, what it must be, and what was given."""
    arguments = {"stream": "s", "name": "c", "handler": in_thread, option: value}

    with pytest.raises(TypeError) as caught:
        Consumer(store, **arguments)

    assert f"{option} must be {KINDS[option]}, not {value!r}" == str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_attempts", "5", "max_attempts must be an int or None, not '5'"),
        ("max_attempts", 2.5, "max_attempts must be an int or None, not 2.5"),
        ("max_attempts", 0, "max_attempts must be at least 1, not 0"),
        ("lease", "30", "lease must be an int, not '30'"),
        ("lease", 30.0, "lease must be an int, not 30.0"),
        ("lease", None, "lease must be an int, not None"),
        ("lease", 2, "lease must be at least 3 seconds, not 2"),
        ("lease", 2**63, "lease must be at most 2**63-1, not 0x8000000000000000"),
        ("grace", "x", "grace must be a number of seconds, not 'x'"),
        ("grace", math.nan, "grace must be at least 0 seconds, not nan"),
        ("on_poison", "ignore", "on_poison must be 'stop' or 'skip', not 'ignore'"),
        ("on_poison", None, "on_poison must be 'stop' or 'skip', not None"),
    ],
)
def test_options_say_their_rule(store, option, value, message):
    """Where the consumer is made, not when its lock is refused for ever."""
    with pytest.raises((TypeError, ValueError)) as caught:
        Consumer(store, "s", "c", in_thread, **{option: value})

    assert message == str(caught.value)


def test_locks_of_other_consumers_have_other_names(store, seen):
    """Slashes in names do not make two consumers one; long names fit."""
    names = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("x" * 255, "y" * 255), ("x" * 255, "z")]
    locks = [Consumer(store, stream, name, seen).lock for stream, name in names]

    assert 5 == len(set(locks))
    assert max(map(len, locks)) <= 255
