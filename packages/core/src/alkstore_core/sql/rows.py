"""Rows to values. A hundred claims are a hundred rows, so this is a hot place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_core.errors import CodecError
from alkstore_core.headers import decode_headers
from alkstore_core.values import (
    ConsumerPosition,
    Job,
    JobState,
    LockInfo,
    Schedule,
    StreamEvent,
    new_event,
    new_job,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = Sequence[Any]

_STATES = {
    "ready": JobState.PENDING,
    "delayed": JobState.PENDING,
    "expired": JobState.PENDING,
    "processing": JobState.PROCESSING,
    "dead": JobState.DEAD,
}


def job_from_row(row: Row) -> Job:
    """A job from the columns of `jobs` in their order, and `died_at`."""
    id_, queue, payload, headers, state, *rest = row
    if headers is not None:
        headers = decode_headers(headers)
    return new_job(id_, queue, payload, headers, _STATES[state], *rest)


def event_from_row(row: Row) -> StreamEvent:
    """An event from the columns of `events` in their order."""
    offset, stream, key, payload, headers, created_at = row
    if headers is not None:
        headers = decode_headers(headers)
    return new_event(offset, stream, key, payload, headers, created_at)


def schedule_from_row(row: Row) -> Schedule:
    """A schedule from the columns of `schedules` in their order.

    Raises:
        CodecError: somebody wrote this row by hand, or a later version did.

    """
    name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at = row
    if not isinstance(next_fire_at, int):
        raise CodecError(f"its next_fire_at is of type {type(next_fire_at).__name__}")
    return Schedule(
        name=name,
        spec=spec,
        queue=queue,
        payload=payload,
        priority=priority,
        max_attempts=max_attempts,
        expires=expires,
        headers=decode_headers(headers),
        next_fire_at=next_fire_at,
    )


def lock_from_row(row: Row) -> LockInfo:
    """A lease from the columns of `locks` in their order."""
    name, owner, token, expires_at = row
    return LockInfo(name=name, owner=owner, token=token, expires_at=expires_at)


def consumer_from_row(row: Row) -> ConsumerPosition:
    """A position from the columns of `consumers` in their order."""
    stream, consumer, offset = row
    return ConsumerPosition(stream=stream, consumer=consumer, offset=offset)
