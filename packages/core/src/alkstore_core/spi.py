"""The seam: what an engine implements, and `alkstore-contract` tries.

Everything above this module decides (validates, encodes, resolves options); everything below
stores. An engine gets only values that are already checked: names are legal, integers are
within i64, extents are positive, payloads are JSON in UTF-8, headers JSON text, error texts
storable, durations are seconds; no list is empty, claims and ids repeat nothing. Durations
cross the seam as durations, because only the engine knows what time it is; it reads the time
when a primitive runs, not when it was called or when its transaction began.

Each primitive of a `Session` is atomic. A database fault is a `DatabaseError`; "nothing to do"
is a value. No driver exception crosses this line.

Pieces that engines use: `hub.Hub` is a whole `Signals` for wakes within a process,
`slot.WriterSlot` a fair queue of writers, `integers.saturating_add` the sum of a time and a
duration, `headers.encode_headers` and `decode_headers` the way between a value's headers and
their text.
"""

from __future__ import annotations

import asyncio
import enum
from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

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


APART: Final[ContextVar[bool]] = ContextVar("alkstore_apart", default=False)
"""True in `run_schedules`, and in what it starts: its lease must not lapse behind other callers.

An engine whose callers share a number of connections serves it from one of its own.
"""


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

    A call that is cancelled has had its whole effect or none, and leaves the session usable;
    what a cancelled `claim` took, core gives back once it ends. On `Engine.auto` several calls
    run at once, reads wait for no transaction and see only what is committed, and each call
    lets other tasks run. A call that finds the engine closed raises `Closed`.

    `wake` names the topics to signal once the call's transaction has committed: never before
    its effects are visible, never after a rollback. All stores on the database hear of them. A
    call that changed nothing need not signal.

    A pending job has no `worker_id`, `claimed_at` and `claim_expires_at`: whatever ends a claim
    sets them to `None`. A dead job keeps those of its last claim.
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

        Claim order: `priority` descending, `run_at`, id. Claimable: pending and due, or
        processing with a lapsed claim; never past its expiry. A claimable job whose attempts
        are used up is buried with `"max attempts exceeded"`, and does not count. The claim lasts
        `visibility_timeout_s` from now (saturating) and adds one to `attempts`. It is live while
        now <= `claim_expires_at`.

        The cost must not grow with the number of jobs that wait.
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
        """Make a live claim's job pending again, due in `delay` seconds, with `last_error`.

        Priority, expiry and attempts stay.
        """

    @abstractmethod
    async def bury(self, queue: str, claim: Claim, error: str) -> bool:
        """Move a live claim's job to the dead ones, with `last_error`; it died now."""

    @abstractmethod
    async def extend(self, queue: str, claims: Sequence[Claim], seconds: int) -> list[int]:
        """Let each live claim end `seconds` from now; return the ids that were extended.

        Like `release` and `renew` it should not wait behind other writes: it has a deadline.
        """

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
        """Delete up to `limit` dead jobs that died more than their retention ago."""

    @abstractmethod
    async def stats(self, queue: str) -> QueueStats:
        """Count the jobs of a queue; the counts are disjoint and taken at one moment.

        A job under a live claim is processing, also past its expiry. Of the others those past
        their expiry are expired, whatever else they are.
        """

    @abstractmethod
    async def list_jobs(
        self, queue: str, state: JobState | None, limit: int, after_id: int
    ) -> list[Job]:
        """Live jobs with an id above `after_id`, by id; `state` is never `DEAD`."""

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

        Zero or less: something is due now. A claim lapses in the second after its
        `claim_expires_at`. Jobs that were due before the last claim, and those past their expiry,
        need not count. Queues with nothing to wait for are left out. Asked at every wake and
        once a second while somebody waits, so it has to be cheap.
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
        """Whether this very lease is live. In a transaction nobody takes it until its end."""

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
        """The queues (backing queues of outboxes included) or streams that hold a row.

        Also a queue that has only dead jobs, a stream that has only consumers' offsets.
        """

    @abstractmethod
    async def signal(self, topics: Sequence[Topic]) -> None:
        """Wake the receivers of `topics` after commit; forgotten on rollback."""

    @abstractmethod
    async def dump(
        self, kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int
    ) -> list[Record]:
        """Stored rows as they are, in storage order, after a position.

        Positions are `(id,)`, `(offset,)`, `(stream, consumer)` or `(name,)`. Fields bear the
        names of those of `Job`, `StreamEvent`, `ConsumerPosition` and `Schedule`, but without
        `id` and `offset` of a job and an event, `died_at` of a live job and `state` of a dead
        one. `headers` is JSON text, `state` `"pending"` or `"processing"`. Jobs and events
        ascend by number; texts may be in the database's own order. No rows: there are no more.
        """

    @abstractmethod
    async def load(self, kind: RecordKind, records: Sequence[Record]) -> list[int]:
        """Store dumped rows, fields kept; new ids or offsets ascend in input order.

        Returns the new ids or offsets; empty for kinds that have a natural key, where a row that
        is there already is replaced. Wakes nobody.
        """


class TxSession(Session):
    """A transaction: nothing is visible outside before `commit`; reads see its own writes.

    Core sees to it that it is not used by two tasks at once, that nothing is called on it after
    its end but `rollback`, and that a `commit` or `rollback` that has begun is not cancelled.
    Another call may be; core rolls back then. All primitives work in it, although core calls
    only those with a `*_tx` method, and for schedules and copies `holds`, `list_schedules`,
    `advance`, `delete_schedule`, `dump` and `load`.
    """

    @abstractmethod
    async def commit(self) -> None:
        """Make everything durable and visible, then signal its topics."""

    @abstractmethod
    async def rollback(self) -> None:
        """Undo everything; the writer slot and the connection are free. Idempotent.

        Core calls it after a `commit` that raised as well: whatever the commit came to, the
        transaction holds nothing any more when this returns or raises.
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
        """Wait for a signal since attachment or since the last `wait`; `CLOSED` is final.

        A wait that is cancelled loses no signal. Several signals may make one.
        """

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
    """At most one write transaction at a time (sqlite, mem), so that core queues writers fairly.

    Core does so for each store. Writers of several stores on one database meet in the engine,
    where each of them waits for `busy_timeout` at most.
    """

    busy_timeout: float
    """Seconds a write waits for its turn before it is a `DatabaseError`."""

    notify_limit: int | None
    """Largest notify payload in bytes, `None` when there is no limit."""

    clock: Clock | None
    """An injected clock, or `None` for the engine's own time."""

    path: str = ""
    """The one file that is the database, which may have other names; of others empty."""

    auto: Session
    """The session of all calls outside of transactions. Used between `open` and `close`."""

    signals: Signals
    """Where its receivers attach. Used between `open` and `close`."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, check or create the schema. On failure nothing is left behind.

        Called on the loop that will use it; again after a failure, never after `close`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish accepted work, end subscriptions, give everything back. Idempotent.

        Core has ended the transactions and the claims that were on their way.
        """

    @abstractmethod
    async def begin(self) -> TxSession:
        """Begin a transaction; on a single-writer engine this store's writer slot is ours.

        Not cancelled once it has begun; a caller who is gone has it rolled back.

        Raises:
            DatabaseError: it was not our turn within `busy_timeout`; nothing is held.

        """

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
