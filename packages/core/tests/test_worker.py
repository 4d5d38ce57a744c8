"""Workers: what is claimed when, and what becomes of a job."""

import asyncio
import concurrent.futures
import functools
import math
import re
import threading
from decimal import Decimal
from typing import Annotated

import attrs
import pytest
from dict_engine import until

from alkstore_core import (
    Closed,
    DatabaseError,
    InvalidName,
    Job,
    JobHandle,
    JobState,
    QueueOpts,
    StopToken,
    Store,
    StreamEvent,
)
from alkstore_core.sync import SyncStore
from alkstore_core.worker import App, Consumer, Fail, OutboxWorker, Retry, Worker


@attrs.frozen
class Mail:
    """A payload."""

    to: str


def job(engine, number=1):
    """The job as it is stored, or `None`."""
    return engine.data.jobs.get(number)


def settled(engine):
    """Whether no job is claimed any more."""
    return not any(j.state is JobState.PROCESSING for j in engine.data.jobs.values())


async def idle(engine):
    """Wait until everything that was claimable has been claimed and settled."""
    await until(
        lambda: (
            "claim" in engine.calls
            and settled(engine)
            and not any(
                j.state is JobState.PENDING and j.run_at <= engine.clock.now()
                for j in engine.data.jobs.values()
            )
        )
    )


async def test_a_job_whose_handler_returns_is_gone(engine, store, work):
    """The handler got the payload; the job is acknowledged."""
    await store.queue("q").enqueue({"to": "ada"})
    seen = []

    async def handler(payload):
        seen.append(payload)

    work(handler)
    await until(lambda: seen and not engine.data.jobs)

    assert [{"to": "ada"}] == seen


async def test_a_worker_is_woken_by_an_enqueue(engine, store, work):
    """An idle worker asks once as it begins and once as it is attached, and nothing more until a
    job is enqueued, which it then handles.
    """
    done = asyncio.Event()

    async def handler(_):
        done.set()

    work(handler)
    await until(lambda: "claim" in engine.calls)
    await until_quiet(engine)
    before = engine.calls.count("claim")
    await store.queue("q").enqueue(1)
    await done.wait()

    assert before == 2
    assert engine.calls.count("claim") > before


