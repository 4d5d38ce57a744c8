"""Progress by schedule: each second a job comes due, and the reporter draws the bar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from screen import SEPARATOR
from tables import COUNTED, JOBS, PROGRESS, PROJECTOR

if TYPE_CHECKING:
    from alkstore_core import StopToken, Store
    from evidence import Story
    from screen import Screen
    from supervisor import Supervisor

SCHEDULE = "census.progress"


class Reporter:
    """Consumes the progress jobs."""

    def __init__(self, store: Store, screen: Screen, story: Story, total: int) -> None:
        self._store = store
        self._screen = screen
        self._story = story
        self._total = total
        self._note = ""
        self._last = (time.monotonic(), 0)

    async def schedule(self, stop: StopToken) -> None:
        """Have a job enqueued each second, until `stop`."""
        await self._store.schedule(SCHEDULE, "@every 1s", PROGRESS, None)
        await self._store.run_schedules(stop)
        await self._store.unschedule(SCHEDULE)

    async def consume(self, supervisor: Supervisor, stop: StopToken) -> None:
        """Render each progress job, until `stop`; leave none behind."""
        queue = self._store.queue(PROGRESS)
        stopped = False
        async with queue.wakes(stop) as wakes:
            while True:
                while job := await queue.claim_one("reporter"):
                    await self._render(len(supervisor.seen))
                    await job.ack()
                    self._story.progress_jobs += 1
                if stopped:
                    return
                stopped = await wakes.recv() is None

    def advance(self, done: int) -> None:
        """Move the bar between two progress jobs."""
        self._screen.advance(done, self._total, self._note)

    async def _render(self, done: int) -> None:
        (then, before), now = self._last, time.monotonic()
        self._last = (now, done)
        stats = await self._store.queue(JOBS).stats()
        projected = await self._store.stream(COUNTED).get_offset(PROJECTOR)
        rate = (done - before) / (now - then)
        claimed = stats.processing + stats.lapsed
        self._note = SEPARATOR.join(
            (f"{rate:,.0f} files/s", f"{claimed} claimed", f"{projected:,} projected")
        )
        self._screen.heartbeat(done, self._total, self._note)
