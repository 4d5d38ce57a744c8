# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Questions about what is there."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from alkstore_core import JobState, QueueStats
from dictstore.backlog import is_expired, is_live
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core import Job
    from alkstore_core.spi import NameKind
    from dictstore.backlog import Backlog, Order


class InspectionPart(Part):
    """What operators ask, and what core asks for those who wait."""

    async def get_job(self, queue: str, job_id: int) -> Job | None:
        backlog = (await self.view()).queues.view(queue)
        return backlog.jobs.get(job_id) or backlog.dead.get(job_id)

    async def list_jobs(
        self, queue: str, state: JobState | None, limit: int, after_id: int
    ) -> list[Job]:
        jobs = (await self.view()).queues.view(queue).jobs.values()
        return [job for job in jobs if job.id > after_id and state in {None, job.state}][:limit]

    async def stats(self, queue: str) -> QueueStats:
        backlog = (await self.view()).queues.view(queue)
        now = self.now()
        ready: list[Job] = []
        delayed = processing = lapsed = expired = 0
        for job in backlog.jobs.values():
            if is_live(job, now):
                processing += 1
            elif is_expired(job, now):
                expired += 1
            elif job.state is JobState.PROCESSING:
                lapsed += 1
            elif job.run_at > now:
                delayed += 1
            else:
                ready.append(job)
        return QueueStats(
            ready=len(ready),
            delayed=delayed,
            processing=processing,
            lapsed=lapsed,
            expired=expired,
            dead=len(backlog.dead),
            oldest_ready_age_s=max((now - job.run_at for job in ready), default=None),
        )

    async def next_due(self, queues: Sequence[str]) -> dict[str, int]:
        data = await self.view()
        now = self.now()
        due: dict[str, int] = {}
        for queue in queues:
            backlog = data.queues.view(queue)
            times = _first(backlog, backlog.delayed, now)
            # A claim lasts through its last second.
            times += [time + 1 for time in _first(backlog, backlog.claimed, now)]
            if times:
                due[queue] = min(times) - now
        return due

    async def names(self, kind: NameKind) -> list[str]:
        data = await self.view()
        if kind == "queue":
            return [name for name, backlog in data.queues if backlog.jobs or backlog.dead]
        return [name for name, log in data.streams if log.events or log.consumers]


def _first(backlog: Backlog, order: Order, now: int) -> list[int]:
    """The time of the first job that a claim could hand out one day, if there is one."""
    hopeful = (time for time, job_id in order if not is_expired(backlog.jobs[job_id], now))
    return list(islice(hopeful, 1))