async def until_quiet(engine):
    """Let everything run that does not wait for anything."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_nothing_is_claimed_while_no_slot_is_free(engine, store, work):
    """With two slots a worker holds two claims of five, and asks again when one is free."""
    await store.queue("q").enqueue_many(range(5))
    gates = {n: asyncio.Event() for n in range(5)}
    running = []

    async def handler(n):
        running.append(n)
        await gates[n].wait()

    work(handler, concurrency=2)
    await until(lambda: len(running) == 2)
    await store.queue("q").enqueue(0)
    await until_quiet(engine)
    claims = engine.calls.count("claim")
    held = sum(j.state is JobState.PROCESSING for j in engine.data.jobs.values())

    assert [0, 1] == running
    assert claims == 1
    assert held == 2

    gates[0].set()
    await until(lambda: running == [0, 1, 2])
    for gate in gates.values():
        gate.set()
    await until(lambda: not engine.data.jobs)


@pytest.mark.parametrize(
    ("raised", "state", "error"),
    [
        (ValueError("no such user"), JobState.PENDING, "ValueError: no such user"),
        (Retry("later"), JobState.PENDING, "later"),
        (Retry(ValueError("later")), JobState.PENDING, "ValueError: later"),
        (Fail("never"), JobState.DEAD, "never"),
        (Fail(), JobState.DEAD, "failed"),
        (SystemExit(3), JobState.PENDING, "SystemExit: 3"),
        (GeneratorExit("mine"), JobState.PENDING, "GeneratorExit: mine"),
        (
            asyncio.CancelledError(),
            JobState.PENDING,
            "the handler was cancelled, not by its worker",
        ),
        (ExceptionGroup("two", [ValueError("a")]), JobState.PENDING, "ExceptionGroup: two"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
async def test_what_a_handler_raises_decides(engine, store, work, raised, state, error):
    """The job is retried or dead, its last error is readable, and the worker works on."""
    queue = store.queue("q", QueueOpts(backoff_base_s=10))
    await queue.enqueue("first")
    done = asyncio.Event()

    async def handler(payload):
        if payload == "first":
            raise raised
        done.set()

    work(handler)
    await until(lambda: job(engine).last_error is not None)
    await queue.enqueue("second")
    await done.wait()

    assert state == job(engine).state
    assert job(engine).last_error.startswith(error)


class Busy(Retry):
    """Does not call what it overrides."""

    def __init__(self, host):
        self.host = host


class Hopeless(Fail):
    """Likewise."""

    def __init__(self, host):
        self.host = host


class NothingError(Exception):
    """Falsy, as a collection of no errors may be."""

    def __len__(self):
        return 0


class Broken(Fail):
    """What it is asked for raises."""

    @property
    def reason(self):
        raise ZeroDivisionError

    @reason.setter
    def reason(self, value):
        pass


def with_a_delay(delay):
    """A `Retry` that was changed after it had checked its delay."""
    error = Retry("busy")
    error.delay = delay
    return error


@pytest.mark.parametrize(
    ("raised", "state", "error"),
    [
        (Busy("db1"), JobState.PENDING, None),
        (Hopeless("db1"), JobState.DEAD, "failed"),
        (NothingError(), JobState.PENDING, "NothingError"),
        (with_a_delay(2.5), JobState.PENDING, "TypeError: Retry cannot be taken: "),
        (with_a_delay("5"), JobState.PENDING, "TypeError: Retry cannot be taken: "),
        (Broken(), JobState.PENDING, "TypeError: Broken cannot be taken: ZeroDivisionError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
async def test_errors_of_any_make_end_their_claim(engine, store, work, raised, state, error):
    """Else heartbeats would keep the job, which nobody works on, as long as the process lives."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue("first")

    async def handler(_):
        raise raised

    work(handler)
    await until(lambda: job(engine).attempts and job(engine).state is not JobState.PROCESSING)

    assert state == job(engine).state
    assert job(engine).last_error == error or job(engine).last_error.startswith(error)


class Unspeakable:
    """A reason without a text."""

    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize("control", [Fail, Retry])
async def test_a_reason_without_a_text_is_told_all_the_same(engine, store, work, control):
    """The outcome is not lost, and the worker goes on."""
    await store.queue("q").enqueue_many([1, 2])

    async def handler(payload):
        if payload == 1:
            raise control(Unspeakable())

    work(handler)
    await until(lambda: 2 not in engine.data.jobs)

    job = engine.data.jobs[1]
    assert JobState.PROCESSING is not job.state
    assert job.last_error


async def test_what_is_raised_after_settling_is_logged(engine, store, work, caplog):
    """The answer stands, the error is not swallowed."""
    await store.queue("q").enqueue(1)

    async def handler(handle: JobHandle):
        await handle.ack()
        raise ValueError("too late")

    work(handler)
    await until(lambda: "too late" in caplog.text)

    assert {} == engine.data.jobs
    assert "raised after it was settled or lost" in caplog.text


async def test_a_call_that_cancels_itself_is_no_orderly_end(engine, store, work):
    """A worker that nobody stopped does not end as if somebody had."""
    engine.faults["claim"] += [asyncio.CancelledError()]

    running = work(lambda: None)
    with pytest.raises(RuntimeError, match="cancelled from within"):
        await running.task


