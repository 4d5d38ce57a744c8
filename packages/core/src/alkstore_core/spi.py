"""The seam: what an engine implements (a suite that certifies it is planned).

Everything above this module decides (validates, encodes, resolves options); everything below
stores. An engine gets only values that are already checked: names are legal, integers are
within i64, extents are positive, payloads are bytes, durations are seconds. Durations cross
the seam as durations, because only the engine knows what time it is.

Each primitive of a `Session` is atomic. A database fault is a `DatabaseError`; "nothing to do"
is a value. No driver exception crosses this line.
"""

from __future__ import annotations

import asyncio
import enum
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alkstore_core.clock import Clock
    from alkstore_core.jobspec import JobSpec
    from alkstore_core.values import (
        ConsumerPosition,
        Finding,
        Job,
        JobState,
        LockInfo,
        QueueStats,
        Schedule,
        StreamBounds,
        StreamEvent,
    )

TopicKind = Literal["channel", "queue", "stream", "schedules"]
NameKind = Literal["queue", "stream"]
RecordKind = Literal["jobs", "dead_jobs", "events", "consumers", "schedules"]
Scalar = str | int | bytes | None


class Topic(NamedTuple):
    """What a wake is about. A channel, a queue and a stream of one name are three topics."""

    kind: TopicKind
    name: str


class Claim(NamedTuple):
    """The one claim that made a handle: a later claim of the same job has another attempt."""

    id: int
    attempt: int


class Entry(NamedTuple):
    """An event on its way into a stream. `headers` is encoded JSON text."""

    payload: bytes
    key: str | None = None
    headers: str | None = None


class ScheduleEntry(NamedTuple):
    """A schedule on its way into the store. `every` is the interval of `spec` in seconds."""

    name: str
    spec: str
    every: int
    queue: str
    payload: bytes
    priority: int
    max_attempts: int | None
    expires: int | None
    headers: str | None


class Record(NamedTuple):
    """One stored row on its way between engines: where it stood, and every field by name."""

    position: tuple[Scalar, ...]
    fields: dict[str, Scalar]


