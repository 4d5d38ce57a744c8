"""`drain` leaves each job as a `Worker` leaves it, field by field, whatever the handler does."""

import asyncio
import functools
import random
from dataclasses import dataclass

import pytest

from alkstore_core import (
    CodecError,
    EnqueueOpts,
    Job,
    JobHandle,
    ManualClock,
    QueueOpts,
    StopToken,
    Store,
)
from alkstore_core.sync import SyncStore
from alkstore_core.worker import Fail, Outcome, Retry, Worker, ending
from alkstore_mem import MemStore
from alkstore_mem.testing import drain

ROUNDS = 3
"""More than a job has attempts; the clock moves by `PAUSE` after each."""

PAUSE = 3_600


@dataclass
class Mail:
    """A typed payload."""

    to: str


MAIL = {"to": "ada"}


def raising(error):
    """A plain handler that raises."""

    def handler(mail: Mail) -> None:
        raise error

    return handler


def raising_async(error):
    """An async one."""

    async def handler(mail: Mail) -> None:
        raise error

    return handler


def settling(method, *arguments, then=None):
    """A handler that settles its handle by itself."""

    async def handler(handle: JobHandle) -> None:
        await getattr(handle, method)(*arguments)
        if then is not None:
            raise then

    return handler


def plain(mail: Mail, job: Job) -> str:
    """Takes its payload and the job."""
    assert isinstance(mail, Mail)
    return f"{mail.to} {job.attempts}"


async def asynchronous(mail: Mail, job: Job, handle: JobHandle, store: Store) -> None:
    """Takes all there is."""
    assert isinstance(mail, Mail)
    assert job is handle.job
    await store.queue("sent").enqueue(mail)


async def of_this_store(_: object, store: MemStore) -> None:
    """Takes the store by its own class."""
    await store.queue("sent").enqueue(1)


async def by_keyword(*, mail: Mail, job: Job) -> None:
    """Takes them by keyword."""
    assert mail.to == "ada"
    assert job.queue == "q"


async def enqueueing(mail: dict, store: Store) -> None:
    """Makes more work of its own kind, for now and for later."""
    if "from" not in mail:
        await store.queue("q").enqueue({"from": "now"})
        await store.queue("q").enqueue({"from": "later"}, EnqueueOpts(delay=PAUSE))


async def giving_back(handle: JobHandle, store: Store) -> None:
    """Does its job when it gets it a second time."""
    if "seen" not in await store.queues():
        await store.queue("seen").enqueue(1)
        await handle.release()


async def cancelling(job: Job, store: Store) -> None:
    """Its own job is cancelled meanwhile."""
    await store.queue("q").cancel(job.id)


async def cancelling_and_raising(job: Job, store: Store) -> None:
    """And then it fails."""
    await store.queue("q").cancel(job.id)
    raise ValueError("gone")