async def test_retry_with_a_delay_waits_that_long(engine, store, work):
    """`Retry(delay=…)` makes the job due after that many seconds, whatever the backoff says."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)

    async def handler(_):
        raise Retry(delay=77)

    work(handler)
    await until(lambda: job(engine).state is JobState.PENDING and job(engine).attempts)

    assert 1_077 == job(engine).run_at
    assert job(engine).last_error is None


async def test_the_last_attempt_that_fails_leaves_a_dead_job(engine, store, work):
    """A job without attempts left is dead with the error of its handler."""
    await store.queue("q", QueueOpts(max_attempts=1)).enqueue(1)

    async def handler(_):
        raise ValueError("again")

    work(handler)
    await until(lambda: job(engine).state is JobState.DEAD)

    assert "ValueError: again" == job(engine).last_error


async def test_a_payload_that_does_not_fit_is_dead_at_once(engine, store, work):
    """No retry makes a payload another type: the job is dead, the handler was not called."""
    await store.queue("q").enqueue({"from": "ada"})
    called = []

    async def handler(mail: Mail):
        called.append(mail)

    work(handler)
    await until(lambda: job(engine).state is JobState.DEAD)

    assert job(engine).last_error.startswith("CodecError: the payload is no Mail")
    assert [] == called


async def test_a_handler_gets_what_its_annotations_say(store, engine, work):
    """Payload by type, the job and its handle, in any order and by keyword."""
    await store.queue("q").enqueue(Mail("ada"))
    seen = []

    async def handler(handle: JobHandle, mail: Mail, times: int = 3, *, job: Job):
        seen.append((handle.job is job, mail, times, job.id))

    work(handler)
    await until(lambda: seen)

    assert [(True, Mail("ada"), 3, 1)] == seen


class Sender:
    """A handler that is an object."""

    def __init__(self, seen):
        self.seen = seen

    async def __call__(self, mail: Mail, **extra):
        self.seen.append((mail, extra))

    async def send(self, how, /, mail: Mail, times=1, other: int = 5):
        """A method, of which `partial` fills the first parameter."""
        self.seen.append((how, mail, times, other))

    async def by_gap(self, mail: Mail, other: int = 5, job: Job | None = None, *rest):
        """The job is asked for all the same, behind a parameter that keeps its default."""
        self.seen.append((mail, other, job.id, rest))

    async def behind_gap(self, mail: Mail, other: int = 5, job: Job = None):
        """The job stands behind a parameter that keeps its default."""
        self.seen.append((mail, other, job.id))

    async def only_by_position(self, mail: Mail, other: int = 5, job: Job = None, /):
        """Likewise, where no name helps."""
        self.seen.append((mail, other, job.id))

    async def in_disguise(
        self, job: Job | None, mail: Mail | None, *, handle: Annotated[JobHandle, "mine"] = None
    ):
        """Annotations that say more than a class."""
        self.seen.append((job.id, handle.job.id, mail))

    async def whatever(self, *payload, other=5):
        """The payload is what comes."""
        self.seen.append((payload, other))

    async def of_tenant(self, tenant, job: Job):
        """The first parameter is for who makes a partial call of it."""
        self.seen.append((tenant, job.id))

    async def with_job(self, mail: Mail, job: Job):
        """What was bound stays, whatever its annotation."""
        self.seen.append((mail, job))

    async def of_the_loop(self, job: Job, tenant="acme"):
        """As made in a loop, with `tenant=tenant`."""
        self.seen.append((job.id, tenant))


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (lambda sender: sender, (Mail("ada"), {})),
        (lambda sender: functools.partial(sender.send, "fast"), ("fast", Mail("ada"), 1, 5)),
        (lambda sender: sender.by_gap, (Mail("ada"), 5, 1, ())),
        (lambda sender: sender.behind_gap, (Mail("ada"), 5, 1)),
        (lambda sender: sender.only_by_position, (Mail("ada"), 5, 1)),
        (lambda sender: sender.in_disguise, (1, 1, Mail("ada"))),
        (lambda sender: sender.whatever, (({"to": "ada"},), 5)),
        (lambda sender: functools.partial(sender.of_tenant, tenant="acme"), ("acme", 1)),
        (lambda sender: functools.partial(sender.with_job, job=5), (Mail("ada"), 5)),
        (lambda sender: sender.of_the_loop, (1, "acme")),
    ],
    ids=[
        *("object", "partial", "defaults", "behind", "positional", "disguise", "rest", "bound"),
        *("bound job", "loop"),
    ],
)
async def test_whatever_can_be_called_can_handle(store, engine, work, handler, expected):
    """Objects, methods and partial calls; parameters with defaults keep them."""
    await store.queue("q").enqueue(Mail("ada"))
    seen = []

    work(handler(Sender(seen)))
    await until(lambda: seen)

    assert [expected] == seen


async def test_a_handler_gets_the_store(store, engine, work):
    """To enqueue what comes next, also when its module knows no store."""
    await store.queue("q").enqueue("x")
    seen = []

    async def handler(payload: str, mine: Store):
        seen.append(mine)
        await mine.queue("next").enqueue(payload)

    work(handler)
    await until(lambda: [j.queue for j in engine.data.jobs.values()] == ["next"])

    assert [store] == seen


async def test_a_handler_without_parameters_is_called(store, engine, work):
    """Work whose payload says nothing needs no parameter."""
    await store.queue("q").enqueue(None)
    done = asyncio.Event()

    async def handler():
        done.set()

    work(handler)
    await done.wait()
    await until(lambda: not engine.data.jobs)


async def test_a_handler_that_settles_its_handle_is_left_alone(engine, store, work):
    """The worker neither acknowledges nor retries what the handler settled itself."""
    await store.queue("q").enqueue(1)
    done = asyncio.Event()

    async def handler(handle: JobHandle):
        await handle.fail("by hand")
        done.set()

    work(handler)
    await done.wait()
    await until_quiet(engine)

    assert "by hand" == job(engine).last_error
    assert "ack" not in engine.calls


async def test_a_plain_function_runs_in_a_thread(engine, store, work):
    """It does not block the loop, and its job is acknowledged when it has returned."""
    await store.queue("q").enqueue("x")
    seen = []
    gate = threading.Event()

    def handler(payload: str):
        gate.wait(30)
        seen.append((payload, threading.current_thread() is threading.main_thread()))

    work(handler)
    await until(lambda: "claim" in engine.calls and not settled(engine))
    gate.set()
    await wait_for(lambda: not engine.data.jobs)

    assert [("x", False)] == seen


async def wait_for(happened):
    """As `until`, for what another thread does."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - the thread has no event of this loop.
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt])
async def test_a_plain_function_that_raises_is_retried(engine, store, work, error):
    """Also what no future can carry, and what would be Ctrl-C outside of a thread."""
    await store.queue("q").enqueue(1)

    def handler():
        raise error

    work(handler)
    await wait_for(lambda: job(engine).last_error)

    assert f"RuntimeError: the handler raised {error.__name__}" == job(engine).last_error


