"""What `--json` prints. Fields are added, and never renamed or removed, within a major version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from alkstore_core.cli.escaping import payload_fields

if TYPE_CHECKING:
    from alkstore_core import Job, LockInfo, Schedule, StreamEvent
    from alkstore_core.cli.looks import Look, Rates
    from alkstore_core.overview import Overview, QueueOverview, StreamOverview


def job_fields(job: Job, now: int, name: str, *, outbox: bool) -> dict[str, Any]:
    """A job under the name that people use, and all that is known of it."""
    fields = attrs.asdict(job)
    fields.update(queue=name, kind="outbox" if outbox else "queue", state=str(job.state))
    fields["standing"] = job.standing(now)
    return _with_payload(fields)


def event_fields(event: StreamEvent) -> dict[str, Any]:
    """An event."""
    return _with_payload(attrs.asdict(event))


def lock_fields(lock: LockInfo) -> dict[str, Any]:
    """A lease."""
    return attrs.asdict(lock)


def schedule_fields(schedule: Schedule) -> dict[str, Any]:
    """A schedule."""
    return _with_payload(attrs.asdict(schedule))


def status_fields(look: Look, rates: Rates | None) -> dict[str, Any]:
    """All that one look saw, and what has changed since another one."""
    seen: Overview = look.seen
    fields: dict[str, Any] = {
        "at": seen.at,
        "seconds": None if rates is None else round(rates.seconds, 3),
        "queues": [_queue_fields(queue, rates) for queue in seen.queues],
        "streams": [_stream_fields(stream, rates) for stream in seen.streams],
        "locks": [lock_fields(lock) for lock in seen.locks],
        "schedules": [schedule_fields(schedule) for schedule in seen.schedules],
    }
    return fields


def _queue_fields(queue: QueueOverview, rates: Rates | None) -> dict[str, Any]:
    fields = {"name": queue.name, "kind": queue.kind, **attrs.asdict(queue.stats)}
    if rates is not None:
        fields["backlog_per_s"] = _rounded(rates.backlog(queue))
        fields["dead_per_s"] = _rounded(rates.dead(queue))
    return fields


def _stream_fields(stream: StreamOverview, rates: Rates | None) -> dict[str, Any]:
    consumers = []
    for consumer in stream.consumers:
        fields = attrs.asdict(consumer)
        if rates is not None:
            fields["lag_per_s"] = _rounded(rates.lag(stream, consumer))
        consumers.append(fields)
    fields = {"name": stream.name, **attrs.asdict(stream.bounds), "consumers": consumers}
    if rates is not None:
        fields["events_per_s"] = _rounded(rates.events(stream))
    return fields


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _with_payload(fields: dict[str, Any]) -> dict[str, Any]:
    fields.update(payload_fields(fields.pop("payload")))
    return fields
