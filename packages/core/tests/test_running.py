"""Several runners under one roof: stops, signals, errors, and handlers by decorator."""

import asyncio
import contextlib
import itertools
import os
import signal
import threading

import pytest
from dict_engine import DictEngine, until

from alkstore_core import Closed, DatabaseError, JobState, LeadershipLost, StopToken, Store
from alkstore_core.worker import App, Consumer, Fail, PoisonedEvent, Worker, run
from alkstore_core.worker import running as running_module


@pytest.fixture
async def start():
    """Run a coroutine in a task that does not outlive the test."""
    tasks = []

    def begin(coroutine):
        tasks.append(asyncio.create_task(coroutine))
        return tasks[-1]

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Handler:
    """A handler that remembers, and waits when told to."""

    def __init__(self):
        self.seen = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, payload):
        self.seen.append(payload)
        await self.go.wait()


@pytest.fixture
def handler():
    """A handler."""
    return Handler()


async def test_everything_runs_until_the_stop(engine, store, start, handler, clock):
    """Jobs, events and schedules, under one token."""
    await store.schedule("tick", "@every 10s", "q", "tick")
    stop = StopToken()

    running = start(
        run(
            Worker(store, "q", handler),
            Consumer(store, "s", "c", handler),
            schedules=store,
            stop=stop,
            signals=False,
        )
    )
    await store.queue("q").enqueue("job")
    await store.stream("s").publish("event")
    await until(lambda: {"job", "event"} == set(handler.seen))
    await until(lambda: 1_010 in {sleeper.due for sleeper in clock._sleepers})
    await clock.advance(10)
    await until(lambda: "tick" in handler.seen)
    stop.stop()
    await running

    assert {} == engine.data.leases


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_and_a_second_one_aborts(engine, store, start, handler, number):
    """What runs goes on after the first; after the second its job is given back."""
    before = signal.getsignal(number)
    handler.go.clear()
    await store.queue("q").enqueue_many([1, 2])
    worker = Worker(store, "q", handler, concurrency=1)

    running = start(run(worker))
    await until(lambda: handler.seen)
    os.kill(os.getpid(), number)
    await until(lambda: worker._stopping)
    between = running.done(), worker.running
    os.kill(os.getpid(), number)
    await running

    assert (False, 1) == between
    assert [1] == handler.seen
    assert [JobState.PENDING] * 2 == [job.state for job in engine.data.jobs.values()]
    assert before is signal.getsignal(number)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_runs_that_overlap_leave_no_handler_behind(store, start, handler, order):
    """In whatever order they end; the last one that was begun hears the signals until it ends."""
    original = signal.signal(signal.SIGTERM, ignore := lambda *_: None)
    interrupting = signal.getsignal(signal.SIGINT)
    stops = [StopToken() for _ in range(3)]
    workers = [Worker(store, f"q{number}", handler) for number in range(3)]
    runs = []
    for worker, stop in zip(workers, stops, strict=True):
        runs.append(start(run(worker, stop=stop)))
        await until(lambda worker=worker: worker._working)
    begun = set(range(3))
    for number in order[:2]:
        stops[number].stop()
        await runs[number]
        begun.remove(number)
    (last,) = begun
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        await until(runs[last].done)
    finally:
        after = signal.signal(signal.SIGTERM, original)

    assert ignore is after
    assert interrupting is signal.getsignal(signal.SIGINT)


async def test_a_handler_that_is_set_meanwhile_stays(store, start, handler):
    """It is not of the run, which takes away only its own."""
    stop = StopToken()
    worker = Worker(store, "q", handler)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    running = start(run(worker, stop=stop))
    await until(lambda: worker._working)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop.stop()
    await running
    after = {number: signal.getsignal(number) for number in before}
    signal.signal(signal.SIGTERM, before[signal.SIGTERM])

    assert {**before, signal.SIGTERM: signal.SIG_IGN} == after