async def returned_coroutine():
    """What a handler may forget to await."""
    raise AssertionError


PROMISES = {
    "coroutine": (returned_coroutine, "a coroutine, which nobody would await"),
    "generator": (lambda: generator(1), "a generator, whose body nobody would run"),
    "async generator": (lambda: async_generator(1), "a async_generator, whose body"),
    "future": (concurrent.futures.Future, "a Future, which nobody would wait for"),
}


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("kind", ["plain", "async", "async without parameters"])
async def test_a_handler_that_returns_a_promise_has_not_done_its_work(
    engine, store, work, promise, kind
):
    """Its job is not taken for done: the error says what to do."""
    await store.queue("q").enqueue(1)
    make, told = PROMISES[promise]

    async def asynchronous(_):
        return make()

    async def without_parameters():
        return make()

    work({"plain": lambda _: make(), "async": asynchronous}.get(kind, without_parameters))
    await wait_for(lambda: job(engine).last_error)

    assert f"the handler returned {told}" in job(engine).last_error


async def returns_a_coroutine(_, call_next):
    """A middleware that forgets to await."""
    return call_next()


async def returns_a_task(_, call_next):
    """Another one."""
    return asyncio.create_task(call_next())


@pytest.mark.parametrize("middleware", [returns_a_coroutine, returns_a_task])
async def test_a_middleware_that_returns_a_promise_has_called_nothing(
    engine, store, work, middleware
):
    """The job is not taken for done: the error says what to do."""
    await store.queue("q").enqueue(1)

    async def handler():
        return "what nobody waits for"

    work(handler, middlewares=[middleware])
    await until(lambda: job(engine) is None or job(engine).last_error)

    assert "the middleware returned a " in job(engine).last_error
    assert "await it in the middleware" in job(engine).last_error


