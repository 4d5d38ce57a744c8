"""What becomes of a job once its handler has ended, and telling the queue."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from alkstore_core.errors import Closed, CodecError, DatabaseError
from alkstore_core.integers import check_i64
from alkstore_core.policy.backoff import backoff_delay
from alkstore_core.policy.errortext import storable_error
from alkstore_core.worker.alarm import Backoff
from alkstore_core.worker.endings import Outcome
from alkstore_core.worker.logs import Events, job_event, source
from alkstore_core.worker.outcomes import Fail, Retry
from alkstore_core.worker.runs import Cause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_core.queues import JobSource
    from alkstore_core.worker.runs import Run

    Settle = Callable[[], Awaitable[bool]]

_log = logging.getLogger(__name__)


class Settling:
    """Outcomes on their way to the queue; those that it did not take are kept for another try.

    But for jobs that are given back: that is tried once. Nothing is lost with any of them: a job
    whose settling call never lands comes back with its claim's end.
    """

    def __init__(
        self,
        queue: JobSource,
        worker_id: str,
        settled: Callable[[list[Run]], None],
        ready: Callable[[], None],
    ) -> None:
        """Prepare: `settled` hears of answered runs, `ready` when it is time to tell again."""
        self._queue = queue
        self.label: str = f"queue {queue.name!r}"
        self._worker_id = worker_id
        self._event = Events(**source(queue.name), worker_id=worker_id)
        self._settled = settled
        self._ready = ready
        self._acks: list[Run] = []
        self._releases: list[Run] = []
        self._others: list[tuple[Run, Settle]] = []
        self._backoff = Backoff()
        self._resting = False

    @property
    def waiting(self) -> int:
        """How many outcomes were not told yet."""
        return len(self._acks) + len(self._releases) + len(self._others)

    @property
    def refused(self) -> int:
        """How many of them wait because the database does not take any just now."""
        return self.waiting if self._resting else 0

    @property
    def due(self) -> bool:
        """Whether there is something to tell, and a chance that it is heard."""
        return not self._resting and self.waiting > 0

    def drop(self) -> None:
        """Nobody can be told any more."""
        self._acks, self._releases, self._others = [], [], []

    def ack(self, run: Run) -> None:
        """It is done."""
        self._acks.append(run)

    def release(self, run: Run) -> None:
        """It was not done, through no fault of its own."""
        self._releases.append(run)

    def retry(self, run: Run, error: str | BaseException | None, delay: int) -> None:
        """Try it again later."""
        self._others.append((run, lambda: run.handle.retry(error, delay)))

    def fail(self, run: Run, error: str | BaseException | None) -> None:
        """It is hopeless."""
        self._others.append((run, lambda: run.handle.fail(error)))

    def raised(self, run: Run, error: BaseException, timeout: float | None, seconds: float) -> None:
        """What a handler's error, after so many seconds, means for its job."""
        if run.cause is Cause.SHUTDOWN:
            self.release(run)
            return
        job = run.handle.job
        told: BaseException | None = None
        delay: int | None = None
        stored: Any = error
        if run.cause is Cause.TIMEOUT:
            stored = text = f"timed out after {timeout:g} s"
        elif isinstance(error, Retry):
            stored, text = error.reason, _said(error)
            # Set behind its back, it would be refused with each try to tell of it.
            delay = None if error.delay is None else check_i64("delay", error.delay)
        elif isinstance(error, Fail):
            stored, text = error.reason, _said(error)
        elif isinstance(error, CodecError):
            text = str(error)
        elif isinstance(error, asyncio.CancelledError):
            stored = text = "the handler was cancelled, not by its worker"
        else:
            text, told = storable_error(error), error
        end = run.ending(error)
        pause: int | None = None
        if end.outcome is Outcome.RETRIED:
            # Drawn here, not by the handle, so that the line says what will be.
            drawn = backoff_delay(job.backoff_base_s, job.attempts) if delay is None else delay
            pause = max(drawn, 0)
            self.retry(run, stored, pause)
        elif isinstance(error, (Fail, CodecError)) and not end.timed_out:
            self.fail(run, stored)
        else:
            self.retry(run, stored, 0)
        _log.warning(
            "%s: job %d failed (attempt %d of %d), %s: %s",
            *(self.label, job.id, job.attempts, job.max_attempts),
            *("dead now" if pause is None else f"again in {pause} s", text),
            exc_info=told,
            extra=job_event(
                "job.failed",
                run,
                outcome=str(end.outcome),
                timed_out=end.timed_out,
                delay_s=pause,
                duration_s=seconds,
                error=text,
            ),
        )

    async def tell(self) -> None:
        """Tell the queue every outcome so far; what it does not take waits for the next call.

        Raises:
            Closed: the store was closed; the jobs come back when their claims have lapsed.

        """
        acks, self._acks = self._acks, []
        releases, self._releases = self._releases, []
        others, self._others = self._others, []
        works: list[Awaitable[object]] = []
        if acks:
            works.append(self._ack(acks))
        if releases:
            works.append(self._release(releases))
        works += [self._settle(run, settle) for run, settle in others]
        answers = await asyncio.gather(*works, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in errors:
            if isinstance(error, Closed) or not isinstance(error, Exception):
                raise error
        if errors:
            self._rest(errors[0])
        else:
            self._backoff.reset()

    def _rest(self, error: BaseException) -> None:
        self._resting = True
        asyncio.get_running_loop().call_later(self._backoff.take(), self._try_again)
        _log.warning(
            "%s: %d outcomes could not be told, trying again: %s",
            *(self.label, self.waiting, error),
            exc_info=None if isinstance(error, DatabaseError) else error,
            extra=self._event("settling.refused", count=self.waiting),
        )

    def _try_again(self) -> None:
        self._resting = False
        self._ready()

    async def _ack(self, runs: list[Run]) -> None:
        try:
            acked = await self._queue.ack_batch([run.handle for run in runs], self._worker_id)
        except BaseException:
            self._acks += runs
            raise
        self._settled(runs)
        if acked < len(runs):
            self._late(len(runs) - acked)

    async def _release(self, runs: list[Run]) -> None:
        ids = [run.handle.job.id for run in runs]
        try:
            released = await self._queue.release_batch(run.handle for run in runs)
        except DatabaseError as error:
            # Not again: what was given back all the same may be somebody else's by now.
            _log.warning(
                "%s: %d jobs may not have been given back; they come back when their claims have "
                "lapsed: %s",
                *(self.label, len(runs), error),
                extra=self._event("jobs.release_refused", count=len(runs), job_ids=ids),
            )
        else:
            _log.info(
                "%s: %d jobs given back",
                *(self.label, released),
                extra=self._event("jobs.released", count=released, job_ids=ids),
            )
        self._settled(runs)

    async def _settle(self, run: Run, settle: Settle) -> None:
        try:
            took = await settle()
        except BaseException:
            self._others.append((run, settle))
            raise
        self._settled([run])
        if not took:
            self._late(1)

    def _late(self, count: int) -> None:
        _log.warning(
            "%s: %d outcomes came too late: the claims had lapsed or the jobs were cancelled",
            *(self.label, count),
            extra=self._event("settling.late", count=count),
        )


def _said(error: Retry | Fail) -> str:
    """Whatever the handler gave as the reason, it has a text here."""
    return str(error) if error.reason is None else storable_error(error.reason)