async def cancelled(_: object) -> None:
    """Ended by a cancellation that is nobody's but its own."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def exiting(_: object) -> None:
    """Ends the process, as it thinks."""
    raise SystemExit(3)


async def exiting_async(_: object) -> None:
    """As above."""
    raise SystemExit(3)


def at_last(mail: Mail, job: Job) -> None:
    """Fails at first."""
    if job.attempts < 2:
        raise OSError(f"attempt {job.attempts}")


async def beating(handle: JobHandle) -> None:
    """Asks for more time, and fails."""
    assert await handle.heartbeat(900)
    raise ValueError("late")


def forgetful(mail: Mail) -> object:
    """A plain handler that returns what nobody awaits."""
    return beating(mail)


def exhausted(_: object) -> None:
    """Asks an iterator for more than it has."""
    next(iter(()))


async def exhausted_async(_: object) -> None:
    """As above."""
    next(iter(()))


class Sender:
    """A handler that is an object."""

    async def __call__(self, mail: Mail) -> str:
        """Handle."""
        return mail.to


HANDLERS = {
    "returns": plain,
    "returns_async": asynchronous,
    "returns_something_false": lambda _: False,
    "asks_for_its_class_of_store": of_this_store,
    "by_keyword": by_keyword,
    "without_annotation": lambda mail: mail["to"],
    "nothing_at_all": lambda: None,
    "partial": functools.partial(plain),
    "object": Sender(),
    "raises": raising(ValueError("bad")),
    "raises_async": raising_async(ValueError("bad")),
    "raises_without_text": raising(KeyError()),
    "raises_what_cannot_be_stored": raising_async(ValueError("\0" * 9000)),
    "raises_at_first": at_last,
    "retry": raising(Retry("busy")),
    "retry_async": raising_async(Retry("busy")),
    "retry_without_reason": raising_async(Retry()),
    "retry_of_an_error": raising_async(Retry(OSError("down"))),
    "retry_delayed": raising(Retry("busy", delay=600)),
    "retry_at_once": raising_async(Retry("busy", delay=0)),
    "retry_in_the_past": raising_async(Retry("busy", delay=-5)),
    "fail": raising(Fail("hopeless")),
    "fail_async": raising_async(Fail("hopeless")),
    "fail_without_reason": raising_async(Fail()),
    "fail_by_an_error": raising_async(Fail(OSError("down"))),
    "codec_error": raising_async(CodecError("not mine")),
    "awaitable": forgetful,
    "exhausted": exhausted,
    "exhausted_async": exhausted_async,
    "cancelled": cancelled,
    "exits": exiting,
    "exits_async": exiting_async,
    "acks": settling("ack"),
    "acks_and_raises": settling("ack", then=ValueError("after")),
    "retries": settling("retry", "by hand", 60),
    "fails": settling("fail", "by hand"),
    "fails_and_raises": settling("fail", "by hand", then=Retry("after")),
    "gives_back": giving_back,
    "beats": beating,
    "cancels": cancelling,
    "cancels_and_raises": cancelling_and_raising,
    "enqueues": enqueueing,
}

PAYLOADS = {
    "wrong_payload": (plain, {"from": "ada"}),
    "wrong_payload_async": (asynchronous, 17),
}

CASES = {name: (handler, MAIL) for name, handler in HANDLERS.items()} | PAYLOADS


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch):
    """Backoffs that are drawn twice are the same ones."""
    monkeypatch.setattr(random.Random, "randint", lambda _self, _low, high: high)


async def _jobs(store):
    """All that is in the store, whole."""
    found = []
    for name in await store.queues():
        found += await store.queue(name).jobs() + await store.queue(name).dead_jobs()
    return found


async def _enqueued(store, payload, attempts):
    opts = EnqueueOpts(headers={"trace": "1"}, priority=2, expires=9 * PAUSE)
    queue = store.queue("q", QueueOpts(max_attempts=attempts, backoff_base_s=7))
    await queue.enqueue(payload, opts)


async def drained(handler, payload, attempts):
    """By `drain`: the outcomes of each round, and what was there then."""
    clock = ManualClock(start=1_000)
    rounds = []
    async with MemStore(clock=clock) as store:
        await _enqueued(store, payload, attempts)
        for _ in range(ROUNDS):
            handled = await drain(store, "q", handler, collect_errors=True)
            rounds.append(([h.outcome for h in handled], await _jobs(store)))
            await clock.advance(PAUSE)
    return rounds


def drained_blocking(handler, payload, attempts):
    """The same by a store that blocks."""
    clock = ManualClock(start=1_000)
    rounds = []
    with SyncStore(MemStore(clock=clock)) as store:
        store.call(_enqueued, store.wrapped, payload, attempts)
        for _ in range(ROUNDS):
            handled = drain(store, "q", handler, collect_errors=True)
            rounds.append(([h.outcome for h in handled], store.call(_jobs, store.wrapped)))
            store.call(clock.advance, PAUSE)
    return rounds


async def worked(handler, payload, attempts, calls):
    """By a worker, which is stopped in the midst of the last call of each round."""
    clock = ManualClock(start=1_000)
    rounds = []
    async with MemStore(clock=clock) as store:
        await _enqueued(store, payload, attempts)
        for count in calls:
            outcomes = await _work(store, handler, count) if count else []
            rounds.append((outcomes, await _jobs(store)))
            await clock.advance(PAUSE)
    return rounds


async def _work(store, handler, count):
    stop, outcomes = StopToken(), []

    async def watching(_, call_next):
        error = None
        try:
            return await call_next()
        except BaseException as caught:
            error = caught
            raise
        finally:
            outcomes.append(ending(error).outcome)
            if len(outcomes) == count:
                stop.stop()

    worker = Worker(store, "q", handler, worker_id="drain", concurrency=1, middlewares=[watching])
    await worker.run(stop)
    return outcomes


def _with_what_it_learns_later(case, rounds):
    """A worker hears that a job was cancelled when it settles it, after its middlewares."""
    if case not in {"cancels", "cancels_and_raises"}:
        return rounds
    return [([Outcome.LOST for _ in outcomes], jobs) for outcomes, jobs in rounds]


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("case", CASES)
async def test_a_job_is_left_as_a_worker_leaves_it(case, attempts):
    """Round by round, until its attempts are used up."""
    rounds = await drained(*CASES[case], attempts)

    by_worker = await worked(*CASES[case], attempts, [len(outcomes) for outcomes, _ in rounds])
    assert rounds == _with_what_it_learns_later(case, by_worker)
    assert [] != rounds[0][0]
    assert [] == rounds[-1][0]


@pytest.mark.parametrize("case", CASES)
def test_a_job_is_left_so_where_it_blocks(case):
    """Whichever thread calls the handler."""
    rounds = drained_blocking(*CASES[case], 2)

    calls = [len(outcomes) for outcomes, _ in rounds]
    by_worker = asyncio.run(worked(*CASES[case], 2, calls))
    assert rounds == _with_what_it_learns_later(case, by_worker)
    assert [] != rounds[0][0]
