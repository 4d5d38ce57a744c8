"""The heart of a worker: keeps the claims of what runs, and tells when one is lost."""

from __future__ import annotations

import asyncio
import logging
import math
import operator
from typing import TYPE_CHECKING

from alkstore_core.errors import Closed, DatabaseError
from alkstore_core.worker.alarm import Alarm
from alkstore_core.worker.logs import event, source
from alkstore_core.worker.runs import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alkstore_core.jobs import JobHandle
    from alkstore_core.queues import JobSource
    from alkstore_core.store import Store
    from alkstore_core.worker.runs import Run

_log = logging.getLogger(__name__)

_beat_at = operator.attrgetter("beat_at")
_ends_at = operator.attrgetter("ends_at")

TRY_AGAIN_S = 0.5
"""Real seconds between heartbeats that the database refuses to take."""


class Pulse:
    """One heartbeat for all runs of one visibility timeout, at a third of it.

    A heartbeat that a handler sends itself counts: a shorter one is renewed in time, by its own
    seconds, and a longer one is not cut down.

    The heartbeat waits for the database in a task of its own, so that a database that does not
    answer cannot keep a handler going beyond its claim.
    """

    def __init__(
        self, store: Store, queue: JobSource, cut: Callable[[Run, Cause, str], None]
    ) -> None:
        self._store = store
        self._queue = queue
        self.label: str = f"queue {queue.name!r}"
        self._cut = cut
        self._runs: set[Run] = set()
        self._alarm = Alarm(store)
        self._armed = math.inf
        self._beating: asyncio.Task[None] | None = None

    @property
    def runs(self) -> set[Run]:
        """Every claim that is not settled."""
        return self._runs

    def add(self, runs: Sequence[Run]) -> None:
        """Keep these claims from now on."""
        self._runs.update(runs)
        # They begin now, so the first thing to come is a heartbeat or the end of a job's time.
        if min(map(_beat_at, runs)) < self._armed or min(map(_ends_at, runs)) < self._armed:
            self._alarm.ring()

    def extended(self, handle: JobHandle, mark: float, seconds: int) -> None:
        """A handler has sent a heartbeat of its own, at `mark`: its claim ends earlier or later."""
        for run in self._runs:
            if run.handle is handle and not math.isinf(run.beat_at):
                run.renewed(mark, seconds, self._store.mark())
                self._alarm.ring()

    def remove(self, runs: Iterable[Run]) -> None:
        """These are settled, or given up."""
        self._runs.difference_update(runs)

    async def run(self) -> None:
        """Keep going until cancelled."""
        try:
            while True:
                now = self._store.mark()
                self._end_what_is_over(now)
                if self._beating is None and any(run.beat_at <= now for run in self._runs):
                    self._beating = asyncio.get_running_loop().create_task(self._beat(now))
                    self._beating.add_done_callback(self._beaten)
                self._armed = self._next()
                await self._alarm.wait(None if math.isinf(self._armed) else self._armed)
        finally:
            if self._beating is not None:
                self._beating.cancel()

    def _next(self) -> float:
        if self._beating is None:
            return min((run.next for run in self._runs), default=math.inf)
        return min((min(run.cut_at, run.ends_at) for run in self._runs), default=math.inf)

    def _end_what_is_over(self, now: float) -> None:
        for run in tuple(self._runs):
            if run.cut_at <= now:
                run.leave()
                self._cut(run, Cause.LOST, "no heartbeat landed in time")
            elif run.ends_at <= now:
                run.ends_at = math.inf
                self._cut(run, Cause.TIMEOUT, "its time is up")

    async def _beat(self, now: float) -> None:
        due = {run.seconds for run in self._runs if run.beat_at <= now}
        for seconds in due:
            mark = self._store.mark()
            runs = [
                run
                for run in self._runs
                if run.seconds == seconds and not math.isinf(run.beat_at) and run.gains(mark)
            ]
            try:
                kept = set(await self._queue.heartbeat_batch([run.handle for run in runs], seconds))
            except Closed:
                for run in runs:
                    run.leave()
                    self._cut(run, Cause.LOST, "the store was closed")
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the heart goes on.
                told = None if isinstance(error, DatabaseError) else error
                _log.warning(
                    "%s: no heartbeat: %s",
                    *(self.label, error),
                    exc_info=told,
                    extra=event("heartbeat.refused", **source(self._queue.name), count=len(runs)),
                )
                await asyncio.sleep(TRY_AGAIN_S)
                return
            for run in runs:
                if run.handle in kept:
                    # Only ever later: a cut that was decided meanwhile stands.
                    if not math.isinf(run.beat_at):
                        run.renewed(mark, seconds, self._store.mark())
                elif run in self._runs:
                    run.leave()
                    if not run.handle.settled:
                        self._cut(run, Cause.LOST, "its heartbeat was refused")

    def _beaten(self, _: asyncio.Task[None]) -> None:
        self._beating = None
        self._alarm.ring()
