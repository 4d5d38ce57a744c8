"""Workers, deliveries and schedules of a plain script."""

import asyncio
import contextlib
import signal
import threading

import pytest

from alkstore_core import DatabaseError, StopToken
from alkstore_core.sync import SyncJobHandle
from alkstore_core.worker import App, PoisonedEvent, Worker
from alkstore_core.worker import running as running_module


@pytest.fixture(autouse=True)
def handlers_of_signals():
    """Whatever a test does to the signals' handlers is undone; SIGINT raises."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def tell(number):
    """Send the main thread a signal."""
    signal.pthread_kill(threading.main_thread().ident, number)


def test_an_app_runs_until_its_token_is_stopped(blocking):
    """Plain handlers run in threads, where they may use the blocking store."""
    app, stop = App(), StopToken()

    @app.handler("first")
    def first(n: int) -> None:
        blocking.queue("second").enqueue(n + 1)

    @app.handler("second")
    async def second(n: int) -> None:
        seen.append(n)
        stop.stop()

    seen = []
    blocking.queue("first").enqueue(1)
    blocking.run(app, stop=stop, schedules=False)

    assert [2] == seen
    assert [] == blocking.queues()


def test_the_lifespans_of_apps_are_around_their_handlers(blocking):
    """On the store's loop, in the order of the apps, left in the other order."""
    told, stop = [], StopToken()

    def app_of(name):
        @contextlib.asynccontextmanager
        async def lifespan(store):
            assert store is blocking.wrapped
            told.append(name)
            yield
            told.append(f"{name} left")

        return App(lifespan=lifespan)

    one, other = app_of("one"), app_of("other")

    @other.handler("q")
    def work(number: int) -> None:
        told.append(number)
        stop.stop()

    blocking.queue("q").enqueue(1)
    blocking.run(one, other, stop=stop, schedules=False)

    assert ["one", "other", 1, "other left", "one left"] == told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_stop(blocking, number):
    """What runs comes to its end, and the signals' handlers are as they were."""
    before = signal.getsignal(number)
    stop = StopToken()

    async def work():
        tell(number)
        await stop.wait()

    blocking.queue("q").enqueue(1)
    blocking.run(Worker(blocking.wrapped, "q", work), schedules=False, stop=stop)

    assert [] == blocking.queues()
    assert before is signal.getsignal(number)


def test_a_second_signal_ends_the_grace(blocking):
    """A handler that takes its time is cancelled, and its job given back at once."""
    stop = StopToken()

    async def work():
        tell(signal.SIGTERM)
        await stop.wait()
        tell(signal.SIGTERM)
        await asyncio.Event().wait()

    blocking.queue("q").enqueue(1)
    blocking.run(Worker(blocking.wrapped, "q", work, grace=3600), schedules=False, stop=stop)

    assert 1 == blocking.queue("q").claim_one("w").job.attempts


def test_signals_are_told_with_what_follows(blocking, caplog):
    """In the very words of the asynchronous `run`, with its events."""
    caplog.set_level("INFO", "alkstore_core")
    stop = StopToken()

    async def work():
        tell(signal.SIGINT)
        await stop.wait()
        tell(signal.SIGINT)
        await asyncio.Event().wait()

    blocking.queue("q").enqueue(1)
    graces = {"q": 3600, "other": 2.5}
    workers = [Worker(blocking.wrapped, name, work, grace=graces[name]) for name in graces]
    blocking.run(*workers, schedules=False, stop=stop)

    told = [record for record in caplog.records if record.name == running_module.__name__]
    assert [
        "SIGINT: ending; jobs under way have up to 3600 s, once more ends at once",
        "SIGINT again: giving back what is under way",
        "ended",
    ] == [record.message for record in told]
    assert ["alkstore.run.ending", "alkstore.run.aborting", "alkstore.run.ended"] == [
        record.event_name for record in told
    ]
    assert not [name for name, *_ in caplog.record_tuples if "sync" in name]


def test_a_signal_after_a_stop_ends_the_grace(blocking, caplog):
    """It is the first signal, and no longer the first demand."""
    caplog.set_level("INFO", running_module.__name__)
    stop = StopToken()

    async def work():
        stop.stop()
        tell(signal.SIGTERM)
        await asyncio.Event().wait()

    blocking.queue("q").enqueue(1)
    blocking.run(Worker(blocking.wrapped, "q", work, grace=3600), schedules=False, stop=stop)

    assert ["SIGTERM: giving back what is under way", "ended"] == [
        record.message for record in caplog.records if record.name == running_module.__name__
    ]
    assert 1 == blocking.queue("q").claim_one("w").job.attempts