async def test_middlewares_wrap_the_handler(engine, store, work):
    """The first is outermost; they see the handle, the result's error, and payloads that misfit."""
    await store.queue("q").enqueue_many([{"to": "ada"}, 5])
    seen = []

    async def outer(handle, call_next):
        seen.append(("outer", handle.job.id))
        try:
            await call_next()
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    async def inner(handle, call_next):
        seen.append(("inner", handle.job.id))
        await call_next()

    async def handler(mail: Mail):
        seen.append(mail.to)

    work(handler, middlewares=[outer, inner], concurrency=1)
    await idle(engine)

    expected = [("outer", 1), ("inner", 1), "ada", ("outer", 2), ("inner", 2), "CodecError"]
    assert expected == seen
    assert JobState.DEAD == job(engine, 2).state


async def test_a_claim_that_the_database_refuses_is_tried_again(engine, store, work, caplog):
    """An outage is told and waited out; the job is handled afterwards."""
    await store.queue("q").enqueue(1)
    engine.faults["claim"] += [DatabaseError("away"), DatabaseError("away")]
    done = asyncio.Event()

    async def handler(_):
        done.set()

    work(handler)
    await asyncio.wait_for(done.wait(), 30)

    assert "no claim, trying again: away" in caplog.text


@pytest.mark.parametrize("call", ["ack", "requeue"])
async def test_an_outcome_that_the_database_refuses_is_told_again(
    engine, store, work, caplog, call
):
    """The handler runs once, and its outcome lands when the database takes it."""
    await store.queue("q", QueueOpts(backoff_base_s=10)).enqueue(1)
    engine.faults[call] += [DatabaseError("away")]
    calls = []

    async def handler(_):
        calls.append(1)
        if call == "requeue":
            raise ValueError

    work(handler)
    await wait_for(lambda: job(engine) is None or job(engine).last_error)

    assert [1] == calls
    assert "1 outcomes could not be told, trying again: away" in caplog.text


async def test_wakes_that_the_database_refuses_are_tried_again(
    engine, store, work, caplog, monkeypatch
):
    """A worker that cannot attach tells so and attaches later."""
    await store.queue("q").enqueue(1)
    subscribe, tries = engine.signals.subscribe, []

    async def failing(topic):
        tries.append(topic)
        if len(tries) == 1:
            raise DatabaseError("away")
        return await subscribe(topic)

    monkeypatch.setattr(engine.signals, "subscribe", failing)

    async def handler(_):
        pass

    work(handler)
    await wait_for(lambda: not engine.data.jobs and len(tries) > 1)

    assert "no wakes, trying again: away" in caplog.text


