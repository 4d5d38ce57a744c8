"""What a worker holds: the jobs it has claimed and not settled yet."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

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
    handler has to go because none landed, `ends_at` when its time is up.
    """

    beat_at: float
    cut_at: float

    __slots__ = ("beat_at", "begun", "cause", "cut_at", "ends_at", "finished", "handle", "task")

    def __init__(self, handle: JobHandle, mark: float, timeout: float | None) -> None:
        self.handle: JobHandle = handle
        self.task: asyncio.Task[None] | None = None
        self.cause: Cause | None = None
        self.begun: bool = False
        self.finished: bool = False
        self.ends_at: float = math.inf if timeout is None else mark + timeout
        seconds = handle.job.visibility_timeout_s
        self.beat_at = mark + seconds / 3
        self.cut_at = mark + (seconds - CUT_S if seconds > 2 * CUT_S else seconds * 0.75)

    def renewed(self, mark: float) -> None:
        """The claim lasts its visibility timeout from `mark` on, at least."""
        later = Run(self.handle, mark, None)
        self.beat_at, self.cut_at = later.beat_at, later.cut_at

    def leave(self) -> None:
        """No more heartbeats: let the claim lapse, unless it is settled before."""
        self.beat_at = self.cut_at = math.inf

    @property
    def next(self) -> float:
        """When something has to be done about it next."""
        return min(self.beat_at, self.cut_at, self.ends_at)
