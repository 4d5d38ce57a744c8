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

PAUSE_SECONDS: Final = RETRY_SECONDS[1]
"""Within that everybody who waits asks for the lock."""


class Streak:
    """Groups of work that follow each other closely, and the gaps between them.

    The threads of one process may share it: they wait together, or one would take the lock in
    the pause of another. All times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._given = 0.0
        self._free = 0.0
        self._surely = True
        self._owed = False
        self._until = 0.0

    def pause(self, now: float) -> float:
        """For how long to leave the lock alone; to be asked before each try to get it."""
        if self._owed and not self._surely and now - self._given <= STREAK_SECONDS:
            self._surely = True
            self._until = now + PAUSE_SECONDS
        return max(self._until - now, 0.0)

    def take(self, now: float) -> None:
        """The lock is ours."""
        gap = now - self._given
        if gap > PAUSE_SECONDS and (self._surely or gap > STREAK_SECONDS):
            self._begin(now)
        elif self._surely:
            self._free += gap
        self._owed = False

    def give(self, now: float, *, surely: bool = True) -> None:
        """The lock is free; or, if that is not sure, it will be as soon as a COMMIT is through.

        To be told again when it is sure. If that never comes, what follows is no gap.
        """
        self._given = now
        self._surely = surely
        long = now - self._began
        if long > STREAK_SECONDS:
            self._owed = self._owed or self._free < FREE_SHARE * long
            self._begin(now)
        if self._owed and surely:
            self._until = now + PAUSE_SECONDS

    def _begin(self, now: float) -> None:
        self._began = now
        self._free = 0.0
