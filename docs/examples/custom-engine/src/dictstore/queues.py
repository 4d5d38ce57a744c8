# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Jobs from enqueue to their end, except dying: that is in `dead_letters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_core import Job, JobState
from alkstore_core.headers import decode_headers
from alkstore_core.integers import saturating_add
from dictstore.backlog import EXHAUSTED, UNCLAIMED, is_expired, is_live
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Claim, Topic


class QueuePart(Part):
    """What producers and workers do."""

    async def insert_jobs(
        self, queue: str, payloads: Sequence[bytes], spec: JobSpec, *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        data = await self.change()
        now = self.now()
        backlog = data.queues.change(queue)
        run_at = now if spec.run_at is None else spec.run_at
        template = Job(
            id=0,
            queue=queue,
            payload=b"",
            headers=decode_headers(spec.headers),
            state=JobState.PENDING,
            priority=spec.priority,
            run_at=run_at if spec.delay is None else saturating_add(now, spec.delay),
            created_at=now,
            expires_at=None if spec.expires is None else saturating_add(now, spec.expires),
            attempts=0,
            max_attempts=spec.max_attempts,
            visibility_timeout_s=spec.visibility_timeout_s,
            backoff_base_s=spec.backoff_base_s,
            dead_letter_retention_s=spec.dead_letter_retention_s,
            last_error=None,
            died_at=None,
            **UNCLAIMED,
        )
        jobs = [evolve(template, id=data.next("job"), payload=payload) for payload in payloads]
        for job in jobs:
            backlog.put(job, now)
        self.wake(wake)
        return [job.id for job in jobs]

    async def claim(self, queue: str, worker_id: str, limit: int) -> list[Job]:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        backlog.make_ready(now)
        claimed: list[Job] = []
        while backlog.ready and len(claimed) < limit:
            job = backlog.jobs[backlog.ready[0][-1]]
            if is_expired(job, now):
                backlog.put(job, now)
            elif job.attempts >= job.max_attempts:
                backlog.bury(job, EXHAUSTED, now)
            else:
                job = evolve(
                    job,
                    state=JobState.PROCESSING,
                    attempts=job.attempts + 1,
                    worker_id=worker_id,
                    claimed_at=now,
                    claim_expires_at=saturating_add(now, job.visibility_timeout_s),
                )
                backlog.put(job, now)
                claimed.append(job)
        return claimed

    async def ack(self, queue: str, claims: Sequence[Claim]) -> int:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        held = [job for claim in claims if (job := backlog.live(claim, now))]
        for job in held:
            backlog.drop(job)
        return len(held)

    async def ack_ids(self, queue: str, ids: Sequence[int], worker_id: str) -> int:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        jobs = [job for job_id in ids if (job := backlog.jobs.get(job_id)) and is_live(job, now)]
        held = [job for job in jobs if job.worker_id == worker_id]
        for job in held:
            backlog.drop(job)
        return len(held)

    async def requeue(
        self,
        queue: str,
        claim: Claim,
        delay: int,
        error: str | None,
        *,
        wake: Sequence[Topic] = (),
    ) -> bool:
        backlog = (await self.change()).queues.change(queue)
        now = self.now()
        job = backlog.live(claim, now)
        if job is None:
            return False
        changes = {"run_at": saturating_add(now, delay), "last_error": error, **UNCLAIMED}
        backlog.put(evolve(job, state=JobState.PENDING, **changes), now)
        self.wake(wake)
        return True

    async def extend(self, queue: str, claims: Sequence[Claim], seconds: int) -> list[int]:
        backlog = (await self.change(urgent=True)).queues.change(queue)
        now = self.now()
        held = [job for claim in claims if (job := backlog.live(claim, now))]
        for job in held:
            backlog.put(evolve(job, claim_expires_at=saturating_add(now, seconds)), now)
        return [job.id for job in held]

    async def release(
        self,
        queue: str,
        claims: Sequence[Claim],
        *,
        unseen: bool = False,
        wake: Sequence[Topic] = (),
    ) -> int:
        backlog = (await self.change(urgent=True)).queues.change(queue)
        now = self.now()
        held = [job for claim in claims if (job := backlog.held(claim))]
        held = [job for job in held if unseen or is_live(job, now)]
        for job in held:
            changes = {"attempts": job.attempts - 1, **UNCLAIMED}
            backlog.put(evolve(job, state=JobState.PENDING, **changes), now)
        if held:
            self.wake(wake)
        return len(held)

    async def delete_job(self, queue: str, job_id: int) -> bool:
        backlog = (await self.change()).queues.change(queue)
        job = backlog.jobs.get(job_id)
        if job is not None:
            backlog.drop(job)
        return job is not None