class Session(ABC):
    """Every primitive of the store. On `Engine.auto` each call is a transaction of its own.

    `wake` names the topics to signal once the call's transaction has committed: never before
    its effects are visible, never after a rollback.
    """

    # -- queues ---------------------------------------------------------------------------

    @abstractmethod
    async def insert_jobs(
        self, queue: str, payloads: Sequence[bytes], spec: JobSpec, *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        """Store one job per payload, all with `spec`; return their ids in input order.

        Ready time: now + `spec.delay` (saturating) if given, else `spec.run_at`, else now.
        Expiry: now + `spec.expires` (saturating), else never. An id is never reused.
        """

    @abstractmethod
    async def claim(self, queue: str, worker_id: str, limit: int) -> list[Job]:
        """Hand out up to `limit` (> 0) jobs in claim order, each to exactly one caller.

        Claimable: pending and due, or processing with a lapsed claim; never past its expiry.
        A claimable job whose attempts are used up is buried with `"max attempts exceeded"`.
        The claim lasts `visibility_timeout_s` from now and adds one to `attempts`.
        """

    @abstractmethod
    async def ack(self, queue: str, claims: Sequence[Claim]) -> int:
        """Delete the jobs whose claim is one of `claims` and live; return how many."""

    @abstractmethod
    async def ack_ids(self, queue: str, ids: Sequence[int], worker_id: str) -> int:
        """Delete the jobs of `ids` that `worker_id` holds a live claim on; return how many."""

    @abstractmethod
    async def requeue(
        self,
        queue: str,
        claim: Claim,
        delay: int,
        error: str | None,
        *,
        wake: Sequence[Topic] = (),
    ) -> bool:
        """Make a live claim's job pending again, due in `delay` seconds, with `last_error`."""

    @abstractmethod
    async def bury(self, queue: str, claim: Claim, error: str) -> bool:
        """Move a live claim's job to the dead ones, with `last_error`."""

    @abstractmethod
    async def extend(self, queue: str, claims: Sequence[Claim], seconds: int) -> list[int]:
        """Let each live claim end `seconds` from now; return the ids that were extended."""

    @abstractmethod
    async def release(
        self,
        queue: str,
        claims: Sequence[Claim],
        *,
        unseen: bool = False,
        wake: Sequence[Topic] = (),
    ) -> int:
        """Give jobs back as if never claimed: pending, attempt restored; return how many.

        Live claims only, except `unseen` ones, which no caller got to see: those also after
        they lapsed, as long as nobody else claimed the job since.
        """

    @abstractmethod
    async def delete_job(self, queue: str, job_id: int) -> bool:
        """Delete a live (pending or processing) job of this queue."""

    @abstractmethod
    async def get_job(self, queue: str, job_id: int) -> Job | None:
        """The job of this queue, live or dead."""

    @abstractmethod
    async def sweep(self, queue: str, limit: int) -> int:
        """Bury up to `limit` jobs past their expiry, whatever their state, with `"expired"`."""

    @abstractmethod
    async def purge_retired(self, queue: str, limit: int) -> int:
        """Delete up to `limit` dead jobs whose age exceeds their retention."""

    @abstractmethod
    async def stats(self, queue: str) -> QueueStats:
        """Count the jobs of a queue; the counts are disjoint and taken at one moment."""

    @abstractmethod
    async def list_jobs(
        self, queue: str, state: JobState | None, limit: int, after_id: int
    ) -> list[Job]:
        """Live jobs with an id above `after_id`, by id."""

    @abstractmethod
    async def list_dead(self, queue: str, limit: int, after_id: int) -> list[Job]:
        """Dead jobs with an id above `after_id`, by id."""

    @abstractmethod
    async def redrive(self, queue: str, job_id: int, *, wake: Sequence[Topic] = ()) -> int | None:
        """Replace a dead job by a fresh one (new id, no attempts, due now, no expiry)."""

    @abstractmethod
    async def purge_dead(self, queue: str, before: int | None, limit: int) -> int:
        """Delete up to `limit` dead jobs that died before `before` (all, when `None`)."""

    @abstractmethod
    async def next_due(self, queues: Sequence[str]) -> dict[str, int]:
        """For each queue that has one: seconds until a delayed job or a lapse comes due.

        Zero or less: something is due now. Queues with nothing to wait for are left out.
        """

    # -- streams --------------------------------------------------------------------------

    @abstractmethod
    async def append(
        self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        """Append events; return their offsets, ascending, in input order, never reused."""

    @abstractmethod
    async def read(self, stream: str, after: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events with an offset above `after`, ascending.

        Never an offset while a lower one of this stream can still commit.
        """

    @abstractmethod
    async def read_from(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        """`read` from the consumer's saved offset; an unknown consumer stands at 0."""

    @abstractmethod
    async def save_offset(self, stream: str, consumer: str, offset: int) -> None:
        """Advance a consumer to `offset`; a lower offset than the saved one changes nothing."""

    @abstractmethod
    async def get_offset(self, stream: str, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""

    @abstractmethod
    async def trim(self, stream: str, horizon: int, limit: int) -> int:
        """Delete up to `limit` events with an offset <= `horizon`, lowest first."""

    @abstractmethod
    async def list_consumers(self, stream: str) -> list[ConsumerPosition]:
        """Every consumer that saved an offset, by name."""

    @abstractmethod
    async def bounds(self, stream: str) -> StreamBounds:
        """First and last stored offset and the count; zeros for an empty stream."""

    # -- locks ----------------------------------------------------------------------------

    @abstractmethod
    async def acquire(self, name: str, owner: str, ttl: int) -> int | None:
        """Take a free or lapsed lock; return its fencing token, or `None` when it is held.

        Tokens grow strictly through the whole database. The current owner gets the token it
        already holds and its lease is not refreshed.
        """

    @abstractmethod
    async def renew(self, name: str, token: int, ttl: int) -> bool:
        """Let a live lease end `ttl` seconds from now."""

    @abstractmethod
    async def release_lock(self, name: str, token: int, *, wake: Sequence[Topic] = ()) -> bool:
        """End a live lease."""

    @abstractmethod
    async def holds(self, name: str, token: int) -> bool:
        """Whether this very lease is live. In a transaction it stays so until its end."""

    @abstractmethod
    async def list_locks(self) -> list[LockInfo]:
        """Every live lease, by name."""

    # -- schedules ------------------------------------------------------------------------

    @abstractmethod
    async def put_schedule(self, entry: ScheduleEntry, *, wake: Sequence[Topic] = ()) -> Schedule:
        """Insert or update by name.

        The same `spec` keeps `next_fire_at`; a changed or new one sets it to now + `every`
        (saturating).
        """

    @abstractmethod
    async def delete_schedule(self, name: str, *, wake: Sequence[Topic] = ()) -> bool:
        """Delete a schedule."""

    @abstractmethod
    async def list_schedules(self) -> list[Schedule]:
        """Every schedule, by name."""

    @abstractmethod
    async def advance(self, name: str, expected_fire_at: int, next_fire_at: int) -> bool:
        """Compare-and-set `next_fire_at`."""

    # -- the store as a whole -------------------------------------------------------------

    @abstractmethod
    async def names(self, kind: NameKind) -> list[str]:
        """The queues (backing queues of outboxes included) or streams that hold a row."""

    @abstractmethod
    async def signal(self, topics: Sequence[Topic]) -> None:
        """Wake the receivers of `topics` after commit; forgotten on rollback."""

    @abstractmethod
    async def dump(
        self, kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int
    ) -> list[Record]:
        """Stored rows as they are, in storage order, after a position."""

    @abstractmethod
    async def load(self, kind: RecordKind, records: Sequence[Record]) -> list[int]:
        """Store dumped rows, fields kept; new ids or offsets ascend in input order.

        Returns the new ids or offsets; empty for kinds that have a natural key.
        """


class TxSession(Session):
    """A transaction: nothing is visible outside before `commit`; reads see its own writes.

    Not used by two tasks at once. Once begun, `commit` and `rollback` end before a
    cancellation goes on. After either, the session is spent.
    """

    @abstractmethod
    async def commit(self) -> None:
        """Make everything durable and visible, then signal its topics."""

    @abstractmethod
    async def rollback(self) -> None:
        """Undo everything; the writer slot and the connection are free. Idempotent.

        Core calls it after a `commit` that raised as well.
        """

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop should the transaction be lost without being ended.

        Nothing of it can be committed then, so core ends it at once instead of letting other
        writers wait for a handle that may be lost too. An engine whose transactions never get
        lost does nothing.
        """


class Fired(enum.Enum):
    """Why a subscription woke."""

    SIGNALLED = "signalled"
    RECONNECTED = "reconnected"
    CLOSED = "closed"


class Subscription(ABC):
    """One receiver's interest in one topic. A level, not a list: constant memory."""

    @abstractmethod
    async def wait(self) -> Fired:
        """Wait for a signal since attachment or since the last `wait`; `CLOSED` is final."""

    @abstractmethod
    def close(self) -> None:
        """Stop receiving; a pending `wait` returns `CLOSED`. Idempotent."""


class Signals(ABC):
    """Where wakes come from."""

    @abstractmethod
    async def subscribe(self, topic: Topic) -> Subscription:
        """Attach to a topic. Commits that were visible before this returned never wake it."""


class Engine(ABC):
    """A database and the way into it. Constructed without I/O; used from one event loop."""

    single_writer: bool
    """At most one write transaction at a time (sqlite, mem), so that core queues writers fairly."""

    busy_timeout: float
    """Seconds a write waits for its turn before it is a `DatabaseError`."""

    notify_limit: int | None
    """Largest notify payload in bytes, `None` when there is no limit."""

    clock: Clock | None
    """An injected clock, or `None` for the engine's own time."""

    auto: Session
    signals: Signals

    @abstractmethod
    async def open(self) -> None:
        """Connect, check or create the schema. On failure nothing is left behind."""

    @abstractmethod
    async def close(self) -> None:
        """Finish accepted work, give everything back. Idempotent."""

    @abstractmethod
    async def begin(self) -> TxSession:
        """Begin a transaction; on a single-writer engine the writer slot is already ours."""

    @abstractmethod
    async def now(self) -> int:
        """The time that stamps and judges everything, in whole unix seconds."""

    async def sleep(self, seconds: int) -> None:
        """Wait until `seconds` have passed on the engine's time."""
        if self.clock is None:
            await asyncio.sleep(min(max(seconds, 0), 86_400))
        else:
            await self.clock.sleep_until(self.clock.now() + seconds)

    async def diagnose(self) -> Iterable[Finding]:
        """What an operator should know about this database; nothing when all is well."""
        return ()
