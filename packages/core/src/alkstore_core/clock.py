"""Time as the contract has it: whole unix seconds, and a way to wait for one of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Protocol

from alkstore_core.integers import saturating_add

_SLICE = 1.0
_SETTLE_TURNS = 5
_SETTLE_TIMEOUT = 10.0
_POLL = 0.05


class Clock(Protocol):
    """What a store can be given in place of its engine's own time."""

    def now(self) -> int:
        """Whole unix seconds, truncated. Called from any thread."""

    async def sleep_until(self, t: int) -> None:
        """Return once `now() >= t`, never before, and give other tasks a turn in any case."""


class SystemClock:
    """The host's wall clock."""

    def now(self) -> int:
        """The host's time."""
        return int(time.time())

    async def sleep_until(self, t: int) -> None:
        """Wait for wall time `t`, however far.

        Timers run on monotonic time, so a clock that is set, or a machine that slept, is
        noticed at most a second later: the wait goes in slices of a second.
        """
        await asyncio.sleep(0)
        while (remaining := t - time.time()) > 0:  # noqa: ASYNC110 - there is no event to await.
            await asyncio.sleep(min(remaining, _SLICE))


class ManualClock:
    """Time that moves only by `advance`; stores, loops and threads may share one."""

    def __init__(self, start: int = 1_700_000_000) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._sleepers: set[_Sleeper] = set()

    def now(self) -> int:
        """The time so far."""
        return self._now

    async def sleep_until(self, t: int) -> None:
        """Wait until `advance` has reached `t`. A cancelled wait leaves nothing behind."""
        sleeper = _Sleeper(t)
        with self._lock:
            if t > self._now:
                self._sleepers.add(sleeper)
            else:
                sleeper.wake()
        try:
            await sleeper.woken
        finally:
            with self._lock:
                self._sleepers.discard(sleeper)
            sleeper.resumed()
        # Whoever was due already gets no further than a turn of the loop either.
        if sleeper.report is None:
            await asyncio.sleep(0)

    async def advance(self, seconds: int) -> None:
        """Move time; returns once each sleeper that came due has run up to its next await.

        Time jumps: everybody sees the new time, earlier deadlines are woken first. Sleepers may
        live on other loops. At the end of the i64 range time stands still.

        Raises:
            ValueError: `seconds` is negative; time has not moved.
            TimeoutError: a sleeper's loop did not run for 10 real seconds; time has moved.

        """
        if seconds < 0:
            raise ValueError(f"time cannot go back: advance({seconds})")
        loop = asyncio.get_running_loop()
        with self._lock:
            self._now = saturating_add(self._now, seconds)
            due = sorted((s for s in self._sleepers if s.due <= self._now), key=_due)
            self._sleepers.difference_update(due)
            for sleeper in due:
                sleeper.report = loop, loop.create_future()
        for sleeper in due:
            sleeper.release()
        await asyncio.sleep(0)
        deadline = loop.time() + _SETTLE_TIMEOUT
        while due := [sleeper for sleeper in due if not sleeper.is_settled()]:
            if loop.time() > deadline:
                raise TimeoutError(f"{len(due)} sleepers did not run: their loop is blocked")
            # A loop that closes meanwhile reports nothing, hence the short wait.
            reports = [report[1] for sleeper in due if (report := sleeper.report)]
            await asyncio.wait(reports, timeout=_POLL)


class _Sleeper:
    """One `sleep_until`, and to whom it reports that it went on."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.loop = asyncio.get_running_loop()
        self.woken: asyncio.Future[None] = self.loop.create_future()
        self.report: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def wake(self) -> None:
        _finish(self.woken)

    def release(self) -> None:
        """Wake from any thread."""
        with contextlib.suppress(RuntimeError):  # Its loop was closed around it.
            self.loop.call_soon_threadsafe(self.wake)

    def is_settled(self) -> bool:
        """Whether it went on, or never will."""
        return self.loop.is_closed() or self.report is None or self.report[1].done()

    def resumed(self) -> None:
        """Called by the sleeper's task; what it does up to its next await comes right after."""
        if self.report is not None:
            self._count_down(_SETTLE_TURNS)

    def _count_down(self, turns: int) -> None:
        # One turn would do for the task itself; a parent that awaits it runs a few turns later.
        with contextlib.suppress(RuntimeError):  # Either loop is closed: nobody is left.
            if turns:
                self.loop.call_soon(self._count_down, turns - 1)
            elif self.report is not None:
                loop, settled = self.report
                loop.call_soon_threadsafe(_finish, settled)


def _due(sleeper: _Sleeper) -> int:
    return sleeper.due


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
