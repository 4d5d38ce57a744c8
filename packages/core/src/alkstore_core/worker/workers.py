"""Workers: they claim the jobs of a queue and run a handler for each."""

from __future__ import annotations

import asyncio
import logging
import math
import operator
import os
import platform
import uuid
from typing import TYPE_CHECKING, Final

from alkstore_core.completion import to_the_end
from alkstore_core.errors import Closed, DatabaseError
from alkstore_core.jobs import JobHandle
from alkstore_core.names import check_label
from alkstore_core.stop import StopToken
from alkstore_core.values import Job
from alkstore_core.worker.alarm import Alarm, Backoff
from alkstore_core.worker.handlers import Callee, wrapped
from alkstore_core.worker.outcomes import ClaimLost
from alkstore_core.worker.pulse import Pulse
from alkstore_core.worker.runs import Cause, Run
from alkstore_core.worker.settling import Settling
from alkstore_core.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from typing import Any

    from alkstore_core.queues import JobSource
    from alkstore_core.store import Store
    from alkstore_core.worker.handlers import Handler, Middleware

_log = logging.getLogger(__name__)

CLEANUP_S: Final = 5.0
"""How long cancelled handlers, and a database that does not answer, may hold up the end."""


class Worker:
    """Claims jobs of a queue and runs `handler` for each, `concurrency` of them at once.

    The handler is an `async def`, or a plain function, which runs in a thread. By annotation it
    asks for its payload as any type, for the `Job` or for the `JobHandle`. What it does decides:

    * it returns: the job is acknowledged;
    * it raises: the job is retried after its backoff, with the error as `last_error`;
    * it raises `Retry` or `Fail`: as that says; `CodecError`, also because the payload is not of
      the annotated type: dead at once;
    * it takes longer than `timeout` seconds: cancelled and retried with a text that says so.
      A plain function cannot be cancelled: it loses its heartbeat, and the job is retried when
      it returns, or when its claim lapses;
    * it settles the `JobHandle` itself: left alone.

    Heartbeats keep the claims of whatever runs. A handler whose claim is lost is cancelled (see
    `ClaimLost`) before anybody else can have the job. Jobs are handed out at least once, so
    handlers are idempotent.

    Raises:
        TypeError: the handler's signature cannot be served.
        ValueError: `concurrency` is below 1, `timeout` not above 0, `grace` below 0.
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
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout}")
        if not grace >= 0:
            raise ValueError(f"grace must be at least 0 seconds, not {grace}")
        self._store = store
        self._queue = store.queue(queue) if isinstance(queue, str) else queue
        self._worker_id = check_label("worker id", own_id() if worker_id is None else worker_id)
        callee = Callee(
            handler,
            {JobHandle: lambda handle: handle, Job: operator.attrgetter("job")},
            operator.attrgetter("job"),
        )
        if JobHandle in callee.asked and not callee.is_async:
            raise TypeError(
                f"handler {callee.name} runs in a thread, where a JobHandle cannot be used: make "
                "it an `async def`, or ask for the Job"
            )
        self._threads = Threads(f"alkstore-{self._queue.name}")
        self._is_async = callee.is_async
        self._call = wrapped(callee.call(self._threads), middlewares)
        self._concurrency = concurrency
        self._timeout = timeout
        self._grace = grace
        self._running = 0
        self._started = False
        self._maybe = False
        self._stopping = False
        self._leaving = False
        self._broken: BaseException | None = None
        self._threads_left: set[Run] = set()
        self._helpers: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._alarm = Alarm(store)
        self._abort = Alarm(store)
        self._pulse = Pulse(store, self._queue, self._cut)
        self._settling = Settling(
            self._queue, self._worker_id, self._pulse.remove, self._alarm.ring
        )
        self._claim_backoff = Backoff()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    @property
    def worker_id(self) -> str:
        """The id that claims are made under."""
        return self._worker_id

    @property
    def running(self) -> int:
        """How many handlers are under way."""
        return self._running

    async def run(self, stop: StopToken | None = None, *, abort: StopToken | None = None) -> None:
        """Work until `stop`, and then end in order. A worker runs once.

        After `stop` nothing is claimed any more, and what runs has `grace` seconds to end, or
        until `abort`. Then async handlers are cancelled and their jobs given back at once, with
        their attempt restored. A plain function that still runs is left to itself, and its job
        comes back when its claim has lapsed; so does that of an async handler that does not end
        within 5 s of being cancelled. Cancelling `run` is `stop` without any grace.

        While the database does not answer the worker waits and tries again.

        Raises:
            Closed: the store is not open, was closed, or its wakes have ended.
            RuntimeError: this worker has run already.

        """
        if self._started:
            raise RuntimeError("a worker runs once: make another one")
        self._started = True
        self._store.check()
        serving = asyncio.get_running_loop().create_task(
            self._serve(stop or StopToken(), abort or StopToken())
        )
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if not serving.done():
                self._stop()
                self._abort.ring()
            await to_the_end(serving)
            raise

    # -- the loop -------------------------------------------------------------------------

    async def _serve(self, stop: StopToken, abort: StopToken) -> None:
        self._listening = self._help(self._listen())
        self._help(self._pulse.run())
        self._help(self._stop_on(stop))
        self._help(self._abort_on(abort))
        try:
            while not self._is_over():
                if self._settling.due or self._wants_jobs():
                    await self._round()
                else:
                    await self._alarm.wait()
        finally:
            helpers = tuple(self._helpers)
            for helper in helpers:
                helper.cancel()
            self._leave_behind()
            await asyncio.wait(helpers)
        if self._broken is not None:
            raise self._broken

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
        claiming = None
        if self._wants_jobs():
            claiming = asyncio.get_running_loop().create_task(self._claim(self._free()))
        try:
            if self._settling.due:
                await self._settling.tell()
        except Closed as error:
            self._break(error)
        if claiming is not None:
            try:
                await claiming
            except Exception as error:  # noqa: BLE001 - raised once everything has ended.
                self._break(error)

    async def _claim(self, count: int) -> None:
        self._maybe = False
        mark = self._store.mark()
        try:
            handles = await self._queue.claim_batch(self._worker_id, count)
        except DatabaseError as error:
            _log.warning("queue %r: no claim, trying again: %s", self.name, error)
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
        for run in runs:
            run.task = loop.create_task(self._execute(run))
        self._pulse.add(runs)

    async def _execute(self, run: Run) -> None:
        run.begun = True
        try:
            await self._call(run.handle)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - also `sys.exit` ends no worker.
            self._ended(run, error)
        else:
            self._ended(run, None)

    def _ended(self, run: Run, error: BaseException | None) -> None:
        run.finished = True
        run.ends_at = math.inf
        self._running -= 1
        self._threads_left.discard(run)
        if run.cause is Cause.LOST or run.handle.settled:
            self._pulse.remove((run,))
        elif error is not None:
            self._settling.raised(run, error, self._timeout)
        elif run.cause is Cause.TIMEOUT and not self._is_async:
            self._settling.raised(run, TimeoutError(), self._timeout)
        else:
            self._settling.ack(run)
        self._alarm.ring()

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
            reason = ClaimLost(f"the claim of job {job.id} of queue {self.name!r}: {why}")
            _log.warning("queue %r: job %d is cancelled: %s", self.name, job.id, why)
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
            "queue %r: job %d still runs in its thread (%s); its claim will lapse",
            *(self.name, run.handle.job.id, why),
        )

    def _cut_all(self) -> None:
        for run in tuple(self._pulse.runs):
            self._cut(run, Cause.SHUTDOWN, "the worker's grace period is over")
        self._alarm.ring()

    def _leave_behind(self) -> None:
        self._threads.close()
        for run in self._threads_left:
            if run.task is not None:
                run.task.cancel()
        left = sum(not run.handle.settled for run in self._pulse.runs)
        if left:
            _log.warning(
                "queue %r: %d jobs could not be settled; they return when their claims lapse",
                *(self.name, left),
            )

    # -- helpers --------------------------------------------------------------------------

    def _help(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helped)
        return task

    def _helped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """End without grace, and raise this."""
        self._broken = self._broken or error
        if isinstance(error, Closed):
            self._settling.drop()
        self._stop()
        self._abort.ring()

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
                _log.warning("queue %r: no wakes, trying again: %s", self.name, error)
                await asyncio.sleep(backoff.take())
            else:
                raise Closed(
                    f"the wakes of queue {self.name!r} have ended: the store was closed, or its "
                    "database was replaced"
                )

    def _look(self) -> None:
        self._maybe = True
        self._alarm.ring()

    async def _stop_on(self, stop: StopToken) -> None:
        await stop.wait()
        self._stop()

    async def _abort_on(self, abort: StopToken) -> None:
        await abort.wait()
        self._stop()
        self._abort.ring()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            if self._listening is not None:
                self._listening.cancel()
            self._help(self._end())
            self._alarm.ring()

    async def _end(self) -> None:
        await self._abort.wait(self._store.mark() + self._grace)
        self._cut_all()
        await self._store.sleep_until(self._store.mark() + CLEANUP_S)
        self._leaving = True
        self._alarm.ring()


def own_id() -> str:
    """Who this is: host, process, and a few random digits."""
    return f"{platform.node()[:64]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
