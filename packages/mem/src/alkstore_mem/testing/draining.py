"""Run what is ready, through a handler, as a worker would."""

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from attrs import frozen

from alkstore_core import CodecError, Job, JobHandle, ManualClock, Store
from alkstore_core.sync import SyncStore
from alkstore_core.worker import Fail, Outcome, Retry
from alkstore_core.worker.handlers import Callee
from alkstore_core.worker.runs import Run
from alkstore_core.worker.threads import Threads
from alkstore_mem.testing.at_once import at_once
from alkstore_mem.testing.counting import check_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from alkstore_core import JobSource
    from alkstore_core.worker import Handler

T = TypeVar("T")

WORKER: Final = "drain"
"""The worker id that `drain` claims under."""

PAGE: Final = 1000


@frozen(kw_only=True)
class Handled:
    """One call of the handler.

    `outcome` is what a worker makes of it, and `LOST` when nothing could be made of it any
    more: the claim had lapsed, or the job was cancelled. `error` is what the handler raised
    beside `Retry` and `Fail`.
    """

    job: Job
    outcome: Outcome
    result: object = None
    error: BaseException | None = None


@overload
def drain(
    store: Store,
    queue: str,
    handler: Handler,
    *,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> Coroutine[Any, Any, list[Handled]]: ...
@overload
def drain(
    store: Store,
    *,
    outbox: str,
    handler: Handler,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> Coroutine[Any, Any, list[Handled]]: ...
@overload
def drain(
    store: SyncStore[Any],
    queue: str,
    handler: Handler,
    *,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> list[Handled]: ...
@overload
def drain(
    store: SyncStore[Any],
    *,
    outbox: str,
    handler: Handler,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> list[Handled]: ...
def drain(
    store: Store | SyncStore[Any],
    queue: str | None = None,
    handler: Handler | None = None,
    *,
    outbox: str | None = None,
    advance: bool = False,
    collect_errors: bool = False,
    limit: int = 1000,
) -> Coroutine[Any, Any, list[Handled]] | list[Handled]:
    """Every job of a queue, or message of an outbox, that is ready has gone through `handler`.

    Awaited for a `Store`, blocking for a `SyncStore`. The handler is what a `Worker` on the same
    store takes, and what it does decides as there: typed payloads by annotation, a return
    acknowledges, an exception retries, `Retry` and `Fail` say. Plain handlers run in a thread
    of their own where this is awaited, and in the calling thread where it blocks. No heartbeat
    keeps a claim whose handler moves the clock.

    Ends when nothing is ready, also of what the handler enqueued meanwhile. With `advance` the
    store's `ManualClock` is then moved to the next delayed job, until there is none.

    What a handler raises, beside `Retry` and `Fail`, is raised here once its job was settled;
    with `collect_errors` it is in the result, and the rest is handled too.

    Raises:
        AssertionError: the handler was called `limit` times, and there is still work.
        DatabaseError: the database refused, as one with a single writer does while the caller
            has a transaction open.
        TypeError: neither a queue nor an outbox is named, or both, or the handler's signature
            cannot be served, or `limit` is no int.
        ValueError: `advance`, and the store's time is no `ManualClock`; or `limit` is below 0.

    """
    if handler is None or (queue is None) == (outbox is None):
        raise TypeError("drain takes the name of a queue, or outbox=..., and a handler")
    check_number("limit", limit)
    inner: Store = store.wrapped if isinstance(store, SyncStore) else store
    if queue is not None:
        source: JobSource = inner.queue(queue)
        where = f"queue {queue!r}"
    else:
        source = inner.outbox(str(outbox)).backing
        where = f"outbox {outbox!r}"
    callee = Callee(
        handler,
        inner,
        {JobHandle: lambda handle: handle, Job: operator.attrgetter("job")},
        operator.attrgetter("job"),
    )
    draining = _Draining(
        store=inner,
        source=source,
        where=where,
        callee=callee,
        clock=_clock(inner) if advance else None,
        collect_errors=collect_errors,
        limit=limit,
    )
    if not isinstance(store, SyncStore):
        return _drained(draining)
    if callee.is_async:
        return _judged(*store.call(draining.run, _on_this_loop, _InThisThread()))

    async def on_its_loop(call: Callable[..., Awaitable[T]], *args: Any) -> T:
        return store.call(call, *args)

    return _judged(*at_once(draining.run(on_its_loop, _InThisThread())))


async def _drained(draining: _Draining) -> list[Handled]:
    threads = Threads("alkstore-drain")
    try:
        return _judged(*await draining.run(_on_this_loop, threads))
    finally:
        threads.close()


def _judged(handled: list[Handled], error: BaseException | None) -> list[Handled]:
    """Raise the error, if any, but not where it would end the loop of blocking calls."""
    if error is not None:
        raise error
    return handled


def _clock(store: Store) -> ManualClock:
    clock = store._runtime.engine.clock  # noqa: SLF001 - the distributions are one family
    if not isinstance(clock, ManualClock):
        raise ValueError(  # noqa: TRY004 - the store is of the right class, its time is not
            "drain can advance only a store on a ManualClock: MemStore(clock=...)"
        )
    return clock


@frozen(kw_only=True)
class _Draining:
    store: Store
    source: JobSource
    where: str
    callee: Callee
    clock: ManualClock | None
    collect_errors: bool
    limit: int

    async def run(
        self, make: Callable[..., Awaitable[Any]], threads: Any
    ) -> tuple[list[Handled], BaseException | None]:
        """What was handled, and the error that the test is to hear of.

        `make` makes the store's calls; `threads` those of a plain handler.
        """
        call = self.callee.call(threads)
        handled: list[Handled] = []
        handle: JobHandle | None
        while (handle := await make(self._next)) is not None:
            if len(handled) == self.limit:
                await make(handle.release)
                raise AssertionError(
                    f"the handler was called {self.limit} times and {self.where} still has work: "
                    "it enqueues or gives back as much as it does, or a higher limit is needed"
                )
            result, error = await _ended(call, handle)
            outcome: Outcome = await make(self._settle, handle, error)
            told = None if isinstance(error, (Retry, Fail)) else error
            job = handle.job
            handled.append(Handled(job=job, outcome=outcome, result=result, error=told))
            if told is not None and not self.collect_errors:
                told.add_note(
                    f"raised by the handler of job {job.id} of {self.where}, attempt "
                    f"{job.attempts} of {job.max_attempts}; the job is {outcome}"
                )
                return handled, told
        return handled, None

    async def _next(self) -> JobHandle | None:
        while True:
            handle = await self.source.claim_one(WORKER)
            if handle is not None or self.clock is None or not await self._advance(self.clock):
                return handle

    async def _advance(self, clock: ManualClock) -> bool:
        """Move time to when the next delayed job is due; whether there is one."""
        now = clock.now()
        due: list[int] = []
        after = 0
        while page := await self.source.jobs("pending", PAGE, after):
            due += [job.run_at for job in page if job.run_at > now]
            after = page[-1].id
        if due:
            await clock.advance(min(due) - now)
        return bool(due)

    async def _settle(self, handle: JobHandle, error: BaseException | None) -> Outcome:
        """Tell what a worker would tell."""
        outcome = Run(handle, self.store.mark(), None).ending(error).outcome
        if outcome is Outcome.SETTLED:
            return outcome
        if error is None:
            told = await handle.ack()
        elif isinstance(error, Retry):
            told = await handle.retry(error.reason, error.delay)
        elif isinstance(error, Fail):
            told = await handle.fail(error.reason)
        elif isinstance(error, CodecError):
            told = await handle.fail(error)
        elif isinstance(error, asyncio.CancelledError):
            told = await handle.retry("the handler was cancelled, not by its worker")
        else:
            told = await handle.retry(error)
        return outcome if told else Outcome.LOST


async def _ended(
    call: Callable[[JobHandle], Awaitable[object]], handle: JobHandle
) -> tuple[object, BaseException | None]:
    """What a handler returned or raised, by the same measure as a worker's."""
    try:
        return await call(handle), None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return None, error
    except BaseException as error:  # noqa: BLE001 - as with a worker, also `sys.exit`
        return None, error


def _is_cancelled() -> bool:
    """Whether it is the test that is cancelled, as by a time-out."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


# -- where it is done ---------------------------------------------------------------------


async def _on_this_loop(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    return await call(*args)


class _InThisThread:
    """In place of `Threads`; like all else where it blocks, it never suspends."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except StopIteration as stop:
            raise RuntimeError("the handler raised StopIteration") from stop