def test_without_signals_an_interruption_ends_it(blocking):
    """Ctrl-C is a `KeyboardInterrupt` then, raised once everything has ended."""

    async def work():
        tell(signal.SIGINT)
        await asyncio.Event().wait()

    blocking.queue("q").enqueue(1)
    with pytest.raises(KeyboardInterrupt):
        blocking.run(Worker(blocking.wrapped, "q", work), schedules=False, signals=False)

    assert 1 == blocking.queue("q").stats().ready


def test_another_thread_runs_until_its_token_is_stopped(blocking):
    """Beside the main thread there are no signals to have."""
    stop = StopToken()
    blocking.queue("q").enqueue(1)
    runner = Worker(blocking.wrapped, "q", stop.stop)
    thread = threading.Thread(target=lambda: blocking.run(runner, schedules=False, stop=stop))
    thread.start()
    thread.join(10)

    assert not thread.is_alive()


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("kind", ["job", "event"])
def test_no_handler_s_own_interruption_ends_it(blocking, kind, asynchronous):
    """On a loop beside the main thread none is a Ctrl-C: it has failed, and the next one comes."""
    app, stop = App(concurrency=1), StopToken()

    def handle(payload):
        if payload == "last":
            stop.stop()
            return
        raise KeyboardInterrupt

    async def handle_on_the_loop(payload):
        handle(payload)

    handler = handle_on_the_loop if asynchronous else handle
    if kind == "job":
        app.handler("q")(handler)
        blocking.queue("q").enqueue_many(["first", "last"])
    else:
        app.consumer("s", "c", max_attempts=1, on_poison="skip")(handler)
        blocking.stream("s").publish_many(["first", "last"])
    blocking.run(app, stop=stop, schedules=False)

    if kind == "job":
        (failed,) = blocking.queue("q").jobs()
        assert "KeyboardInterrupt" in failed.last_error
    else:
        assert 2 == blocking.stream("s").get_offset("c")


def test_nothing_to_run_is_refused(blocking):
    """As by `alkstore_core.worker.run`."""
    with pytest.raises(ValueError, match="nothing to run"):
        blocking.run(schedules=False)


def test_schedules_run_until_stopped(engine, blocking):
    """`run_schedules` blocks, and ends with its token."""
    stop = StopToken()
    blocking.schedule("s", "@every 1m", "q", {"n": 1})
    thread = threading.Thread(target=blocking.run_schedules, args=(stop,))
    thread.start()
    while "list_schedules" not in engine.calls and "due_schedules" not in engine.calls:
        blocking.queues()
        if not thread.is_alive():
            break
    blocking.call(engine.clock.advance, 60)
    with blocking.queue("q").wakes() as wakes:
        while not blocking.queue("q").stats().ready:
            wakes.recv(timeout=10)
    stop.stop()
    thread.join(10)

    assert not thread.is_alive()
    assert blocking.unschedule("s")
    assert [] == blocking.schedules()


def test_a_delivery_runs_in_the_calling_thread(blocking):
    """It gets a blocking handle; returning is an acknowledgement."""
    outbox = blocking.outbox("o")
    outbox.enqueue({"to": "ada"})
    seen = []

    def deliver(handle):
        assert isinstance(handle, SyncJobHandle)
        seen.append((handle.job.payload_as(dict), threading.current_thread()))

    assert outbox.run_once("w", deliver)
    assert [({"to": "ada"}, threading.current_thread())] == seen
    assert not outbox.run_once("w", deliver)
    assert [] == blocking.outboxes()


def test_a_delivery_that_raises_is_tried_again(blocking):
    """Its error is the message's `last_error`."""
    outbox = blocking.outbox("o")
    message = outbox.enqueue("tea")

    def deliver(_):
        raise OSError("no route")

    assert outbox.run_once("w", deliver)
    assert "no route" in outbox.backing.get_job(message).last_error


def test_a_delivery_that_settled_the_message_is_left_alone(blocking):
    """What it decided stands, also when it raised afterwards."""
    outbox = blocking.outbox("o")
    message = outbox.enqueue("tea")

    def deliver(handle):
        handle.fail("hopeless")
        raise OSError("no route")

    assert outbox.run_once("w", deliver)
    assert "hopeless" == outbox.backing.get_job(message).last_error


def test_an_async_delivery_is_refused_and_its_message_kept(blocking):
    """Nobody would await it, so the message was not delivered, and is not acknowledged."""
    outbox = blocking.outbox("o")
    outbox.enqueue("tea")

    async def deliver(_):
        raise AssertionError("never run")

    with pytest.raises(DatabaseError, match="must be a plain function"):
        outbox.run_once("w", deliver)
    assert 1 == outbox.backing.stats().delayed