async def test_what_is_there_does_not_wait_for_wakes(engine, store, work, monkeypatch):
    """A worker begins with the jobs that it finds, before it can hear of others."""
    await store.queue("q").enqueue(1)

    async def waiting(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(engine.signals, "subscribe", waiting)

    async def handler(_):
        pass

    work(handler)
    await until(lambda: not engine.data.jobs)


async def test_a_store_that_closes_ends_its_workers_with_an_error(engine, store, work):
    """`run` raises `Closed`; a handler under way is cancelled."""
    await store.queue("q").enqueue(1)
    ends = []
    begun = asyncio.Event()

    async def handler(_):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(1)

    running = work(handler)
    await begun.wait()
    await until_quiet(engine)
    await store.close()

    with pytest.raises(Closed, match="wakes of queue 'q' have ended"):
        await running.task
    assert [1] == ends


async def test_a_fault_of_the_engine_ends_the_worker_with_it(engine, store, work):
    """What is no database trouble is not waited out for ever: it is raised."""
    engine.faults["claim"] += [ZeroDivisionError("a bug")]

    async def handler(_):
        pass

    running = work(handler)

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await running.task


async def test_a_store_that_is_not_open_is_refused(engine, clock):
    """Nothing is waited out there: it is a mistake."""

    async def handler(_):
        pass

    with pytest.raises(Closed, match="not open"):
        await Worker(Store(engine), "q", handler).run()


async def test_a_worker_runs_once(store, work):
    """A second run is refused, as long as the first runs and afterwards."""

    async def handler(_):
        pass

    running = work(handler)
    await running.end()

    with pytest.raises(RuntimeError, match="runs once"):
        await running.worker.run(StopToken())


async def takes_two(one, two):
    """A handler that asks for too much."""


async def takes_unknown(mail: "Nowhere"):  # noqa: F821 - the point.
    """A handler whose annotation does not exist."""


async def takes_default(mail: Mail = None):
    """A handler whose payload may be one, or not."""


async def takes_default_beside(job: Job, mail: Mail | None = None):
    """Another one."""


async def takes_bound(tenant="acme"):
    """A handler that a loop made."""


async def takes_either(job: Job | dict):
    """A handler that cannot decide."""


async def takes_event(payload, event: StreamEvent | None = None):
    """A handler of a consumer."""


def plain_with_handle(handle: JobHandle):
    """A handler in a thread with something of the loop."""


def plain_with_store(store: Store):
    """Another one."""


def generator(payload):
    """A handler with a `yield` in it."""
    yield payload


async def async_generator(payload):
    """Another one."""
    yield payload


class Generator:
    """An object that would be called for nothing."""

    def __call__(self, payload):
        """Do nothing."""
        yield payload


class AsyncGenerator:
    """Another one."""

    async def __call__(self, payload):
        """Do nothing."""
        yield payload


class OtherStore(Store):
    """A store of another engine."""


async def of_another_store(store: OtherStore):
    """A handler that was written for it."""


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (5, "must be callable, not int"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (functools.partial(generator), "is a generator"),
        (Generator(), "is a generator"),
        (AsyncGenerator(), "is a generator"),
        (dict, "dict has no signature that can be read: call it in a function of your own"),
        (takes_two, "a second payload with 'two'; make one of both"),
        (takes_default, "may mean its payload by 'mail', which has a default"),
        (takes_default_beside, "may mean its payload by 'mail', which has a default"),
        (takes_bound, r"functools.partial\(..., tenant=...\)"),
        (takes_either, "asks for a Job or something else with 'job'"),
        (takes_event, "a StreamEvent with 'event', which is not to be had here"),
        (takes_unknown, "takes_unknown cannot be resolved"),
        (plain_with_handle, "runs in a thread, where a JobHandle cannot"),
        (
            plain_with_store,
            "where a Store cannot be used: make it an `async def`, or use a SyncStore",
        ),
        (of_another_store, "asks for OtherStore, but its store is of class Store"),
    ],
)
def test_handlers_that_cannot_be_served_are_refused(store, handler, message):
    """The mistake is told where the worker is made."""
    with pytest.raises(TypeError, match=message):
        Worker(store, "q", handler)


def test_a_blocking_store_is_refused_as_such(store):
    """Whoever has one is told where it runs workers."""
    with pytest.raises(TypeError, match=r"not a SyncStore: on a SyncStore call its run\(app\)"):
        Worker(SyncStore(store), "q", print)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"concurrency": 0}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"grace": -1}, ValueError),
        ({"worker_id": ""}, InvalidName),
    ],
)
def test_options_out_of_range_are_refused(store, options, error):
    """Each has its bound."""

    async def handler(_):
        pass

    with pytest.raises(error):
        Worker(store, "q", handler, **options)


NUMBERS = {
    "concurrency": "an int",
    "timeout": "a number of seconds or None",
    "grace": "a number of seconds",
}


@pytest.mark.parametrize("kind", [Worker, OutboxWorker])
@pytest.mark.parametrize("value", ["5", b"5", True, False, object(), [], Decimal(5), 5j])
@pytest.mark.parametrize("option", NUMBERS)
def test_options_of_another_type_are_refused(store, kind, option, value):
    """The error names the option, what it must be, and what was given; a bool is no number."""
    expected = f"{option} must be {NUMBERS[option]}, not {value!r}"
    with pytest.raises(TypeError, match=re.escape(expected)):
        kind(store, "q", returned_coroutine, **{option: value})


