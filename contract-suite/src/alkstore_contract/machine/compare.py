"""What the store gave, beside what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_contract.model.jobs import Job
    from alkstore_contract.model.streams import Event

RESERVED = "__alkstore_"
OUTBOX_PREFIX = "outbox "
"""How the model calls an outbox's queue; the store's name for it is its own business."""


def expected(actual: object, wanted: object, what: str = "") -> None:
    """Both are equal and of one type.

    Raises:
        UnmetError: they differ; nothing is abridged.

    """
    if type(actual) is not type(wanted) or actual != wanted:
        told = f"{what}: " if what else ""
        raise UnmetError(f"{told}expected {wanted!r}, got {actual!r}")


def same_job(seen: Any, job: Job, what: str = "") -> None:
    """A job as it was read is the model's job.

    What the contract leaves open is not compared: the latest claim of a job that is not being
    processed, unless it never had one.
    """
    _differences(_job_seen(seen, job), _job(job), f"{what}job {job.id}")


def same_jobs(seen: Any, jobs: Iterable[Job], what: str = "") -> None:
    """The same jobs in the same order."""
    wanted = list(jobs)
    expected([job.id for job in seen], [job.id for job in wanted], f"{what}ids")
    for one, job in zip(seen, wanted, strict=True):
        same_job(one, job, what)


def _job(job: Job) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": job.id,
        "queue": job.queue,
        "payload": job.payload,
        "headers": job.headers,
        "state": job.state,
        "priority": job.priority,
        "run_at": job.run_at,
        "created_at": job.created_at,
        "expires_at": job.expires_at,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "visibility_timeout_s": job.stamps.visibility,
        "backoff_base_s": job.stamps.backoff,
        "dead_letter_retention_s": job.stamps.retention,
        "last_error": job.last_error,
        "died_at": job.died_at,
    }
    if fields["state"] == "processing" and job.claim is not None:
        fields["worker_id"] = job.claim.worker
        fields["claimed_at"] = job.claim.since
        fields["claim_expires_at"] = job.claim.until
    elif not job.attempts:
        fields |= dict.fromkeys(("worker_id", "claimed_at", "claim_expires_at"))
    return fields


def _job_seen(seen: Any, job: Job) -> dict[str, Any]:
    fields = {name: getattr(seen, name) for name in _job(job)}
    fields["state"] = str(seen.state)
    if job.queue.startswith(OUTBOX_PREFIX) and seen.queue.startswith(RESERVED):
        fields["queue"] = job.queue
    return fields


def same_events(seen: Any, events: Iterable[Event], what: str = "") -> None:
    """The same events in the same order."""
    wanted = list(events)
    expected([event.offset for event in seen], [event.offset for event in wanted], f"{what}offsets")
    for one, event in zip(seen, wanted, strict=True):
        same_event(one, event, what)


def same_event(seen: Any, event: Event, what: str = "") -> None:
    """An event as it was read is the model's event."""
    names = ("offset", "stream", "key", "payload", "headers", "created_at")
    _differences(
        {name: getattr(seen, name) for name in names},
        {name: getattr(event, name) for name in names},
        f"{what}event {event.offset}",
    )


def _differences(seen: dict[str, Any], wanted: dict[str, Any], what: str) -> None:
    for name, value in wanted.items():
        expected(seen[name], value, f"{what}, {name}")