def test_an_interrupted_delivery_is_neither(blocking):
    """It is not acknowledged and not retried: the claim stands, and lapses."""
    outbox = blocking.outbox("o")
    outbox.enqueue("tea")

    def deliver(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outbox.run_once("w", deliver)
    assert 1 == outbox.backing.stats().processing


def test_batches_take_and_give_blocking_handles(blocking):
    """Handles of the facade go in and come out; ids are taken too."""
    queue = blocking.queue("q")
    queue.enqueue_many([1, 2, 3, 4])
    handles = queue.claim_batch("w", 4)

    assert handles == queue.heartbeat_batch(handles, 60)
    assert 1 == queue.release_batch(handles[:1])
    assert 2 == queue.ack_batch([handles[1], handles[2].job.id], "w")
    with pytest.raises(DatabaseError, match="takes job handles, not int"):
        queue.release_batch([5])
    assert handles[3].heartbeat(60)
    assert handles[3].retry("later", delay=60)
    assert handles[3].settled
    assert not handles[3].ack()


def test_operators_lists(blocking):
    """What is there can be listed, looked at and cleaned."""
    queue = blocking.queue("q")
    first, second = queue.enqueue_many([1, 2])
    queue.claim_one("w").fail("hopeless")
    with blocking.try_lock("l", "me", 60) as lock:
        assert lock.renew(60)
        assert ("l", "me") == (lock.name, lock.owner)
        assert ["l"] == [info.name for info in blocking.locks()]
    assert [] == blocking.locks()

    assert [first] == [job.id for job in queue.dead_jobs()]
    assert [first] == [job.id for job in queue.jobs("dead")]
    assert queue.cancel(second)
    assert queue.redrive(first)
    assert 0 == queue.purge_dead()
    assert 0 == queue.sweep_expired()
    stream = blocking.stream("s")
    stream.publish_with_key("k", 1)
    stream.publish("x")
    stream.save_offset("me", 1)
    assert ["me"] == [position.consumer for position in stream.consumers()]
    assert [2] == [event.offset for event in stream.read_from_consumer("me", 9)]
    assert ["k"] == [event.key for event in stream.read_since(0, 1)]
    assert 1 == stream.trim_to(1)
    assert (["q"], ["s"]) == (blocking.queues(), blocking.streams())
    assert [] == blocking.diagnose()


@pytest.mark.parametrize("where", ["entered", "left"])
def test_a_lifespan_that_hangs_is_given_up_at_a_signal(blocking, where):
    """At the first one while it is entered, and while it is left at one that ends the grace."""
    told, stop = [], StopToken()

    async def hang():
        tell(signal.SIGTERM)
        if where == "left":
            tell(signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            told.append(where)

    @contextlib.asynccontextmanager
    async def first(_):
        yield
        told.append("first left")

    @contextlib.asynccontextmanager
    async def second(_):
        if where == "entered":
            await hang()
        yield
        await hang()

    other = App(lifespan=second)

    @other.handler("q")
    def work(_: int) -> None:
        stop.stop()

    blocking.queue("q").enqueue(1)
    blocking.run(App(lifespan=first), other, stop=stop, schedules=False)

    assert where == told[0]
    assert (
        [1]
        if where == "entered"
        else [] == [job.payload_as(int) for job in blocking.queue("q").jobs()]
    )


def test_an_error_outlives_the_lifespan_that_is_given_up(blocking):
    """What made the run end is what the caller hears of."""

    @contextlib.asynccontextmanager
    async def lifespan(_):
        try:
            yield
        finally:
            tell(signal.SIGTERM)
            tell(signal.SIGTERM)
            await asyncio.Event().wait()

    app = App(lifespan=lifespan)

    @app.consumer("s", "c", max_attempts=1)
    async def work(_: int) -> None:
        raise ValueError("no")

    blocking.stream("s").publish(1)
    with pytest.raises(PoisonedEvent):
        blocking.run(app, schedules=False)


def test_a_signal_after_a_failure_ends_the_grace(blocking, caplog):
    """Whoever failed has begun the end, as in the asynchronous `run`."""
    caplog.set_level("INFO", running_module.__name__)
    begun = StopToken()
    failing = App()

    @failing.consumer("s", "c", max_attempts=1)
    async def fail(_: int) -> None:
        await begun.wait()
        raise ValueError("no")

    async def work():
        begun.stop()
        async with asyncio.timeout(30):
            while not worker._stopping:  # noqa: ASYNC110 - nobody tells of it.
                await asyncio.sleep(0.001)
        tell(signal.SIGTERM)
        await asyncio.Event().wait()

    blocking.queue("q").enqueue(1)
    blocking.stream("s").publish(1)
    worker = Worker(blocking.wrapped, "q", work, grace=3600)
    with pytest.raises(PoisonedEvent):
        blocking.run(failing, worker, schedules=False)

    assert ["SIGTERM: giving back what is under way", "ended"] == [
        record.message for record in caplog.records if record.name == running_module.__name__
    ]
    assert 1 == blocking.queue("q").claim_one("w").job.attempts
