"""A job: where it stands at a given time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from alkstore_contract.model.numbers import later

if TYPE_CHECKING:
    from typing import Self


@frozen
class Stamps:
    """What a queue handle stamps on each job that it enqueues."""

    visibility: int = 300
    attempts: int = 3
    backoff: int = 5
    retention: int | None = None


PLAIN = Stamps()
"""Of `enqueue_tx` and of schedules, which have no queue handle."""

OUTBOX = Stamps(visibility=60, attempts=5, backoff=5, retention=None)


@frozen
class Options:
    """What one enqueue asks for; times are relative to it, but for `run_at`."""

    delay: int | None = None
    run_at: int | None = None
    priority: int = 0
    max_attempts: int | None = None
    expires: int | None = None
    headers: dict[str, str] | None = None


@frozen
class Claim:
    """Who works on a job, since when, and the last second in which that counts."""

    worker: str
    since: int
    until: int


@frozen
class Job:
    """A job, live or dead. Its claim stands until somebody ends it or takes the job over."""

    id: int
    queue: str
    payload: bytes
    headers: dict[str, str] | None
    priority: int
    run_at: int
    created_at: int
    expires_at: int | None
    attempts: int
    max_attempts: int
    stamps: Stamps
    claim: Claim | None = None
    last_error: str | None = None
    died_at: int | None = None

    @classmethod
    def enqueued(
        cls, now: int, id_: int, queue: str, payload: bytes, options: Options, stamps: Stamps
    ) -> Self:
        """A job as it is enqueued: options resolved, times absolute."""
        run_at = now if options.run_at is None else options.run_at
        if options.delay is not None:
            run_at = later(now, options.delay)
        attempts = stamps.attempts if options.max_attempts is None else options.max_attempts
        return cls(
            id=id_,
            queue=queue,
            payload=payload,
            headers=options.headers,
            priority=options.priority,
            run_at=run_at,
            created_at=now,
            expires_at=None if options.expires is None else later(now, options.expires),
            attempts=0,
            max_attempts=max(attempts, 1),
            stamps=stamps,
        )

    @property
    def state(self) -> str:
        """`pending`, `processing` until somebody takes a lapsed job over, or `dead`."""
        if self.died_at is not None:
            return "dead"
        return "pending" if self.claim is None else "processing"

    def expired(self, now: int) -> bool:
        """Past its expiry: never handed out, and left where it is until a sweep."""
        return self.expires_at is not None and self.expires_at <= now

    def held(self, now: int) -> bool:
        """Under a live claim, through the second of its deadline."""
        return self.claim is not None and now <= self.claim.until

    def lapsed(self, now: int) -> bool:
        """Under a claim that is over."""
        return self.claim is not None and now > self.claim.until

    def due(self, now: int) -> bool:
        """Pending, and its time has come."""
        return self.claim is None and self.run_at <= now

    def claimable(self, now: int) -> bool:
        """Due or lapsed, and not expired."""
        return (self.due(now) or self.lapsed(now)) and not self.expired(now)

    @property
    def exhausted(self) -> bool:
        """Without attempts left."""
        return self.attempts >= self.max_attempts

    def claimed(self, now: int, worker: str) -> Job:
        """The job under a new claim, which counts as an attempt."""
        claim = Claim(worker, now, later(now, self.stamps.visibility))
        return evolve(self, attempts=self.attempts + 1, claim=claim)

    def dead(self, now: int, error: str) -> Job:
        """The job as a dead one."""
        return evolve(self, last_error=error, died_at=now)


def claim_order(job: Job) -> tuple[int, int, int]:
    """Highest priority first, then the earliest ready time, then the lowest id."""
    return (-job.priority, job.run_at, job.id)


def backoff(base: int, attempt: int) -> tuple[int, int]:
    """The shortest and the longest wait after `attempt`: 1, 2, 4 … times the base, 3600 at most."""
    if base <= 0:
        return (0, 0)
    longest = min(3600, base * 2 ** (attempt - 1))
    return (longest // 2, longest)
