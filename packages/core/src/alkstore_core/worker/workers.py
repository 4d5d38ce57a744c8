"""Workers: they claim the jobs of a queue and run a handler for each."""

from __future__ import annotations

import asyncio
import logging
import math
import operator
from typing import TYPE_CHECKING

from alkstore_core.errors import Closed, DatabaseError
from alkstore_core.jobs import JobHandle
from alkstore_core.names import check_label
from alkstore_core.policy.errortext import storable_error
from alkstore_core.values import Job
from alkstore_core.worker.alarm import Backoff
from alkstore_core.worker.checks import (
    check_options,
    check_outbox,
    check_queue,
    checked_middlewares,
)
from alkstore_core.worker.endings import Attempt, Outcome, attempt_under_way, ends_the_loop
from alkstore_core.worker.handlers import Callee, wrapped
from alkstore_core.worker.logs import Events, job_event, source
from alkstore_core.worker.outcomes import ClaimLost
from alkstore_core.worker.pulse import Pulse
from alkstore_core.worker.runner import Runner, own_id, wakes_ended
from alkstore_core.worker.runs import Cause, Run
from alkstore_core.worker.settling import Settling
from alkstore_core.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.outboxes import Outbox
    from alkstore_core.queues import JobSource
    from alkstore_core.store import Store
    from alkstore_core.worker.handlers import Handler, Middleware

_log = logging.getLogger(__name__)


