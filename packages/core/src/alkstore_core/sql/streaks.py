"""When a writer that is never out of work leaves the lock to other processes."""

from __future__ import annotations

from typing import Final

from alkstore_core.sql.dbapi import RETRY_SECONDS

STREAK_SECONDS: Final = 0.05
"""Back-to-back work of this length has to have left the lock free for others."""

FREE_SHARE: Final = 0.25
"""So much of a streak in gaps between its groups is as good as a pause.

Whoever waits asks at random, twenty times and more in a streak: that it never hits a gap happens
once in a few hundred streaks, and the next one comes.
"""


class Streak:
    """Groups of work that follow each other closely, and the gaps between them.

    All times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._ended = 0.0
        self._free = 0.0

    def begin(self, now: float) -> None:
        """Others had the lock just now."""
        self._began = now
        self._free = 0.0

    def end_group(self, now: float) -> None:
        """The lock is free again."""
        self._ended = now

    def pause(self, now: float) -> float:
        """For how long to leave the lock alone now, before the next group."""
        gap = now - self._ended
        self._free += gap
        long = now - self._began
        if gap <= RETRY_SECONDS[1] and long <= STREAK_SECONDS:
            return 0.0
        enough = gap > RETRY_SECONDS[1] or self._free >= FREE_SHARE * long
        pause = 0.0 if enough else RETRY_SECONDS[1]
        self.begin(now + pause)
        return pause
