"""Run what is ready, through a handler, as a worker would."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from attrs import frozen

from alkstore_core import CodecError, Job, JobHandle, JobSource, ManualClock, Outbox, Store
from alkstore_core.sync import SyncJobSource, SyncOutbox
from alkstore_core.worker import Fail, Retry
from alkstore_core.worker.handlers import Callee
from alkstore_core.worker.threads import Threads
from alkstore_mem.engine import MemEngine
from alkstore_mem.store import MemStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from alkstore_core.runtime import Runtime
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.worker import Handler

WORKER: Final = "drain"
"""The worker id that `drain` claims under."""

PAGE: Final = 1000

Became: TypeAlias = Literal["acked", "retried", "dead", "settled", "lost"]


@frozen(kw_only=True)
class Handled:
    """One call of the handler.

    `became` says what it made of the job: `acked`, `retried` and `dead` as with a worker,
    `settled` by the handler itself, `lost` when the claim had lapsed or the job was cancelled.
    """

    job: Job
    became: Became
    result: object = None
    error: Exception | None = None


@overload
def drain(
    source: JobSource | Outbox,
    handler: Handler,
    *,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> Coroutine[Any, Any, list[Handled]]: ...
@overload
def drain(
    source: SyncJobSource | SyncOutbox,
    handler: Handler,
    *,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> list[Handled]: ...
def drain(
    source: JobSource | Outbox | SyncJobSource | SyncOutbox,
    handler: Handler,
    *,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> Coroutine[Any, Any, list[Handled]] | list[Handled]:
    """Every job of a queue, or message of an outbox, that is ready has gone through `handler`.

    Awaited for a queue of a `Store`; for one of a `SyncStore` it blocks. The handler is what a
    `Worker` takes, and what it does decides as there: typed payloads by annotation, a return
    acknowledges, an exception retries, `Retry` and `Fail` say. Plain handlers run in a thread
    of their own where this is awaited, and in the calling thread where it blocks.

    Ends when nothing is ready, also of what the handler enqueued meanwhile. With `advance` the
    store's `ManualClock` is then moved to the next delayed job, until there is none.

    What a handler raises, beside `Retry` and `Fail`, is raised here once its job was settled;
    with `collect_errors` it is in the result, and the rest is handled too.

    Raises:
        AssertionError: the handler was called `limit` times, and there is still work.
        TypeError: the handler's signature cannot be served.
        ValueError: `advance`, and the store's time is no `ManualClock`.

    """
    blocking: Bridge | None = None
    if isinstance(source, (SyncJobSource, SyncOutbox)):
        blocking = source._bridge  # noqa: SLF001 - the distributions are one family
        source = source._outbox if isinstance(source, SyncOutbox) else source._source  # noqa: SLF001
    jobs = source.backing if isinstance(source, Outbox) else source
    runtime = jobs._runtime  # noqa: SLF001
    callee = Callee(
        handler,
        _store_of(runtime),
        {JobHandle: lambda handle: handle, Job: operator.attrgetter("job")},
        operator.attrgetter("job"),
    )
    clock: ManualClock | None = None
    if advance:
        if not isinstance(runtime.engine.clock, ManualClock):
            raise ValueError("drain can advance only a store on a ManualClock: MemStore(clock=...)")
        clock = runtime.engine.clock

    def steps(threads: Any) -> _Steps:
        return _steps(source.name, jobs, callee.call(threads), clock, collect_errors, limit)

    if blocking is None:
        return _awaiting(steps)
    return _blocking(steps(_Here()), blocking, plain=not callee.is_async)


# -- what is done, one step at a time -----------------------------------------------------


@frozen
class _Step:
    """Something to await; or a call of the handler, which has a thread of its own."""

    work: Callable[[], Awaitable[Any]]
    handles: bool = False


_Steps: TypeAlias = "Generator[_Step, Any, list[Handled]]"


def _steps(
    name: str,
    jobs: JobSource,
    call: Callable[[JobHandle], Awaitable[object]],
    clock: ManualClock | None,
    collect_errors: bool,
    limit: int,
) -> _Steps:
    handled: list[Handled] = []
    while True:
        handle: JobHandle | None = yield _Step(partial(jobs.claim_one, WORKER))
        if handle is None:
            if clock is not None and (yield _Step(partial(_advance, jobs, clock))):
                continue
            return handled
        if len(handled) == limit:
            yield _Step(handle.release)
            raise AssertionError(
                f"the handler was called {limit} times and {name!r} still has work: it enqueues "
                "as much as it does, or a higher limit is needed"
            )
        job = handle.job
        try:
            result = yield _Step(partial(call, handle), handles=True)
        except Exception as error:
            became: Became = yield _Step(partial(_failed, handle, error))
            said = isinstance(error, (Retry, Fail))
            handled.append(Handled(job=job, became=became, error=None if said else error))
            if not said and not collect_errors:
                error.add_note(
                    f"raised by the handler of job {job.id} of {name!r}, attempt {job.attempts} "
                    f"of {job.max_attempts}; the job is {became}"
                )
                raise
        else:
            became = "settled"
            if not handle.settled:
                became = "acked" if (yield _Step(handle.ack)) else "lost"
            handled.append(Handled(job=job, became=became, result=result))


async def _failed(handle: JobHandle, error: Exception) -> Became:
    """Tell what a worker would tell."""
    if handle.settled:
        return "settled"
    became: Became = "dead"
    if isinstance(error, Fail):
        told = await handle.fail(error.reason)
    elif isinstance(error, CodecError):
        told = await handle.fail(error)
    else:
        if handle.job.attempts < handle.job.max_attempts:
            became = "retried"
        reason, delay = (error.reason, error.delay) if isinstance(error, Retry) else (error, None)
        told = await handle.retry(reason, delay)
    return became if told else "lost"


async def _advance(jobs: JobSource, clock: ManualClock) -> bool:
    """Move time to when the next delayed job is due; whether there is one."""
    now = clock.now()
    due: list[int] = []
    after = 0
    while page := await jobs.jobs("pending", PAGE, after):
        due += [job.run_at for job in page if job.run_at > now]
        after = page[-1].id
    if due:
        await clock.advance(min(due) - now)
    return bool(due)


# -- who does it --------------------------------------------------------------------------


async def _awaiting(steps: Callable[[Threads], _Steps]) -> list[Handled]:
    threads = Threads("alkstore-drain")
    try:
        running = steps(threads)
        try:
            step = next(running)
            while True:
                try:
                    value = await step.work()
                except Exception as error:  # noqa: BLE001 - the steps judge it
                    step = running.throw(error)
                else:
                    step = running.send(value)
        except StopIteration as stop:
            handled: list[Handled] = stop.value
            return handled
    finally:
        threads.close()


def _blocking(running: _Steps, bridge: Bridge, *, plain: bool) -> list[Handled]:
    try:
        step = next(running)
        while True:
            try:
                value = _here(step.work) if step.handles and plain else bridge.call(step.work)
            except Exception as error:  # noqa: BLE001 - the steps judge it
                step = running.throw(error)
            else:
                step = running.send(value)
    except StopIteration as stop:
        handled: list[Handled] = stop.value
        return handled


class _Here:
    """Calls plain handlers in the thread in which the test runs."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """In place of `Threads.run`."""
        return function(*args, **kwargs)


def _here(work: Callable[[], Awaitable[Any]]) -> Any:
    # `_Here.run` never suspends.
    try:
        work().__await__().__next__()
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a plain handler was about to suspend")


def _store_of(runtime: Runtime) -> Store:
    """Another face of the store that a queue came from, for handlers that ask for it."""
    kind = MemStore if isinstance(runtime.engine, MemEngine) else Store
    store = kind.__new__(kind)
    store._runtime = runtime  # noqa: SLF001
    return store
