# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Jobs that died: how they get there, what is done with them, how they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_core import JobState
from dictstore.backlog import UNCLAIMED
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core import Job
    from alkstore_core.spi import Claim, Topic


class DeadLetterPart(Part):
    """What makes jobs dead, and what is done with dead ones."""

    async def bury(self, queue: str, claim: Claim, error: str) -> bool:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        job = backlog.live(claim, now)
        if job is None:
            return False
        backlog.bury(job, error, now)
        return True

    async def sweep(self, queue: str, limit: int) -> int:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        swept = 0
        while swept < limit and backlog.expiring and backlog.expiring[0][0] <= now:
            backlog.bury(backlog.jobs[backlog.expiring[0][-1]], "expired", now)
            swept += 1
        return swept

    async def purge_retired(self, queue: str, limit: int) -> int:
        dead = (await self.change()).queues.change(queue).dead
        now = self.now()
        retired = [job.id for job in dead.values() if _is_retired(job, now)][:limit]
        for job_id in retired:
            del dead[job_id]
        return len(retired)

    async def list_dead(self, queue: str, limit: int, after_id: int) -> list[Job]:
        dead = (await self.view()).queues.view(queue).dead
        # They stand in the order in which they died.
        return [dead[job_id] for job_id in sorted(dead) if job_id > after_id][:limit]

    async def redrive(self, queue: str, job_id: int, *, wake: Sequence[Topic] = ()) -> int | None:
        data = await self.change()
        now = self.now()
        backlog = data.queues.change(queue)
        if job_id not in backlog.dead:
            return None
        fresh = evolve(
            backlog.dead.pop(job_id),
            id=data.next("job"),
            state=JobState.PENDING,
            run_at=now,
            created_at=now,
            expires_at=None,
            attempts=0,
            last_error=None,
            died_at=None,
            **UNCLAIMED,
        )
        backlog.put(fresh, now)
        self.wake(wake)
        return fresh.id

    async def purge_dead(self, queue: str, before: int | None, limit: int) -> int:
        dead = (await self.change()).queues.change(queue).dead
        purged = [job.id for job in dead.values() if before is None or _died_at(job) < before]
        for job_id in purged[:limit]:
            del dead[job_id]
        return len(purged[:limit])


def _died_at(job: Job) -> int:
    return 0 if job.died_at is None else job.died_at


def _is_retired(job: Job, now: int) -> bool:
    retention = job.dead_letter_retention_s
    return retention is not None and now - _died_at(job) > retention