async def test_signals_are_told_with_what_follows(store, start, handler, caplog):
    """How long it may take and what a second one does; then that; then the end."""
    caplog.set_level("INFO", running_module.__name__)
    handler.go.clear()
    await store.queue("q").enqueue(1)
    workers = Worker(store, "q", handler, grace=7), Worker(store, "other", handler, grace=2.5)

    running = start(run(*workers))
    await until(lambda: handler.seen)
    os.kill(os.getpid(), signal.SIGINT)
    await until(lambda: caplog.records)
    os.kill(os.getpid(), signal.SIGINT)
    await running

    assert [
        "SIGINT: ending; jobs under way have up to 7 s, once more ends at once",
        "SIGINT again: giving back what is under way",
        "ended",
    ] == caplog.messages
    assert ["alkstore.run.ending", "alkstore.run.aborting", "alkstore.run.ended"] == [
        record.event_name for record in caplog.records
    ]


async def test_a_signal_after_a_stop_ends_the_grace(store, start, handler, caplog):
    """It is the first signal, and no longer the first demand."""
    caplog.set_level("INFO", running_module.__name__)
    handler.go.clear()
    await store.queue("q").enqueue(1)
    stop = StopToken()
    worker = Worker(store, "q", handler)

    running = start(run(worker, stop=stop))
    await until(lambda: handler.seen)
    stop.stop()
    await until(lambda: worker._stopping)
    os.kill(os.getpid(), signal.SIGTERM)
    await running

    assert ["SIGTERM: giving back what is under way", "ended"] == caplog.messages


async def test_other_threads_run_without_signals(engine, handler):
    """Python gives signals to the main thread alone; the rest works as everywhere."""

    async def main():
        stop = StopToken()
        stop.stop()
        async with Store(DictEngine(engine.clock)) as store:
            await run(Worker(store, "q", handler), stop=stop)
        ended.append(1)

    ended = []
    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    await asyncio.to_thread(thread.join, 30)

    assert [1] == ended


async def test_an_error_ends_the_others_in_order_and_is_raised(engine, store, start, handler):
    """The worker beside the consumer that stopped finishes what it had begun."""
    handler.go.clear()

    async def failing(_):
        raise Fail("no")

    worker = Worker(store, "q", handler)
    await store.queue("q").enqueue(1)
    running = start(run(worker, Consumer(store, "s", "c", failing), signals=False))
    await until(lambda: handler.seen)
    await store.stream("s").publish(1)
    await until(lambda: worker._stopping)
    handler.go.set()

    with pytest.raises(PoisonedEvent):
        await running
    assert {} == engine.data.jobs


async def test_a_store_that_closes_is_one_error(store, start, handler):
    """However many of them use it, and with the schedules: who runs them catches `Closed`."""
    workers = [Worker(store, name, handler) for name in "ab"]
    consumer = Consumer(store, "s", "c", handler)
    running = start(run(*workers, consumer, schedules=store, signals=False))
    await until(lambda: len(store._runtime.receivers) > 2)
    await store.close()

    with pytest.raises(Closed):
        await running


async def test_several_errors_are_raised_together(clock, store, start, handler):
    """None of them is hidden behind another: the stores are two."""
    async with Store(DictEngine(clock)) as other:
        runners = Worker(store, "a", handler), Worker(other, "b", handler)
        running = start(run(*runners, signals=False))
        await until(lambda: store._runtime.receivers and other._runtime.receivers)
        await asyncio.gather(store.close(), other.close())

    with pytest.raises(BaseExceptionGroup) as caught:
        await running
    assert [Closed, Closed] == [type(error) for error in caught.value.exceptions]


async def test_several_errors_of_one_store_are_raised_together(store, start):
    """Each tells of an event of its own."""
    both = asyncio.Event()

    async def failing(_):
        await both.wait()
        raise Fail("no")

    await store.stream("s").publish(1)
    consumers = [Consumer(store, "s", name, failing) for name in "ab"]
    running = start(run(*consumers, signals=False))
    await until(lambda: all(consumer.live for consumer in consumers))
    both.set()

    with pytest.raises(BaseExceptionGroup) as caught:
        await running
    assert [PoisonedEvent] * 2 == [type(error) for error in caught.value.exceptions]


