"""What a worker holds: the jobs it has claimed and not settled yet."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

from alkstore_core.errors import CodecError
from alkstore_core.worker.endings import ACKED, LOST, RELEASED, SETTLED, Ending, Outcome
from alkstore_core.worker.outcomes import Fail

if TYPE_CHECKING:
    import asyncio

    from alkstore_core.jobs import JobHandle

CUT_S: Final = 1.0
"""Without a heartbeat a handler is cancelled so long before its claim lapses."""


class Cause(enum.Enum):
    """Why a handler was cut short."""

    LOST = "its claim is lost"
    TIMEOUT = "it took too long"
    SHUTDOWN = "the worker is ending"


class Run:
    """One claim under way, from its handler's start until its settling call was answered.

    All times are marks of the store: `beat_at` is when a heartbeat is due, `cut_at` when the
    handler has to go because none landed, `ends_at` when its time is up, `began_at` when its
    handler was called.
    """

    beat_at: float
    cut_at: float

    __slots__ = (
        *("_heard_at", "beat_at", "began_at", "begun", "cause", "cut_at", "ends_at", "finished"),
        *("handle", "seconds", "task", "until"),
    )

    def __init__(self, handle: JobHandle, mark: float, timeout: float | None) -> None:
        self.handle: JobHandle = handle
        self.task: asyncio.Task[None] | None = None
        self.cause: Cause | None = None
        self.begun: bool = False
        self.finished: bool = False
        self.began_at: float = mark
        self.ends_at: float = math.inf if timeout is None else mark + timeout
        self._heard_at: float = mark
        seconds = handle.job.visibility_timeout_s
        self._keep(mark + seconds, seconds)

    def renewed(self, mark: float, seconds: int, now: float) -> None:
        """A heartbeat of so many seconds was sent at `mark`, and its answer is here `now`.

        The next ones renew the claim by as much, but by no more than its visibility timeout.
        """
        until = mark + seconds
        if mark < self._heard_at:
            # Two were under way at once, the worker's and one of the handler's: either may have
            # been the last.
            until, seconds = min(until, self.until), min(seconds, self.seconds)
        self._heard_at = now
        self._keep(until, min(seconds, self.handle.job.visibility_timeout_s))

    def gains(self, mark: float) -> bool:
        """Whether a heartbeat sent at `mark` would not end the claim earlier than it does."""
        return mark + self.seconds >= self.until

    def _keep(self, until: float, seconds: int) -> None:
        """The claim ends at `until`, or later; heartbeats renew it by so many seconds."""
        self.until: float = until
        self.seconds: int = seconds
        self.beat_at = until - seconds * 2 / 3
        self.cut_at = until - (CUT_S if seconds > 2 * CUT_S else seconds / 4)

    def leave(self) -> None:
        """No more heartbeats: let the claim lapse, unless it is settled before."""
        self.beat_at = self.cut_at = math.inf

    def ending(self, error: BaseException | None) -> Ending:
        """What becomes of the job if its handler ends now, with this error or without."""
        if self.cause is Cause.LOST:
            return LOST
        if self.handle.settled:
            return SETTLED
        # A handler that returns once it was cut may have swallowed its cancellation half way
        # through, and a thread was told nothing: that is no answer to it.
        if self.cause is Cause.SHUTDOWN:
            return RELEASED
        late = self.cause is Cause.TIMEOUT
        if error is None and not late:
            return ACKED
        job = self.handle.job
        hopeless = isinstance(error, (Fail, CodecError)) and not late
        if hopeless or job.attempts >= job.max_attempts:
            return Ending(outcome=Outcome.DEAD, timed_out=late)
        return Ending(outcome=Outcome.RETRIED, timed_out=late)

    @property
    def next(self) -> float:
        """When something has to be done about it next."""
        return min(self.beat_at, self.cut_at, self.ends_at)
