# ruff: noqa: D102 - `spi` says what each primitive promises.
"""The seam's sessions on a SQL database: each primitive is one op on a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_core.spi import Session, TxSession
from alkstore_core.sql import (
    claims,
    dead_letters,
    inspection,
    locks,
    queues,
    schedules,
    signals,
    streams,
    transfer,
)
from alkstore_core.sql.op import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import (
        Claim,
        Entry,
        NameKind,
        Record,
        RecordKind,
        Scalar,
        ScheduleEntry,
        Topic,
        TopicKind,
    )
    from alkstore_core.sql.op import Driver, Op
    from alkstore_core.sql.signals import Marks
    from alkstore_core.values import (
        ConsumerPosition,
        Job,
        JobState,
        LockInfo,
        QueueStats,
        Schedule,
        StreamBounds,
        StreamEvent,
    )

T = TypeVar("T")


class SqlSession(Session):
    """Every primitive, as an op on `driver`; what has committed is told to `fire`.

    An engine whose writers would hold readers up gives `reads`, a driver for those alone.

    An engine whose database carries wakes in another way than a table of channels overrides
    `announced_kinds` and `announce`.
    """

    announced_kinds: frozenset[TopicKind] = frozenset({"channel"})
    """Topics that `announce` has to hear of; the others show in the tables themselves."""

    def __init__(
        self,
        driver: Driver,
        fire: Callable[[Topic, int | None], None],
        reads: Driver | None = None,
    ) -> None:
        self._driver = driver
        self._fire = fire
        self._reads = driver if reads is None else reads

    def announce(self, topics: Sequence[Topic]) -> Op[Marks]:
        """Let the database carry the wakes of `topics`, in the op's own transaction."""
        return signals.notify(topics)

    def _woke(self, topic: Topic, mark: int | None) -> None:
        """The call's transaction has committed: wake at once those we can reach."""
        self._fire(topic, mark)

    async def _change(
        self,
        wake: Sequence[Topic],
        op: Callable[..., Op[T]],
        *args: Any,
        mode: Mode = Mode.WRITE,
        mark: Callable[[T], int] | None = None,
    ) -> T:
        """Run an op and wake `wake` when it did something; `mark` reads a mark off its value."""
        announced = [topic for topic in wake if topic.kind in self.announced_kinds]
        marks: Marks = {}
        value: T
        if announced:
            value, marks = await self._driver.run(
                mode, signals.announced, self.announce, announced, op, *args
            )
        else:
            value = await self._driver.run(mode, op, *args)
        if value:
            known = None if mark is None else mark(value)
            for topic in wake:
                self._woke(topic, marks.get(topic, known))
        return value

    # -- queues ---------------------------------------------------------------------------

    async def insert_jobs(
        self, queue: str, payloads: Sequence[bytes], spec: JobSpec, *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        return await self._change(wake, queues.insert_jobs, queue, payloads, spec)

    async def claim(self, queue: str, worker_id: str, limit: int) -> list[Job]:
        return await self._driver.run(Mode.WRITE, claims.claim, queue, worker_id, limit)

    async def ack(self, queue: str, claims: Sequence[Claim]) -> int:
        return await self._driver.run(Mode.WRITE, queues.ack, queue, claims)

    async def ack_ids(self, queue: str, ids: Sequence[int], worker_id: str) -> int:
        return await self._driver.run(Mode.WRITE, queues.ack_ids, queue, ids, worker_id)

    async def requeue(
        self,
        queue: str,
        claim: Claim,
        delay: int,
        error: str | None,
        *,
        wake: Sequence[Topic] = (),
    ) -> bool:
        return await self._change(wake, queues.requeue, queue, claim, delay, error)

    async def bury(self, queue: str, claim: Claim, error: str) -> bool:
        return await self._driver.run(Mode.WRITE, dead_letters.bury, queue, claim, error)

    async def extend(self, queue: str, claims: Sequence[Claim], seconds: int) -> list[int]:
        return await self._driver.run(Mode.URGENT, queues.extend, queue, claims, seconds)

    async def release(
        self,
        queue: str,
        claims: Sequence[Claim],
        *,
        unseen: bool = False,
        wake: Sequence[Topic] = (),
    ) -> int:
        op = queues.release_unseen if unseen else queues.release
        return await self._change(wake, op, queue, claims, mode=Mode.URGENT)

    async def delete_job(self, queue: str, job_id: int) -> bool:
        return await self._driver.run(Mode.WRITE, queues.delete_job, queue, job_id)

    async def get_job(self, queue: str, job_id: int) -> Job | None:
        return await self._reads.run(Mode.READ, queues.get_job, queue, job_id)

    async def sweep(self, queue: str, limit: int) -> int:
        return await self._driver.run(Mode.WRITE, dead_letters.sweep, queue, limit)

    async def purge_retired(self, queue: str, limit: int) -> int:
        return await self._driver.run(Mode.WRITE, dead_letters.purge_retired, queue, limit)

    async def stats(self, queue: str) -> QueueStats:
        return await self._reads.run(Mode.READ, inspection.stats, queue)

    async def list_jobs(
        self, queue: str, state: JobState | None, limit: int, after_id: int
    ) -> list[Job]:
        return await self._reads.run(Mode.READ, inspection.list_jobs, queue, state, limit, after_id)

    async def list_dead(self, queue: str, limit: int, after_id: int) -> list[Job]:
        return await self._reads.run(Mode.READ, dead_letters.list_dead, queue, limit, after_id)

    async def redrive(self, queue: str, job_id: int, *, wake: Sequence[Topic] = ()) -> int | None:
        return await self._change(wake, dead_letters.redrive, queue, job_id)

    async def purge_dead(self, queue: str, before: int | None, limit: int) -> int:
        return await self._driver.run(Mode.WRITE, dead_letters.purge_dead, queue, before, limit)

    async def next_due(self, queues: Sequence[str]) -> dict[str, int]:
        return await self._reads.run(Mode.READ, inspection.next_due, queues)

    # -- streams --------------------------------------------------------------------------

    async def append(
        self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        return await self._change(wake, streams.append, stream, entries, mark=max)

    async def read(self, stream: str, after: int, limit: int) -> list[StreamEvent]:
        return await self._reads.run(Mode.READ, streams.read, stream, after, limit)

    async def read_from(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        return await self._reads.run(Mode.READ, streams.read_from, stream, consumer, limit)

    async def save_offset(self, stream: str, consumer: str, offset: int) -> None:
        await self._driver.run(Mode.WRITE, streams.save_offset, stream, consumer, offset)

    async def get_offset(self, stream: str, consumer: str) -> int:
        return await self._reads.run(Mode.READ, streams.get_offset, stream, consumer)

    async def trim(self, stream: str, horizon: int, limit: int) -> int:
        return await self._driver.run(Mode.WRITE, streams.trim, stream, horizon, limit)

    async def list_consumers(self, stream: str) -> list[ConsumerPosition]:
        return await self._reads.run(Mode.READ, streams.list_consumers, stream)

    async def bounds(self, stream: str) -> StreamBounds:
        return await self._reads.run(Mode.READ, streams.bounds, stream)

    # -- locks ----------------------------------------------------------------------------

    async def acquire(self, name: str, owner: str, ttl: int) -> int | None:
        return await self._driver.run(Mode.WRITE, locks.acquire, name, owner, ttl)

    async def renew(self, name: str, token: int, ttl: int) -> bool:
        return await self._driver.run(Mode.URGENT, locks.renew, name, token, ttl)

    async def release_lock(self, name: str, token: int, *, wake: Sequence[Topic] = ()) -> bool:
        return await self._change(wake, locks.release_lock, name, token, mode=Mode.URGENT)

    async def holds(self, name: str, token: int) -> bool:
        return await self._reads.run(Mode.READ, locks.holds, name, token)

    async def list_locks(self) -> list[LockInfo]:
        return await self._reads.run(Mode.READ, locks.list_locks)

    # -- schedules ------------------------------------------------------------------------

    async def put_schedule(self, entry: ScheduleEntry, *, wake: Sequence[Topic] = ()) -> Schedule:
        return await self._change(wake, schedules.put_schedule, entry)

    async def delete_schedule(self, name: str, *, wake: Sequence[Topic] = ()) -> bool:
        return await self._change(wake, schedules.delete_schedule, name)

    async def list_schedules(self) -> list[Schedule]:
        return await self._reads.run(Mode.READ, schedules.list_schedules)

    async def advance(self, name: str, expected_fire_at: int, next_fire_at: int) -> bool:
        return await self._driver.run(
            Mode.WRITE, schedules.advance, name, expected_fire_at, next_fire_at
        )

    # -- the store as a whole -------------------------------------------------------------

    async def names(self, kind: NameKind) -> list[str]:
        return await self._reads.run(Mode.READ, inspection.names, kind)

    async def signal(self, topics: Sequence[Topic]) -> None:
        announced = [topic for topic in topics if topic.kind in self.announced_kinds]
        marks: Marks = {}
        if announced:
            marks = await self._driver.run(Mode.WRITE, self.announce, announced)
        for topic in topics:
            self._woke(topic, marks.get(topic))

    async def dump(
        self, kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int
    ) -> list[Record]:
        return await self._reads.run(Mode.READ, transfer.dump, kind, after, limit)

    async def load(self, kind: RecordKind, records: Sequence[Record]) -> list[int]:
        return await self._driver.run(Mode.WRITE, transfer.load, kind, records)


class SqlTxSession(SqlSession, TxSession):
    """A transaction on a connection of the engine's; `commit` and `rollback` are the engine's.

    The callables do the work and free the connection; they end whatever becomes of the caller.
    """

    def __init__(
        self,
        driver: Driver,
        fire: Callable[[Topic, int | None], None],
        connection: Any,
        commit: Callable[[], Awaitable[None]],
        rollback: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(driver, fire)
        self.connection = connection
        self._commit = commit
        self._rollback = rollback
        self._woken: dict[Topic, None] = {}
        self._spent = False
        self._on_loss: Callable[[], None] | None = None

    def _woke(self, topic: Topic, mark: int | None) -> None:  # noqa: ARG002
        # Without its mark: a savepoint that was rolled back gives its numbers out again, and a
        # receiver that had seen them would sleep through the events that get them then.
        self._woken[topic] = None

    def on_loss(self, callback: Callable[[], None]) -> None:
        self._on_loss = callback

    def lose(self) -> None:
        """The connection is gone, and the transaction with it."""
        if not self._spent and self._on_loss is not None:
            self._on_loss()

    async def commit(self) -> None:
        self._spent = True
        await self._commit()
        for topic in self._woken:
            self._fire(topic, None)

    async def rollback(self) -> None:
        if not self._spent:
            self._spent = True
            await self._rollback()