async def test_a_cancellation_is_a_stop_without_grace(engine, store, start, handler):
    """Handlers are cancelled, jobs are given back, the cancellation is re-raised."""
    handler.go.clear()
    await store.queue("q").enqueue(1)

    running = start(run(Worker(store, "q", handler), schedules=store, signals=False))
    await until(lambda: handler.seen and engine.data.leases)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (JobState.PENDING, 0) == (engine.data.jobs[1].state, engine.data.jobs[1].attempts)
    assert {} == engine.data.leases


async def test_a_second_cancellation_leaves_no_runner_behind(engine, store, start, handler):
    """`run` ends when they have: the store is closed under them by whoever waits for it."""
    handler.go.clear()
    await store.queue("q").enqueue(1)
    release = engine.hold("before", "release")

    running = start(run(Worker(store, "q", handler), signals=False))
    await until(lambda: handler.seen)
    running.cancel()
    await release.reached.wait()
    running.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    early = running.done()
    release.open()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not early
    assert JobState.PENDING is engine.data.jobs[1].state


@pytest.fixture
async def unanswered(store, monkeypatch):
    """Schedules whose database does not answer: they began, and do not even end by cancelling."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def run_schedules(_):
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr(store, "run_schedules", run_schedules)
    yield begun
    go.set()


async def asleep(clock, due):
    """Wait until somebody sleeps until a time."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


async def test_schedules_that_get_no_answer_are_left_behind(
    store, start, handler, clock, caplog, unanswered
):
    """The end has a bound, whatever the database does."""
    stop = StopToken()
    running = start(run(Worker(store, "q", handler), schedules=store, stop=stop, signals=False))
    await unanswered.wait()
    stop.stop()
    await asleep(clock, 1_006)
    await clock.advance(5)
    between = running.done()
    await clock.advance(1)
    await until(running.done)

    assert not between
    assert "schedules: no answer of the database" in caplog.text


async def test_schedules_and_runners_have_one_bound(
    engine, store, start, handler, clock, caplog, unanswered
):
    """Neither waits for the other before its own time begins."""
    gate = engine.hold("before", "claim")
    stop = StopToken()
    worker = Worker(store, "q", handler, grace=1)
    running = start(run(worker, schedules=store, stop=stop, signals=False))
    await unanswered.wait()
    await gate.reached.wait()
    stop.stop()
    for now in (1_001, 1_006, 1_007):
        await asleep(clock, now)
        await clock.advance(now - clock.now())
    await until(running.done)
    gate.open()

    assert "schedules: no answer of the database" in caplog.text
    assert "a Worker ended without an answer of the database" in caplog.text


@pytest.mark.parametrize("error", [LeadershipLost("gone"), DatabaseError("away")])
async def test_schedules_stand_by_again(store, start, monkeypatch, caplog, error):
    """Neither a lost leadership nor an outage ends the process."""
    errors = [error]
    again = asyncio.Event()

    async def run_schedules(stop):
        if errors:
            raise errors.pop()
        again.set()
        await stop.wait()

    monkeypatch.setattr(store, "run_schedules", run_schedules)
    stop = StopToken()
    running = start(run(schedules=store, stop=stop, signals=False))
    await asyncio.wait_for(again.wait(), 30)
    stop.stop()
    await running

    assert "schedules: " in caplog.text
    assert str(error) in caplog.text


