"""Rows to values. A hundred claims are a hundred rows, so this is a hot place."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from alkstore_core.errors import CodecError, DatabaseError
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

    from alkstore_core.sql.op import Result

    Row = Sequence[Any]

_log = logging.getLogger(__name__)

_STATES = {
    "ready": JobState.PENDING,
    "delayed": JobState.PENDING,
    "expired": JobState.PENDING,
    "processing": JobState.PROCESSING,
    "dead": JobState.DEAD,
}

# Asking the enumeration costs a fifth of what a whole job does.
_PROCESSING = JobState.PROCESSING


def ascending(result: Result, expected: int) -> list[int]:
    """Keys of inserted rows, in the order of what was inserted.

    Rows come back in any order, but their keys were given in the order of the array.

    Raises:
        DatabaseError: a trigger of somebody's kept rows from being stored.

    """
    if len(result.rows) != expected:
        raise DatabaseError(
            f"the database stored {len(result.rows)} of {expected} rows: a trigger on the table?"
        )
    return sorted(key for (key,) in result.rows)


# Both spell out every column: with the middle ones in a list they take half as long again.


def job_from_row(row: Row) -> Job:
    """A job from the columns of `jobs` in their order, and `died_at`."""
    (
        id_,
        queue,
        payload,
        headers,
        state,
        priority,
        run_at,
        created_at,
        expires_at,
        attempts,
        max_attempts,
        visibility,
        backoff,
        retention,
        worker_id,
        claimed_at,
        claim_expires_at,
        last_error,
        died_at,
    ) = row
    if headers is not None:
        headers = _headers(headers, "job", id_)
    if payload.__class__ is not bytes:
        payload = _bytes(payload)
    return new_job(
        id_,
        queue,
        payload,
        headers,
        _STATES[state],
        priority,
        run_at,
        created_at,
        expires_at,
        attempts,
        max_attempts,
        visibility,
        backoff,
        retention,
        worker_id,
        claimed_at,
        claim_expires_at,
        last_error,
        died_at,
    )


def claimed_from_row(row: Row, queue: str, worker_id: str) -> Job:
    """A claimed job, from the columns of `jobs` but for its queue, its state and its worker."""
    (
        id_,
        payload,
        headers,
        priority,
        run_at,
        created_at,
        expires_at,
        attempts,
        max_attempts,
        visibility,
        backoff,
        retention,
        claimed_at,
        claim_expires_at,
        last_error,
    ) = row
    if headers is not None:
        headers = _headers(headers, "job", id_)
    if payload.__class__ is not bytes:
        payload = _bytes(payload)
    if not (max_attempts.__class__ is visibility.__class__ is backoff.__class__ is int):
        max_attempts, visibility, backoff = map(_number, (max_attempts, visibility, backoff))
    return new_job(
        id_,
        queue,
        payload,
        headers,
        _PROCESSING,
        priority,
        run_at,
        created_at,
        expires_at,
        attempts,
        max_attempts,
        visibility,
        backoff,
        retention,
        worker_id,
        claimed_at,
        claim_expires_at,
        last_error,
        None,
    )


def event_from_row(row: Row) -> StreamEvent:
    """An event from the columns of `events` in their order."""
    offset, stream, key, payload, headers, created_at = row
    if headers is not None:
        headers = _headers(headers, "event", offset)
    if payload.__class__ is not bytes:
        payload = _bytes(payload)
    return new_event(offset, stream, key, payload, headers, created_at)


def _headers(text: Any, what: str, key: object) -> dict[str, str] | None:
    """Stored headers; metadata that somebody damaged must not keep the work from being done."""
    try:
        return decode_headers(text)
    except CodecError as error:
        _log.warning("the headers of %s %r are left out: %s", what, key, error)
        return None


def _bytes(payload: Any) -> bytes:
    """A payload that somebody wrote by hand, as text or a number."""
    return str(payload).encode(errors="surrogateescape")


def _number(value: Any) -> int:
    """A number that somebody wrote by hand as something else: what is none is 0, as in SQL."""
    return math.ceil(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0


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
        headers=None if headers is None else _headers(headers, "schedule", name),
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
