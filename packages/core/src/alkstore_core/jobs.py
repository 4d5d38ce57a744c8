"""The handle of a claimed job."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from alkstore_core.integers import check_duration, check_i64
from alkstore_core.policy.backoff import backoff_delay
from alkstore_core.policy.errortext import storable_error
from alkstore_core.spi import Claim, Topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core.runtime import Runtime
    from alkstore_core.values import Job

EXHAUSTED = "max attempts exceeded"
FAILED = "failed"


@final
class JobHandle:
    """One claim of a job. Its calls take effect only while this very claim is live.

    Once the claim has lapsed, or somebody claimed the job again, every call gives `False` and
    changes nothing. `ack`, `retry`, `fail` and `release` settle the handle: the first that got
    an answer is the last that does anything. One that raised may be tried again, but not
    `release`: it settles the handle once it is on its way, whatever becomes of it.
    """

    __slots__ = ("_claim", "_extended", "_job", "_runtime", "_settled")

    def __init__(self, runtime: Runtime, job: Job) -> None:
        self._runtime = runtime
        self._job = job
        self._claim = Claim(job.id, job.attempts)
        self._settled = False
        self._extended: Callable[[JobHandle, float, int], None] | None = None

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        return self._job

    @property
    def claim(self) -> Claim:
        """The claim this handle is bound to."""
        return self._claim

    @property
    def settled(self) -> bool:
        """Whether a settling call was answered, with whatever answer, or a release was begun."""
        return self._settled

    async def ack(self) -> bool:
        """The job is done: it is deleted.

        Raises:
            DatabaseError: the database refused; the claim stands as it did.
            Closed: the store is not open.

        """
        if self._settled:
            return False
        if self._runtime.slot.taken:
            await self._runtime.turn("ack")
        acked = await self._runtime.session().ack(self._job.queue, (self._claim,))
        self._settled = True
        return acked > 0

    async def retry(self, err: str | BaseException | None = None, delay: int | None = None) -> bool:
        """Try the job again later; when its attempts are used up it is dead.

        `delay` is seconds; without it the job's backoff decides, 0 or less means at once. The
        error becomes `last_error`: any text, cut at 8 KiB. A dead job without one gets
        `"max attempts exceeded"`.

        Raises:
            DatabaseError: the database refused, or `delay` is not an i64.
            Closed: the store is not open.

        """
        job = self._job
        wait = (
            backoff_delay(job.backoff_base_s, job.attempts)
            if delay is None
            else max(check_i64("delay", delay), 0)
        )
        error = None if err is None else storable_error(err)
        if self._settled:
            return False
        if self._runtime.slot.taken:
            await self._runtime.turn("retry")
        session = self._runtime.session()
        if job.attempts < job.max_attempts:
            wake = (Topic("queue", job.queue),)
            moved = await session.requeue(job.queue, self._claim, wait, error, wake=wake)
        else:
            reason = EXHAUSTED if error is None else error
            moved = await session.bury(job.queue, self._claim, reason)
        self._settled = True
        return moved

    async def fail(self, err: str | BaseException | None = None) -> bool:
        """The job is dead at once, with `err` or `"failed"` as its `last_error`.

        Raises:
            DatabaseError: the database refused.
            Closed: the store is not open.

        """
        error = FAILED if err is None else storable_error(err)
        if self._settled:
            return False
        if self._runtime.slot.taken:
            await self._runtime.turn("fail")
        moved = await self._runtime.session().bury(self._job.queue, self._claim, error)
        self._settled = True
        return moved

    async def heartbeat(self, extend: int) -> bool:
        """The claim now ends `extend` seconds from now, whatever was left of it. Repeatable.

        Raises:
            DatabaseError: the database refused, or `extend` is not an i64 above 0.
            Closed: the store is not open.

        """
        seconds = check_duration("extend", extend)
        if self._settled:
            return False
        if self._runtime.slot.taken:
            await self._runtime.turn("heartbeat", urgent=True)
        session = self._runtime.session()
        mark = self._runtime.mark()
        kept = bool(await session.extend(self._job.queue, (self._claim,), seconds))
        if kept and self._extended is not None:
            self._extended(self, mark, seconds)
        return kept

    async def release(self) -> bool:
        """Give the job back as if it had never been claimed, attempt included.

        For jobs that were fetched but not started. A lapsed claim is not given back: it has
        used its attempt. After an error or a cancellation the handle does nothing any more: should
        the job have been given back all the same, the next claim has the attempt of this one. If
        it was not, it comes back when the claim has lapsed.

        Raises:
            DatabaseError: the database refused.
            Closed: the store is not open.

        """
        if self._settled:
            return False
        if self._runtime.slot.taken:
            await self._runtime.turn("release")
        queue = self._job.queue
        wake = (Topic("queue", queue),)
        session = self._runtime.session()
        self._settled = True
        return await session.release(queue, (self._claim,), wake=wake) > 0

    def may_settle(self, runtime: Runtime, queue: str) -> bool:
        """Whether a batch call on that queue of that store may settle this handle."""
        return not self._settled and runtime is self._runtime and queue == self._job.queue

    def on_heartbeat(self, told: Callable[[JobHandle, float, int], None]) -> None:
        """Tell of each `heartbeat` that landed, with a mark taken before it and its seconds.

        For who keeps the claim beside its handler.
        """
        self._extended = told

    def mark_settled(self) -> None:
        """A batch call was answered, or is a release."""
        self._settled = True