async def test_nothing_to_run_is_a_mistake():
    """A process that would end at once, or never, is not what was meant."""
    with pytest.raises(ValueError, match="nothing to run"):
        await run()


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (print, "give a handler to a worker"),
        (App(), "await app.run"),
        ("store", "schedules="),
        ("work", "objects of Worker, OutboxWorker and Consumer"),
    ],
)
async def test_what_cannot_run_is_told_what_to_pass(store, handler, wrong, advice):
    """Nothing has begun, and the error says what to do instead."""
    wrong = store if wrong == "store" else wrong
    with pytest.raises(TypeError, match=advice):
        await run(Worker(store, "q", handler), wrong)


async def test_an_app_runs_its_handlers(engine, store, start):
    """Each decorator gives its function back; each function gets its own work."""
    around = []

    async def middleware(handle, call_next):
        around.append(handle.job.payload)
        await call_next()

    app = App(middlewares=[middleware], concurrency=3)
    seen = {}

    @app.handler("mail", timeout=5)
    async def send(payload: str):
        seen["mail"] = payload

    @app.outbox("hooks", concurrency=1)
    async def deliver(payload: str):
        seen["hooks"] = payload

    @app.consumer("orders", "billing", on_poison="skip")
    async def bill(payload: str):
        seen["orders"] = payload

    stop = StopToken()
    running = start(app.run(store, stop=stop, signals=False))
    await store.queue("mail").enqueue("a")
    await store.outbox("hooks").enqueue("b")
    await store.stream("orders").publish("c")
    await until(lambda: len(seen) == 3 and engine.data.leases)
    stop.stop()
    await running

    assert {"mail": "a", "hooks": "b", "orders": "c"} == seen
    assert {b'"a"', b'"b"'} == set(around)
    assert ["send", "deliver", "bill"] == [f.__name__ for f in (send, deliver, bill)]
    assert [3, 1] == [r._concurrency for r in app.runners(store) if isinstance(r, Worker)]


def app_of_four():
    """A queue, an outbox of the same name, and one consumer's name on two streams."""
    app = App(concurrency=3)
    app.handler("a")(print)
    app.outbox("a", concurrency=1)(print)
    app.consumer("orders", "billing")(print)
    app.consumer("refunds", "billing")(print)
    return app


@pytest.mark.parametrize(
    ("chosen", "served"),
    [
        ({}, ["queue 'a'", "outbox 'a'", "billing' of stream 'orders'", "'refunds'"]),
        ({"queues": ["a"]}, ["queue 'a'"]),
        ({"outboxes": ["a"]}, ["outbox 'a'"]),
        ({"consumers": ["billing"]}, ["'orders'", "'refunds'"]),
        ({"queues": ["a"], "consumers": ("billing",)}, ["queue 'a'", "'orders'", "'refunds'"]),
        ({"queues": []}, []),
    ],
)
async def test_runners_of_some_handlers(store, chosen, served):
    """By what they serve; without a choice of all."""
    runners = app_of_four().runners(store, **chosen)

    assert len(served) == len(runners)
    assert all(text in str(runner) for text, runner in zip(served, runners, strict=True))


async def test_an_app_runs_some_of_its_handlers(store, caplog):
    """What is left out is another process's; nothing at all is not taken for everything."""
    app, stop, seen = App(), StopToken(), []

    @app.handler("mine")
    @app.handler("other")
    async def handle(payload: str):
        seen.append(payload)
        stop.stop()

    await store.queue("other").enqueue("other's")
    await store.queue("mine").enqueue("mine")
    await app.run(store, stop=stop, signals=False, queues=["mine"], concurrency=2)
    with pytest.raises(ValueError, match="nothing to run"):
        await app.run(store, schedules=False, signals=False, queues=[])
    with caplog.at_level("WARNING"):
        await app.run(store, stop=stop, signals=False, queues=[])

    assert ["the App runs no handler here, only schedules are fired"] == caplog.messages
    assert ["mine"] == seen
    assert 1 == (await store.queue("other").stats()).ready


async def test_runners_with_another_concurrency(store):
    """A decorator's own stands: it may be what keeps a service from being overrun."""
    runners = app_of_four().runners(store, concurrency=7)

    assert [7, 1] == [runner._concurrency for runner in runners[:2]]
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        app_of_four().runners(store, concurrency=0)