class Worker(Runner):
    """Claims jobs of a queue and runs `handler` for each, `concurrency` of them at once.

    The handler is an `async def`, or a plain function, which runs in a thread. By annotation it
    asks for its payload as any type, for the `Job`, the `JobHandle` or the `Store`. What it does
    decides:

    * it returns: the job is acknowledged;
    * it raises: the job is retried after its backoff, with the error as `last_error`;
    * it raises `Retry` or `Fail`: as that says; `CodecError`, also because the payload is not of
      the annotated type: dead at once;
    * it takes longer than `timeout` seconds: cancelled and retried with a text that says so.
      A plain function cannot be cancelled: it loses its heartbeat, and the job is retried when
      it returns, or when its claim lapses;
    * it settles the `JobHandle` itself: left alone.

    That a handler returns after it was cancelled is no answer: its job is retried, or given back.

    Heartbeats keep the claims of whatever runs. A handler whose claim is lost is cancelled (see
    `ClaimLost`) before anybody else can have the job. Jobs are handed out at least once, so
    handlers are idempotent.

    Once stopped it claims nothing any more, and what runs has `grace` seconds to end. Then async
    handlers are cancelled and their jobs given back at once, with their attempt restored. A
    plain function that still runs is left to itself, and its job comes back when its claim has
    lapsed; so does that of an async handler that does not end within 5 s of being cancelled.

    Raises:
        TypeError: the handler's signature cannot be served, or an option is of another type; the
            text says what to pass instead.
        ValueError: `concurrency` is below 1, `timeout` not above 0, `grace` below 0, or the queue
            is of another store.
        InvalidName: the queue's name or the worker id is not legal; `ReservedName` likewise.

    """

    def __init__(
        self,
        store: Store,
        queue: str | JobSource,
        handler: Handler,
        *,
        concurrency: int = 10,
        timeout: float | None = None,
        grace: float = 30.0,
        worker_id: str | None = None,
        middlewares: Iterable[Middleware[JobHandle]] = (),
    ) -> None:
        check_options(concurrency=concurrency, timeout=timeout, grace=grace)
        check_queue(store, queue)
        super().__init__(store, grace)
        self._queue = store.queue(queue) if isinstance(queue, str) else queue
        self._worker_id = check_label("worker id", own_id() if worker_id is None else worker_id)
        callee = Callee(
            handler,
            store,
            {JobHandle: lambda handle: handle, Job: operator.attrgetter("job")},
            operator.attrgetter("job"),
        )
        self._threads = Threads(f"alkstore-{self._queue.name}")
        self._is_async = callee.is_async
        around = checked_middlewares(middlewares)
        self._asks = bool(around)
        self._call = wrapped(callee.call(self._threads), around)
        self._concurrency = concurrency
        self._timeout = timeout
        self._running = 0
        self._maybe = self._debugs = False
        self._threads_left: set[Run] = set()
        self._listening: asyncio.Task[None] | None = None
        self._name = self._queue.name
        self._label = f"queue {self._name!r}"
        self._event = Events(**source(self._name), worker_id=self._worker_id)
        self._pulse = Pulse(store, self._queue, self._cut)
        self._settling = Settling(
            self._queue, self._worker_id, self._pulse.remove, self._alarm.ring
        )
        self._claim_backoff = Backoff()

    @property
    def name(self) -> str:
        """The queue's name, or the outbox's."""
        return self._name

    @property
    def worker_id(self) -> str:
        """The id that claims are made under."""
        return self._worker_id

    @property
    def running(self) -> int:
        """How many handlers are under way."""
        return self._running

    # -- the loop -------------------------------------------------------------------------

    async def _work(self) -> None:
        self._listening = self._help(self._listen())
        self._help(self._pulse.run())
        # What is there already need not wait until wakes can be heard.
        self._maybe = True
        try:
            while not self._is_over():
                if self._settling.due or self._wants_jobs():
                    await self._round()
                else:
                    await self._alarm.wait()
        finally:
            self._leave_behind()

    def _is_over(self) -> bool:
        idle = self._running == len(self._threads_left) and not self._settling.waiting
        return self._stopping and (idle or self._leaving)

    def _free(self) -> int:
        # Outcomes that the database does not take count too: else an outage that refuses no
        # claims would pile them up.
        return self._concurrency - self._running - self._settling.refused

    def _wants_jobs(self) -> bool:
        return self._maybe and not self._stopping and self._free() > 0

    async def _round(self) -> None:
        """Tell what has ended and claim what can start, at once: they may share a commit."""
        if not self._settling.due:
            # Alone it needs no task, which would begin a turn of the loop later.
            await self._claim(self._free())
            return
        claiming = None
        if self._wants_jobs():
            claiming = asyncio.get_running_loop().create_task(self._claim(self._free()))
        try:
            try:
                await self._settling.tell()
            except Closed as error:
                self._break(error)
            if claiming is not None:
                await claiming
        finally:
            if claiming is not None:
                # Cancelled, it gives back what it gets: nobody would tell of it here.
                claiming.cancel()

    async def _claim(self, count: int) -> None:
        try:
            await self._claim_up_to(count)
        except Exception as error:  # noqa: BLE001 - raised once everything has ended.
            self._break(error)

    async def _claim_up_to(self, count: int) -> None:
        self._maybe = False
        mark = self._store.mark()
        try:
            handles = await self._queue.claim_batch(self._worker_id, count)
        except DatabaseError as error:
            told = self._event("claim.refused")
            _log.warning("%s: no claim, trying again: %s", self._label, error, extra=told)
            asyncio.get_running_loop().call_later(self._claim_backoff.take(), self._look)
            return
        self._claim_backoff.reset()
        if len(handles) == count:
            self._maybe = True
        if self._stopping:
            for handle in handles:
                self._settling.release(Run(handle, mark, None))
        elif handles:
            self._start(handles, mark)

    def _start(self, handles: list[JobHandle], mark: float) -> None:
        loop = asyncio.get_running_loop()
        runs = [Run(handle, mark, self._timeout) for handle in handles]
        self._running += len(runs)
        self._debugs = _log.isEnabledFor(logging.DEBUG)
        for run in runs:
            run.handle.on_heartbeat(self._pulse.extended)
            run.task = loop.create_task(self._execute(run))
        self._pulse.add(runs)

    async def _execute(self, run: Run) -> None:
        run.begun = True
        run.began_at = self._store.mark()
        if run.cause is Cause.LOST or run.cut_at <= run.began_at:
            # The process stood still, or the answer took too long: others may have it already.
            run.cause = Cause.LOST
            job = run.handle.job
            _log.warning(
                "%s: job %d was not begun: it came too late",
                *(self._label, job.id),
                extra=job_event("job.not_begun", run, outcome=str(Outcome.LOST)),
            )
            self._ended(run, None)
            return
        if self._asks:
            attempt_under_way.set(Attempt(run.handle.job.attempts, None, run.ending))
        try:
            await self._call(run.handle)
        except BaseException as error:  # also `sys.exit` ends no worker.
            if ends_the_loop(error, run.task):
                raise
            self._ended(run, error)
        else:
            self._ended(run, None)

    def _ended(self, run: Run, error: BaseException | None) -> None:
        run.finished = True
        run.ends_at = math.inf
        self._running -= 1
        if self._threads_left:
            self._threads_left.discard(run)
        # Most end so, and are judged without a call.
        done = error is None and run.cause is None and not run.handle.settled
        outcome = Outcome.ACKED if done else run.ending(error).outcome
        if outcome is Outcome.ACKED:
            self._settling.ack(run)
            if self._debugs:
                seconds = self._seconds(run)
                _log.debug(
                    "%s: job %d done in %.3f s",
                    *(self._label, run.handle.job.id, seconds),
                    extra=job_event("job.done", run, outcome=str(outcome), duration_s=seconds),
                )
        elif outcome in {Outcome.LOST, Outcome.SETTLED}:
            self._pulse.remove((run,))
            if error is not None and not isinstance(error, asyncio.CancelledError):
                told = {"outcome": str(outcome), "duration_s": self._seconds(run)}
                _log.warning(
                    "%s: job %d raised after it was settled or lost",
                    *(self._label, run.handle.job.id),
                    exc_info=error,
                    extra=job_event("job.raised_late", run, **told),
                )
        else:
            self._failed(run, TimeoutError() if error is None else error)
        self._alarm.ring()

    def _failed(self, run: Run, error: BaseException) -> None:
        seconds = self._seconds(run)
        try:
            self._settling.raised(run, error, self._timeout, seconds)
        except Exception as fault:  # noqa: BLE001 - an error of the application's own make.
            # Not told of, its job would be kept by heartbeats for as long as the process lives.
            told = TypeError(f"{type(error).__name__} cannot be taken: {storable_error(fault)}")
            self._settling.raised(run, told, self._timeout, seconds)

    def _seconds(self, run: Run) -> float:
        return self._store.mark() - run.began_at

    # -- cutting short --------------------------------------------------------------------

    def _cut(self, run: Run, cause: Cause, why: str) -> None:
        if run.finished or run.task is None:
            # Its outcome is on its way; that of a lost claim will be refused.
            return
        job = run.handle.job
        if not self._is_async:
            self._cut_thread(run, cause, why)
            return
        if run.cause is None or cause is Cause.LOST:
            run.cause = cause
        reason: object = why
        if cause is Cause.LOST:
            reason = ClaimLost(f"the claim of job {job.id} of {self._label}: {why}")
            _log.warning(
                "%s: job %d is cancelled: %s",
                *(self._label, job.id, why),
                extra=job_event("job.lost", run, outcome=str(Outcome.LOST), reason=why),
            )
        run.task.cancel(reason)
        if not run.begun:
            self._ended(run, asyncio.CancelledError(reason))

    def _cut_thread(self, run: Run, cause: Cause, why: str) -> None:
        """A thread cannot be told to end. Its job is nobody else's before the claim lapses."""
        run.leave()
        if cause is Cause.SHUTDOWN:
            self._threads_left.add(run)
        elif run.cause is None or cause is Cause.LOST:
            run.cause = cause
        _log.warning(
            "%s: job %d still runs in its thread (%s); its claim will lapse",
            *(self._label, run.handle.job.id, why),
            extra=job_event("job.left_running", run, reason=why),
        )

    def _cut_all(self) -> None:
        for run in tuple(self._pulse.runs):
            self._cut(run, Cause.SHUTDOWN, "the worker's grace period is over")
        self._alarm.ring()

    def _leave_behind(self) -> None:
        self._threads.close()
        for run in self._threads_left:
            run.cause = Cause.SHUTDOWN
            if run.task is not None:
                run.task.cancel()
        left = sum(not run.handle.settled for run in self._pulse.runs)
        if left:
            _log.warning(
                "%s: %d jobs could not be settled; they return when their claims lapse",
                *(self._label, left),
                extra=self._event("jobs.unsettled", count=left),
            )

    # -- beginning and ending -------------------------------------------------------------

    def _halt(self) -> None:
        if self._listening is not None:
            self._listening.cancel()

    def _break(self, error: BaseException) -> None:
        if isinstance(error, Closed):
            self._settling.drop()
        super()._break(error)

    async def _listen(self) -> None:
        backoff = Backoff()
        while True:
            try:
                async with self._queue.wakes() as wakes:
                    backoff.reset()
                    self._look()
                    while await wakes.recv() is not None:
                        self._look()
            except DatabaseError as error:
                told = self._event("wakes.refused")
                _log.warning("%s: no wakes, trying again: %s", self._label, error, extra=told)
                await asyncio.sleep(backoff.take())
            else:
                raise wakes_ended(self._label)

    def _look(self) -> None:
        self._maybe = True
        self._alarm.ring()


class OutboxWorker(Worker):
    """Delivers the messages of an outbox, as a `Worker` does the jobs of a queue.

    A delivery is called at least once for each message: hand the job's id to the receiver as
    its idempotency key.
    """

    def __init__(
        self,
        store: Store,
        outbox: str | Outbox,
        handler: Handler,
        *,
        concurrency: int = 10,
        timeout: float | None = None,
        grace: float = 30.0,
        worker_id: str | None = None,
        middlewares: Iterable[Middleware[JobHandle]] = (),
    ) -> None:
        check_outbox(store, outbox)
        source = store.outbox(outbox) if isinstance(outbox, str) else outbox
        super().__init__(
            store,
            source.backing,
            handler,
            concurrency=concurrency,
            timeout=timeout,
            grace=grace,
            worker_id=worker_id,
            middlewares=middlewares,
        )
        self._name = source.name
        self._label = self._settling.label = self._pulse.label = f"outbox {source.name!r}"
