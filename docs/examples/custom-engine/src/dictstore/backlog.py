"""One queue: its jobs, each in the one place where whoever looks for it next will look."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from alkstore_core import JobState

if TYPE_CHECKING:
    from alkstore_core import Job
    from alkstore_core.spi import Claim

EXHAUSTED: Final = "max attempts exceeded"

UNCLAIMED: Final[dict[str, Any]] = {
    "worker_id": None,
    "claimed_at": None,
    "claim_expires_at": None,
}
"""What a job loses when its claim is over."""

Order = list[tuple[int, ...]]
"""Sorted keys, each of which ends with a job's id."""


class Backlog:
    """The jobs of one queue. Claims read from `ready` alone, so they cost what they hand out."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        """Live jobs; ids ascend."""
        self.dead: dict[int, Job] = {}
        self.ready: Order = []
        """Pending and due, in claim order."""
        self.delayed: Order = []
        """Pending and not due when last looked at, by `run_at`."""
        self.claimed: Order = []
        """Processing, by `claim_expires_at`."""
        self.expiring: Order = []
        """All that expire one day, by `expires_at`."""

    def copy(self) -> Backlog:
        """One that can be changed apart from this one."""
        twin = Backlog()
        for name, value in vars(self).items():
            setattr(twin, name, value.copy())
        return twin

    def put(self, job: Job, now: int) -> None:
        """Store a live job, new or changed."""
        self._displace(job.id)
        self.jobs[job.id] = job
        if job.expires_at is not None:
            insort(self.expiring, (job.expires_at, job.id))
        if job.state is JobState.PROCESSING:
            insort(self.claimed, _lapse_order(job))
        elif job.run_at > now:
            insort(self.delayed, (job.run_at, job.id))
        elif not is_expired(job, now):  # Those that are, only the sweep will ever look for.
            insort(self.ready, _claim_order(job))

    def drop(self, job: Job) -> None:
        """Delete a live job."""
        self._displace(job.id)
        del self.jobs[job.id]

    def bury(self, job: Job, error: str, now: int) -> None:
        """Make a live job a dead one."""
        self.drop(job)
        self.dead[job.id] = evolve(job, state=JobState.DEAD, last_error=error, died_at=now)

    def held(self, claim: Claim) -> Job | None:
        """The job that is under this very claim, live or lapsed."""
        job = self.jobs.get(claim.id)
        if job is None or job.state is not JobState.PROCESSING or job.attempts != claim.attempt:
            return None
        return job

    def live(self, claim: Claim, now: int) -> Job | None:
        """The job that is under this very claim, unless it has lapsed."""
        job = self.held(claim)
        return job if job is not None and is_live(job, now) else None

    def make_ready(self, now: int) -> None:
        """What came due and what lapsed is ready now, or dead if it has no attempt left."""
        while self.delayed and self.delayed[0][0] <= now:
            self.put(self.jobs[self.delayed[0][-1]], now)
        while self.claimed and self.claimed[0][0] < now:
            job = self.jobs[self.claimed[0][-1]]
            if job.attempts >= job.max_attempts and not is_expired(job, now):
                self.bury(job, EXHAUSTED, now)
            else:
                self.put(evolve(job, state=JobState.PENDING, **UNCLAIMED), now)

    def _displace(self, job_id: int) -> None:
        job = self.jobs.get(job_id)
        if job is None:
            return
        if job.expires_at is not None:
            _remove(self.expiring, (job.expires_at, job.id))
        if job.state is JobState.PROCESSING:
            _remove(self.claimed, _lapse_order(job))
        else:
            _remove(self.delayed, (job.run_at, job.id))
            _remove(self.ready, _claim_order(job))


def is_expired(job: Job, now: int) -> bool:
    """Whether a job is past its expiry."""
    return job.expires_at is not None and job.expires_at <= now


def is_live(job: Job, now: int) -> bool:
    """Whether a job is under a claim that has not lapsed; it lasts through its last second."""
    return job.state is JobState.PROCESSING and now <= deadline(job)


def deadline(job: Job) -> int:
    """The last second of a processing job's claim; a claim without one has lapsed."""
    return 0 if job.claim_expires_at is None else job.claim_expires_at


def _claim_order(job: Job) -> tuple[int, int, int]:
    return -job.priority, job.run_at, job.id


def _lapse_order(job: Job) -> tuple[int, int]:
    return deadline(job), job.id


def _remove(order: Order, key: tuple[int, ...]) -> None:
    place = bisect_left(order, key)
    if order[place : place + 1] == [key]:
        del order[place]