@pytest.mark.parametrize(
    ("chosen", "error", "told"),
    [
        ({"queues": ["b"]}, ValueError, "for queue 'b', but for consumer 'billing', outbox 'a', q"),
        ({"consumers": ["c", "a"]}, ValueError, "no handler for consumer 'a', consumer 'c', but"),
        ({"queues": "a"}, TypeError, "come as a list, not as 'a'"),
        ({"queues": b"a"}, TypeError, "come as a list, not as b'a'"),
        ({"outboxes": 5}, TypeError, "come as a list, not as 5"),
        ({"queues": ["a", None]}, TypeError, "None is no name of a queue"),
        ({"consumers": ["billing"], "concurrency": 0}, ValueError, "concurrency"),
    ],
)
async def test_runners_of_what_has_no_handler(store, chosen, error, told):
    """A mistyped name would serve nothing, in silence."""
    with pytest.raises(error, match=told):
        app_of_four().runners(store, **chosen)


async def test_runners_of_an_empty_app(store):
    """It has none, and says so to who asks for one."""
    assert [] == App().runners(store)
    with pytest.raises(ValueError, match="but for nothing"):
        App().runners(store, queues=["a"])


def test_a_queue_has_one_handler():
    """A second one would get half of the jobs."""
    app = App()
    app.handler("q")(print)
    app.outbox("q")(print)
    app.consumer("q", "c")(print)

    with pytest.raises(ValueError, match="queue q has a handler already"):
        app.handler("q")(print)
    with pytest.raises(ValueError, match="outbox q has a handler already"):
        app.outbox("q")(print)
    with pytest.raises(ValueError, match="consumer c stream q has a handler already"):
        app.consumer("q", "c")(print)


def lifespan_of(told):
    """A lifespan that tells what it was given and when it was left."""

    @contextlib.asynccontextmanager
    async def lifespan(store):
        told.append(store)
        try:
            yield
        finally:
            told.append("left")

    return lifespan


async def test_a_lifespan_is_around_all_that_handlers_do(store, start):
    """Entered with the store before the first job is claimed, left when the last one has ended."""
    told, stop = [], StopToken()
    app = App(lifespan=lifespan_of(told))

    @app.handler("q")
    async def work(number: int):
        stop.stop()
        await asyncio.sleep(0)
        told.append(number)

    await store.queue("q").enqueue(1)
    await start(app.run(store, stop=stop, signals=False))

    assert [store, 1, "left"] == told


async def test_a_lifespan_is_left_when_a_runner_fails(store, start):
    """What it opened does not stay open, and the error is the runner's."""
    told = []
    app = App(lifespan=lifespan_of(told))
    app.handler("q")(print)
    running = start(app.run(store, signals=False))
    await until(lambda: told)
    await store.close()

    with pytest.raises(Closed):
        await running
    assert [store, "left"] == told


async def test_a_lifespan_that_fails_begins_nothing(engine, store):
    """Its error is what the caller gets, and no job was claimed."""

    @contextlib.asynccontextmanager
    async def lifespan(_):
        raise OSError("no route to the mail server")
        yield

    app = App(lifespan=lifespan)
    app.handler("q")(print)
    await store.queue("q").enqueue(1)

    with pytest.raises(OSError, match="no route"):
        await app.run(store, signals=False)
    [job] = await store.queue("q").jobs()
    assert 0 == job.attempts


async def test_what_is_no_lifespan_is_told_what_to_write(store):
    """Not called with the store, or without its decorator."""

    async def lifespan(_):
        yield

    with pytest.raises(TypeError, match="lifespan is a function of the store, not 5"):
        App(lifespan=5)
    app = App(lifespan=lifespan)
    app.handler("q")(print)
    with pytest.raises(TypeError, match=r"decorate it with contextlib\.asynccontextmanager"):
        await app.run(store, signals=False)