@pytest.mark.parametrize("kind", [Worker, OutboxWorker])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"concurrency": 2.5}, TypeError, "concurrency must be an int, not 2.5"),
        ({"concurrency": None}, TypeError, "concurrency must be an int, not None"),
        ({"grace": None}, TypeError, "grace must be a number of seconds, not None"),
        ({"concurrency": 0}, ValueError, "concurrency must be at least 1, not 0"),
        ({"concurrency": 2**63}, ValueError, r"concurrency must be at most 2\*\*63-1, not 0x80+"),
        ({"timeout": math.nan}, ValueError, "timeout must be above 0 seconds, not nan"),
        ({"timeout": 10**400}, ValueError, r"timeout must be at most 2\*\*63-1, not 0x"),
        ({"grace": math.nan}, ValueError, "grace must be at least 0 seconds, not nan"),
        ({"grace": -0.5}, ValueError, "grace must be at least 0 seconds, not -0.5"),
        ({"middlewares": 5}, TypeError, "middlewares must be functions in a list or tuple, not 5"),
        ({"middlewares": None}, TypeError, "middlewares must be functions in a list .*, not None"),
        ({"middlewares": ["f"]}, TypeError, "middlewares must be functions in a list .*'f'"),
        ({"middlewares": min}, TypeError, "middlewares must be functions in a list .*function min"),
    ],
)
def test_options_say_their_rule(store, kind, options, error, message):
    """Where the worker is made, not when jobs have been claimed."""
    with pytest.raises(error, match=message):
        kind(store, "q", returned_coroutine, **options)


def test_options_at_their_ends_are_taken(store):
    """Numbers of any kind, and endless times."""
    for options in (
        {"concurrency": 1, "timeout": 1e-9, "grace": 0},
        {"concurrency": 2**63 - 1, "timeout": math.inf, "grace": math.inf},
        {"timeout": None, "middlewares": iter(())},
    ):
        Worker(store, "q", returned_coroutine, **options)


def test_middlewares_of_an_app_are_functions():
    """One that was not put in a list is told where it is given."""
    app = App()
    for give in (
        lambda: App(middlewares=min),
        lambda: app.handler("q", middlewares=min),
        lambda: app.outbox("o", middlewares=min),
        lambda: app.consumer("s", "c", middlewares=min),
    ):
        with pytest.raises(TypeError, match="middlewares must be functions in a list or tuple"):
            give()


def test_what_is_run_is_of_the_worker_s_kind(store):
    """The error says what to make instead."""
    with pytest.raises(TypeError, match="for outbox 'o' make an OutboxWorker"):
        Worker(store, store.outbox("o"), returned_coroutine)
    with pytest.raises(TypeError, match="queue must be a queue or its name"):
        Worker(store, store.stream("s"), returned_coroutine)
    with pytest.raises(TypeError, match="for a queue make a Worker"):
        OutboxWorker(store, store.queue("q"), returned_coroutine)


def test_what_is_run_is_of_the_store_that_is_given(engine, store):
    """The other one's jobs would be looked for where they are not."""
    other = Store(engine)
    with pytest.raises(ValueError, match="queue 'q' is of another store"):
        Worker(store, other.queue("q"), returned_coroutine)
    with pytest.raises(ValueError, match="outbox 'o' is of another store"):
        OutboxWorker(store, other.outbox("o"), returned_coroutine)
    with pytest.raises(ValueError, match="stream 's' is of another store"):
        Consumer(store, other.stream("s"), "c", returned_coroutine)


def test_decorators_need_their_names():
    """Without parentheses the handler would be taken for the queue, and never be called."""
    app = App()
    with pytest.raises(TypeError, match=r'write @app.handler\("queue"\)'):
        app.handler(returned_coroutine)
    with pytest.raises(TypeError, match=r'write @app.outbox\("name"\)'):
        app.outbox(returned_coroutine)
    with pytest.raises(TypeError, match=r'write @app.consumer\("stream", "name"\)'):
        app.consumer("s", returned_coroutine)


def test_a_retry_checks_its_delay():
    """A delay that no engine can store is the handler's mistake."""
    with pytest.raises(DatabaseError, match="delay must be an int, not float"):
        Retry(delay=1.5)
