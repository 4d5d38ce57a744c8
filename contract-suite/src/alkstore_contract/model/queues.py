"""Queues: every call on jobs, as what it does to a table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from alkstore_contract.model.jobs import Job, claim_order
from alkstore_contract.model.numbers import later

if TYPE_CHECKING:
    from collections.abc import Iterable

Fence = tuple[int, int]
"""The one claim that a handle belongs to: the job's id, and which attempt it is."""


@frozen
class Stats:
    """Where the jobs of a queue stand; each is counted once."""

    ready: int
    delayed: int
    processing: int
    lapsed: int
    expired: int
    dead: int
    oldest_ready_age_s: int | None


class Queues:
    """All jobs of a database. Ids are the engine's choice, everything else is determined."""

    def __init__(self) -> None:
        self.live: dict[int, Job] = {}
        self.dead: dict[int, Job] = {}
        self.used: set[int] = set()

    def copy(self) -> Queues:
        """The same jobs; what is done to the one is not done to the other."""
        other = Queues()
        other.live, other.dead, other.used = dict(self.live), dict(self.dead), set(self.used)
        return other

    # -- what is there --------------------------------------------------------------------

    def jobs(self, queue: str) -> list[Job]:
        """The live jobs of a queue, by id."""
        return sorted((j for j in self.live.values() if j.queue == queue), key=lambda j: j.id)

    def dead_jobs(self, queue: str) -> list[Job]:
        """The dead jobs of a queue, by id."""
        return sorted((j for j in self.dead.values() if j.queue == queue), key=lambda j: j.id)

    def get(self, queue: str, id_: int) -> Job | None:
        """A job of this queue, live or dead."""
        job = self.live.get(id_) or self.dead.get(id_)
        return job if job is not None and job.queue == queue else None

    def stats(self, now: int, queue: str) -> Stats:
        """A job under a live claim is processing, also past its expiry."""
        jobs = self.jobs(queue)
        waiting = [j for j in jobs if not j.held(now) and not j.expired(now)]
        ready = [j for j in waiting if j.due(now)]
        return Stats(
            ready=len(ready),
            delayed=sum(j.claim is None and not j.due(now) for j in waiting),
            processing=sum(j.held(now) for j in jobs),
            lapsed=sum(j.lapsed(now) for j in waiting),
            expired=sum(j.expired(now) and not j.held(now) for j in jobs),
            dead=len(self.dead_jobs(queue)),
            oldest_ready_age_s=max((now - j.run_at for j in ready), default=None),
        )

    def names(self) -> set[str]:
        """The queues that hold a job, dead ones included."""
        return {job.queue for job in [*self.live.values(), *self.dead.values()]}

    # -- in and out -----------------------------------------------------------------------

    def enqueue(self, job: Job) -> None:
        """The job is in its queue; its id has never been used."""
        self.live[job.id] = job
        self.used.add(job.id)

    def claim(self, now: int, queue: str, worker: str, n: int) -> list[Job]:
        """Hand out the best `n` claimable jobs that have an attempt left."""
        takeable = [j for j in self.jobs(queue) if j.claimable(now) and not j.exhausted]
        best = sorted(takeable, key=claim_order)[: max(n, 0)]
        claimed = [job.claimed(now, worker) for job in best]
        self.live.update((job.id, job) for job in claimed)
        return claimed

    @staticmethod
    def leftover(now: int, job: Job, *, dry: bool) -> list[Job]:
        """What a claim may have made of a lapsed job that it did not hand out.

        It may have left it or made it pending. A job without attempts left is dead once a claim
        meets it, and one that runs dry, handing out fewer than it was asked for, has met all.
        """
        if job.exhausted and not job.expired(now):
            dead = job.dead(now, "max attempts exceeded")
            return [dead] if dry else [dead, job]
        return [job, evolve(job, claim=None)]

    def adopt(self, job: Job) -> None:
        """Take over what the engine chose where it may choose."""
        self.live.pop(job.id, None)
        self.dead.pop(job.id, None)
        (self.live if job.died_at is None else self.dead)[job.id] = job

    def ack(self, now: int, fence: Fence) -> bool:
        """Done: the job is deleted."""
        job = self._held(now, fence)
        return job is not None and self.live.pop(job.id) is job

    def ack_ids(self, now: int, queue: str, ids: Iterable[int], worker: str) -> int:
        """Fenced by worker, queue and deadline only; repeats and strangers do not count."""
        mine = [
            job.id
            for job in self.jobs(queue)
            if job.id in set(ids) and job.held(now) and job.claim and job.claim.worker == worker
        ]
        for id_ in mine:
            del self.live[id_]
        return len(mine)

    def heartbeat(self, now: int, fence: Fence, extend: int) -> bool:
        """The claim ends `extend` seconds from now, whatever was left of it."""
        job = self._held(now, fence)
        if job is None or job.claim is None:
            return False
        self.live[job.id] = evolve(job, claim=evolve(job.claim, until=later(now, extend)))
        return True

    def release(self, now: int, fence: Fence) -> bool:
        """As if it had not been claimed."""
        job = self._held(now, fence)
        if job is not None:
            self.live[job.id] = evolve(job, attempts=job.attempts - 1, claim=None)
        return job is not None

    def retry(self, now: int, fence: Fence, error: str | None, wait: int) -> bool:
        """Pending again in `wait` seconds; without attempts left, dead."""
        job = self._held(now, fence)
        if job is None:
            return False
        if job.exhausted:
            return self.fail(now, fence, "max attempts exceeded" if error is None else error)
        run_at = later(now, max(wait, 0))
        self.live[job.id] = evolve(job, claim=None, run_at=run_at, last_error=error)
        return True

    def fail(self, now: int, fence: Fence, error: str | None) -> bool:
        """Dead at once."""
        job = self._held(now, fence)
        if job is not None:
            self.adopt(job.dead(now, "failed" if error is None else error))
        return job is not None

    def cancel(self, queue: str, id_: int) -> bool:
        """A live job of this queue is deleted, claimed or not."""
        job = self.live.get(id_)
        return job is not None and job.queue == queue and self.live.pop(id_) is job

    # -- the dead -------------------------------------------------------------------------

    def sweep(self, now: int, queue: str) -> int:
        """Bury what is past its expiry, whatever its state; then forget what is past retention."""
        expired = [job for job in self.jobs(queue) if job.expired(now)]
        for job in expired:
            self.adopt(job.dead(now, "expired"))
        for job in self.dead_jobs(queue):
            kept = job.stamps.retention
            if kept is not None and job.died_at is not None and now - job.died_at > kept:
                del self.dead[job.id]
        return len(expired)

    def redrive(self, now: int, queue: str, id_: int, new: int) -> Job | None:
        """A dead job is replaced by a fresh one, due now and without expiry."""
        job = self.dead.get(id_)
        if job is None or job.queue != queue:
            return None
        del self.dead[id_]
        fresh = Job(
            id=new,
            queue=queue,
            payload=job.payload,
            headers=job.headers,
            priority=job.priority,
            run_at=now,
            created_at=now,
            expires_at=None,
            attempts=0,
            max_attempts=job.max_attempts,
            stamps=job.stamps,
        )
        self.enqueue(fresh)
        return fresh

    def purge(self, queue: str, before: int | None) -> int:
        """Dead jobs that died before a time are gone; `None` means all."""
        gone = [
            job.id
            for job in self.dead_jobs(queue)
            if before is None or (job.died_at is not None and job.died_at < before)
        ]
        for id_ in gone:
            del self.dead[id_]
        return len(gone)

    # -- fences ---------------------------------------------------------------------------

    def _held(self, now: int, fence: Fence) -> Job | None:
        """The job, while it is under this very claim and the claim is live."""
        job = self.live.get(fence[0])
        return job if job is not None and job.attempts == fence[1] and job.held(now) else None
