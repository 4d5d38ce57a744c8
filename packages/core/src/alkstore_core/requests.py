"""What callers ask for, checked and encoded: the arguments of the seam's primitives.

Plain functions without I/O, shared by auto-commit calls, transaction handles and, on SQL
engines, the joined objects of both the sync and the async kind. Each returns the arguments of
one primitive of `Session`, in order; `wake` is last where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from alkstore_core.errors import PayloadTooLarge
from alkstore_core.headers import encode_headers
from alkstore_core.integers import check_i64
from alkstore_core.names import backing_queue, check_label, check_name
from alkstore_core.payload import encode_payload, encode_payloads
from alkstore_core.policy.every import parse_every
from alkstore_core.policy.options import OUTBOX, PLAIN
from alkstore_core.queues import Queue
from alkstore_core.spi import Entry, ScheduleEntry, Topic
from alkstore_core.values import ScheduleOpts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.runtime import Runtime
    from alkstore_core.values import EnqueueOpts

SCHEDULES = Topic("schedules", "")


class InsertJobs(NamedTuple):
    """Arguments of `Session.insert_jobs`. Without payloads there is nothing to do."""

    queue: str
    payloads: Sequence[bytes]
    spec: JobSpec
    wake: tuple[Topic, ...]


class Append(NamedTuple):
    """Arguments of `Session.append`. Without entries there is nothing to do."""

    stream: str
    entries: Sequence[Entry]
    wake: tuple[Topic, ...]


class Read(NamedTuple):
    """Arguments of `Session.read`. With a limit of 0 or less there is nothing to do."""

    stream: str
    after: int
    limit: int


class ReadFrom(NamedTuple):
    """Arguments of `Session.read_from`. With a limit of 0 or less there is nothing to do."""

    stream: str
    consumer: str
    limit: int


class SaveOffset(NamedTuple):
    """Arguments of `Session.save_offset`."""

    stream: str
    consumer: str
    offset: int


class GetOffset(NamedTuple):
    """Arguments of `Session.get_offset`."""

    stream: str
    consumer: str


class GetJob(NamedTuple):
    """Arguments of `Session.get_job`."""

    queue: str
    job_id: int


def enqueue(
    queue: str | Queue, payload: Any, opts: EnqueueOpts | None, runtime: Runtime
) -> InsertJobs:
    """One job, with the options of the queue's handle, or with a plain queue's defaults."""
    name, spec = _stamped(queue, opts, runtime)
    return InsertJobs(name, (encode_payload(payload),), spec, (Topic("queue", name),))


def enqueue_many(
    queue: str | Queue, payloads: Iterable[Any], opts: EnqueueOpts | None, runtime: Runtime
) -> InsertJobs:
    """As `enqueue`, for several jobs."""
    name, spec = _stamped(queue, opts, runtime)
    return InsertJobs(name, encode_payloads(payloads), spec, (Topic("queue", name),))


def _stamped(queue: str | Queue, opts: EnqueueOpts | None, runtime: Runtime) -> tuple[str, JobSpec]:
    if isinstance(queue, Queue):
        return queue.name, queue.spec(opts, runtime)
    return check_name("queue", queue), PLAIN.resolve(opts)


def outbox_enqueue(outbox: str, payload: Any, opts: EnqueueOpts | None) -> InsertJobs:
    """One job of an outbox, with an outbox's defaults."""
    queue = backing_queue(check_name("outbox", outbox))
    data = encode_payload(payload)
    return InsertJobs(queue, (data,), OUTBOX.resolve(opts), (Topic("queue", queue),))


def publish(stream: str, payload: Any, headers: dict[str, str] | None) -> Append:
    """One event without a key."""
    name = check_name("stream", stream)
    entry = Entry(encode_payload(payload), None, encode_headers(headers))
    return Append(name, (entry,), (Topic("stream", name),))


def publish_with_key(stream: str, key: str, payload: Any, headers: dict[str, str] | None) -> Append:
    """One event with a key."""
    name = check_name("stream", stream)
    label = check_label("key", key)
    entry = Entry(encode_payload(payload), label, encode_headers(headers))
    return Append(name, (entry,), (Topic("stream", name),))


def publish_many(stream: str, payloads: Iterable[Any]) -> Append:
    """Several events without a key."""
    name = check_name("stream", stream)
    entries = [Entry(data) for data in encode_payloads(payloads)]
    return Append(name, entries, (Topic("stream", name),))


def notify(channel: str, payload: Any, limit: int | None) -> tuple[Topic, ...]:
    """A signal. Its payload is checked and goes nowhere: receivers read again, from tables.

    Raises:
        PayloadTooLarge: more than `limit` bytes; nothing was sent.

    """
    topic = Topic("channel", check_name("channel", channel))
    size = len(encode_payload(payload))
    if limit is not None and size > limit:
        raise PayloadTooLarge(limit, size)
    return (topic,)


def save_offset(stream: str, consumer: str, offset: int) -> SaveOffset:
    """A checkpoint; one below 0 is as good as the 0 where unknown consumers stand."""
    name = check_name("stream", stream)
    reader = check_label("consumer", consumer)
    return SaveOffset(name, reader, max(check_i64("offset", offset), 0))


def get_offset(stream: str, consumer: str) -> GetOffset:
    """A checkpoint's address."""
    return GetOffset(check_name("stream", stream), check_label("consumer", consumer))


def get_job(queue: str, job_id: int) -> GetJob:
    """A job's address."""
    return GetJob(check_name("queue", queue), check_i64("job_id", job_id))


def read_since(stream: str, offset: int, limit: int) -> Read:
    """Events after an offset."""
    name = check_name("stream", stream)
    return Read(name, check_i64("offset", offset), check_i64("limit", limit))


def read_from_consumer(stream: str, consumer: str, limit: int) -> ReadFrom:
    """Events after a checkpoint."""
    name = check_name("stream", stream)
    return ReadFrom(name, check_label("consumer", consumer), check_i64("limit", limit))


def schedule(
    name: str, spec: str, queue: str, payload: Any, opts: ScheduleOpts | None
) -> ScheduleEntry:
    """A schedule. Both names obey the rules, so it can never fire into an outbox."""
    label = check_name("schedule", name)
    every = parse_every(spec)
    target = check_name("queue", queue)
    data = encode_payload(payload)
    resolved = PLAIN.resolve_scheduled(opts)
    given = ScheduleOpts() if opts is None else opts
    return ScheduleEntry(
        name=label,
        spec=str(spec),
        every=every,
        queue=target,
        payload=data,
        priority=resolved.priority,
        max_attempts=None if given.max_attempts is None else resolved.max_attempts,
        expires=resolved.expires,
        headers=resolved.headers,
    )
