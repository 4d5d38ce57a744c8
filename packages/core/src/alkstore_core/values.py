"""What goes in and comes out: plain frozen values, without behaviour or identity.

Nothing is checked here; options are checked where they are used. Times are whole unix seconds,
durations whole seconds.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import attrs
from attrs import field, frozen

from alkstore_core.payload import structure

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class JobState(enum.StrEnum):
    """Where a job stands. Ready and delayed jobs are both `pending`."""

    PENDING = "pending"
    PROCESSING = "processing"
    DEAD = "dead"


@frozen(kw_only=True)
class EnqueueOpts:
    """Options of one enqueue; `None` leaves it to the queue.

    `delay` (from now) wins over `run_at` (absolute). `expires` counts from now. Higher
    `priority` is claimed first. A `max_attempts` below 1 counts as 1.
    """

    delay: int | None = None
    run_at: int | None = None
    priority: int = 0
    max_attempts: int | None = None
    expires: int | None = None
    headers: dict[str, str] | None = field(default=None, hash=False)


@frozen(kw_only=True)
class QueueOpts:
    """Options of a queue handle, stamped on each job it enqueues.

    `dead_letter_retention_s` is how long a sweep keeps a dead job, `None` for ever.
    """

    visibility_timeout_s: int = 300
    max_attempts: int = 3
    backoff_base_s: int = 5
    dead_letter_retention_s: int | None = None


@frozen(kw_only=True)
class ScheduleOpts:
    """Options of the jobs that a schedule enqueues, as in `EnqueueOpts`."""

    priority: int = 0
    max_attempts: int | None = None
    expires: int | None = None
    headers: dict[str, str] | None = field(default=None, hash=False)


class _Payload:
    """`payload_as` for values that carry a payload."""

    __slots__ = ()
    payload: bytes

    @overload
    def payload_as(self, target: type[T], /) -> T: ...
    @overload
    def payload_as(self, target: Any, /) -> Any: ...
    def payload_as(self, target: Any, /) -> Any:
        """The payload as a `target`: a JSON type, attrs or data class, or `Any` as it is.

        Types must match (`1` is no `str`, `"1"` no `int`); unknown fields are ignored.

        Raises:
            CodecError: the payload is not JSON or not a `target`.

        """
        return structure(self.payload, target)


# Without a slot for weak references the layout equals a mutable twin's (`_filled`) on 3.11 too.
# Written out at each class: a type checker sees the fields of no decorator but attrs' own.
@frozen(kw_only=True, weakref_slot=False)
class Job(_Payload):
    """A job as it was when it was read; the handle, not this value, knows whether it is held.

    `run_at` is when it is or was ready. `worker_id`, `claimed_at` and `claim_expires_at` tell
    of the latest claim, `died_at` and `last_error` of its end or latest failure.
    """

    id: int
    queue: str
    payload: bytes
    headers: dict[str, str] | None = field(hash=False)
    state: JobState
    priority: int
    run_at: int
    created_at: int
    expires_at: int | None
    attempts: int
    max_attempts: int
    visibility_timeout_s: int
    backoff_base_s: int
    dead_letter_retention_s: int | None
    worker_id: str | None
    claimed_at: int | None
    claim_expires_at: int | None
    last_error: str | None
    died_at: int | None

    def standing(
        self, now: int
    ) -> Literal["ready", "delayed", "processing", "lapsed", "expired", "dead"]:
        """Where it stands at `now`, the store's time in unix seconds, as `QueueStats` counts it."""
        if self.state is JobState.DEAD:
            return "dead"
        claim = self.claim_expires_at
        if self.state is JobState.PROCESSING and claim is not None and claim >= now:
            return "processing"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        if self.state is JobState.PROCESSING:
            return "lapsed"
        return "delayed" if self.run_at > now else "ready"


@frozen(kw_only=True, weakref_slot=False)
class StreamEvent(_Payload):
    """An event of a stream. Its offset never changes and is the only order; gaps are legal."""

    offset: int
    stream: str
    key: str | None
    payload: bytes
    headers: dict[str, str] | None = field(hash=False)
    created_at: int


@frozen(kw_only=True)
class Schedule:
    """A stored schedule; `next_fire_at` is its next boundary."""

    name: str
    spec: str
    queue: str
    payload: bytes
    priority: int
    max_attempts: int | None
    expires: int | None
    headers: dict[str, str] | None = field(hash=False)
    next_fire_at: int


@frozen(kw_only=True)
class QueueStats:
    """How many jobs of a queue stand where; disjoint counts that add up to all its rows.

    `lapsed` claims are processing ones past their deadline, `expired` live jobs past their
    expiry that no sweep has moved yet. `oldest_ready_age_s` is `None` when nothing is ready.
    """

    ready: int
    delayed: int
    processing: int
    lapsed: int
    expired: int
    dead: int
    oldest_ready_age_s: int | None


@frozen(kw_only=True)
class Wake:
    """Something changed: read again. `channel` is the name that was listened to."""

    channel: str


@frozen(kw_only=True)
class StreamBounds:
    """First and last stored offset of a stream and how many events lie between; else zeros."""

    first: int
    last: int
    count: int


@frozen(kw_only=True)
class ConsumerPosition:
    """Up to where a consumer has saved its reading of a stream."""

    stream: str
    consumer: str
    offset: int


@frozen(kw_only=True)
class LockInfo:
    """A lease somebody holds; `token` is its fencing token."""

    name: str
    owner: str
    token: int
    expires_at: int


@frozen(kw_only=True)
class Finding:
    """One thing an operator should know. `code` is stable, `message` says what to do."""

    code: str
    severity: Literal["info", "warning", "error"]
    message: str


def _filled(cls: type[T]) -> Callable[..., T]:
    """A constructor that takes every field of a frozen class by position, and quickly.

    A frozen attrs class is filled field by field through `object.__setattr__`: 5.7 µs for a
    `Job` where this takes 1.0. So a mutable twin of the same layout is filled and then becomes
    the frozen class; a batch of claims pays for nothing else as much.
    """
    names = [attribute.name for attribute in attrs.fields(cast("Any", cls))]
    twin: Any = attrs.make_class(
        f"_{cls.__name__}", names, bases=cls.__bases__, slots=True, weakref_slot=False
    )

    def fill(*row: object) -> T:
        value = twin(*row)
        value.__class__ = cls
        return cast("T", value)

    return fill


new_job: Callable[..., Job] = _filled(Job)
new_event: Callable[..., StreamEvent] = _filled(StreamEvent)
