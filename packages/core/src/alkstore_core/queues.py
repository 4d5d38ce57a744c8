"""Queues: where jobs go in and where workers get them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

from alkstore_core.claiming import claim
from alkstore_core.completion import Attaching
from alkstore_core.errors import DatabaseError
from alkstore_core.integers import check_duration, check_i64
from alkstore_core.jobs import JobHandle
from alkstore_core.names import check_label
from alkstore_core.payload import encode_payload, encode_payloads
from alkstore_core.spi import Topic
from alkstore_core.values import JobState
from alkstore_core.wakes import WakeReceiver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.policy.options import OptionResolver
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Claim
    from alkstore_core.stop import StopToken
    from alkstore_core.values import EnqueueOpts, Job, QueueStats

CHUNK: Final = 1000
"""Long work goes in pieces of this many rows, so that heartbeats come in between."""

MAX_CLAIM: Final = 100_000
"""The most jobs of one `claim_batch`: "all there are" must not mean all of ten million."""


class JobSource:
    """A queue without `enqueue`: all that workers and operators need. See `Queue`.

    Calls raise `DatabaseError` when the database refuses or a number is not an i64, and
    `Closed` when the store is not open.
    """

    __slots__ = ("_name", "_runtime", "_wake")

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._name = name
        self._wake = (Topic("queue", name),)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    async def claim_one(self, worker_id: str) -> JobHandle | None:
        """Take the best ready job, or `None`: highest priority, then ready time, then id.

        Each claim counts as an attempt and lasts the job's visibility timeout. A cancelled call
        leaves no job claimed.

        Raises:
            InvalidName: the worker id is not legal.

        """
        handles = await self.claim_batch(worker_id, 1)
        return handles[0] if handles else None

    async def claim_batch(self, worker_id: str, n: int) -> list[JobHandle]:
        """Take up to `n` ready jobs, best first; none for `n` of 0 or less.

        One call takes at most 100,000.

        Raises:
            InvalidName: the worker id is not legal.

        """
        runtime = self._runtime
        worker = check_label("worker id", worker_id)
        limit = min(check_i64("n", n), MAX_CLAIM)
        if limit > 0 and runtime.slot.taken:
            await runtime.turn("claim")
        session = runtime.session()
        if limit <= 0:
            return []
        jobs = await claim(runtime, session, self._wake[0], worker, limit)
        return [JobHandle(runtime, job) for job in jobs]

    async def ack_batch(self, handles_or_ids: Iterable[JobHandle | int], worker_id: str) -> int:
        """Delete finished jobs; returns how many. Any number, in atomic pieces of 1,000.

        Handles count while their own claim is live. Bare ids are weaker: they count while
        `worker_id` holds any live claim on the job, also a later one. What is not claimed,
        settled, repeated or of another queue is ignored.

        Raises:
            InvalidName: the worker id is not legal.

        """
        worker = check_label("worker id", worker_id)
        handles: dict[Claim, JobHandle] = {}
        ids: dict[int, None] = {}
        for item in handles_or_ids:
            if not isinstance(item, JobHandle):
                ids[check_i64("job id", item)] = None
            elif item.may_settle(self._runtime, self._name):
                handles[item.claim] = item
        self._runtime.session()
        acked = 0
        claims = sorted(handles)
        for start in range(0, len(claims), CHUNK):
            chunk = claims[start : start + CHUNK]
            if self._runtime.slot.taken:
                await self._runtime.turn("ack_batch")
            acked += await self._runtime.session().ack(self._name, chunk)
            for settled in chunk:
                handles[settled].mark_settled()
        numbers = sorted(ids)
        for start in range(0, len(numbers), CHUNK):
            if self._runtime.slot.taken:
                await self._runtime.turn("ack_batch")
            acked += await self._runtime.session().ack_ids(
                self._name, numbers[start : start + CHUNK], worker
            )
        return acked

    async def release_batch(self, handles: Iterable[JobHandle]) -> int:
        """Give jobs back as if never claimed, as `JobHandle.release`; returns how many.

        An error in the midst settles the handles that were on their way, not the others.
        """
        wanted: dict[Claim, JobHandle] = {}
        for item in handles:
            handle = _handle(item, "release_batch")
            if handle.may_settle(self._runtime, self._name):
                wanted[handle.claim] = handle
        self._runtime.session()
        released = 0
        claims = sorted(wanted)
        for start in range(0, len(claims), CHUNK):
            chunk = claims[start : start + CHUNK]
            if self._runtime.slot.taken:
                await self._runtime.turn("release_batch")
            session = self._runtime.session()
            for settled in chunk:
                wanted[settled].mark_settled()
            released += await session.release(self._name, chunk, wake=self._wake)
        return released

    async def heartbeat_batch(self, handles: Iterable[JobHandle], extend: int) -> list[JobHandle]:
        """As `JobHandle.heartbeat`, for several; returns those whose claim was live, by id.

        One round trip for each 1,000 of them.
        """
        seconds = check_duration("extend", extend)
        wanted: dict[Claim, JobHandle] = {}
        for item in handles:
            handle = _handle(item, "heartbeat_batch")
            if handle.may_settle(self._runtime, self._name):
                wanted[handle.claim] = handle
        self._runtime.session()
        live: list[JobHandle] = []
        # Of several claims of one job the last alone may be live, and it is told by the job's id.
        claims = list({claim.id: claim for claim in sorted(wanted)}.values())
        for start in range(0, len(claims), CHUNK):
            chunk = claims[start : start + CHUNK]
            if self._runtime.slot.taken:
                await self._runtime.turn("heartbeat_batch", urgent=True)
            extended = set(await self._runtime.session().extend(self._name, chunk, seconds))
            live += [wanted[claim] for claim in chunk if claim.id in extended]
        return live

    async def cancel(self, job_id: int) -> bool:
        """Delete a live job of this queue, claimed or not; it does not interrupt its worker."""
        number = check_i64("job_id", job_id)
        if self._runtime.slot.taken:
            await self._runtime.turn("cancel")
        return await self._runtime.session().delete_job(self._name, number)

    async def get_job(self, job_id: int) -> Job | None:
        """The job of this queue, live or dead, or `None`."""
        return await self._runtime.session().get_job(self._name, check_i64("job_id", job_id))

    async def sweep_expired(self) -> int:
        """Every job past its expiry is dead, `"expired"`; returns how many.

        Then dead jobs older than their retention are deleted. Nothing sweeps unless you call
        this, for each queue, as often as it matters. Works in atomic pieces of 1,000.
        """
        moved = await self._sweep()
        while await self._purge_retired() == CHUNK:
            pass
        return moved

    def wakes(self, stop: StopToken | None = None) -> Attaching[WakeReceiver]:
        """Wakes when a job may be claimable: enqueued, retried, come due, or its claim lapsed.

        `await` it or use `async with`; attached when that returns. `stop` ends the receiver.
        """

        async def attach() -> WakeReceiver:
            self._runtime.session()
            subscription = await self._runtime.queue_wakes.attach_queue(self._name)
            return WakeReceiver(self._runtime, subscription, stop, self._name)

        return Attaching(attach)

    async def stats(self) -> QueueStats:
        """How many jobs stand where, at one moment."""
        return await self._runtime.session().stats(self._name)

    async def jobs(
        self, state: JobState | str | None = None, limit: int = 100, after_id: int = 0
    ) -> list[Job]:
        """Up to `limit` live jobs by id, above `after_id`; `"dead"` as state lists dead ones.

        Raises:
            DatabaseError: `state` is no `JobState`, or as everywhere.

        """
        wanted = None if state is None else _state(state)
        if wanted is JobState.DEAD:
            return await self.dead_jobs(limit, after_id)
        extent = check_i64("limit", limit)
        after = check_i64("after_id", after_id)
        session = self._runtime.session()
        return await session.list_jobs(self._name, wanted, extent, after) if extent > 0 else []

    async def dead_jobs(self, limit: int = 100, after_id: int = 0) -> list[Job]:
        """Up to `limit` dead jobs by id, above `after_id`."""
        extent = check_i64("limit", limit)
        after = check_i64("after_id", after_id)
        session = self._runtime.session()
        return await session.list_dead(self._name, extent, after) if extent > 0 else []

    async def redrive(self, job_id: int) -> int | None:
        """Replace a dead job by a fresh one, ready now, without expiry; returns its new id.

        `None` when this queue has no such dead job.
        """
        number = check_i64("job_id", job_id)
        if self._runtime.slot.taken:
            await self._runtime.turn("redrive")
        return await self._runtime.session().redrive(self._name, number, wake=self._wake)

    async def purge_dead(self, before: int | None = None) -> int:
        """Delete dead jobs that died before a time, or all; returns how many.

        Works in atomic pieces of 1,000.
        """
        horizon = None if before is None else check_i64("before", before)
        purged = 0
        while True:
            if self._runtime.slot.taken:
                await self._runtime.turn("purge_dead")
            count = await self._runtime.session().purge_dead(self._name, horizon, CHUNK)
            purged += count
            if count < CHUNK:
                return purged

    async def _sweep(self) -> int:
        moved = 0
        while True:
            if self._runtime.slot.taken:
                await self._runtime.turn("sweep_expired")
            count = await self._runtime.session().sweep(self._name, CHUNK)
            moved += count
            if count < CHUNK:
                return moved

    async def _purge_retired(self) -> int:
        if self._runtime.slot.taken:
            await self._runtime.turn("sweep_expired")
        return await self._runtime.session().purge_retired(self._name, CHUNK)


@final
class Queue(JobSource):
    """A queue of one name. Its options are stamped on the jobs that this handle enqueues.

    In a transaction, `tx.enqueue_tx(queue, payload)` does the same.
    """

    __slots__ = ("_resolver", "_spec")

    def __init__(self, runtime: Runtime, name: str, resolver: OptionResolver) -> None:
        super().__init__(runtime, name)
        self._resolver = resolver
        self._spec = resolver.resolve()

    async def enqueue(self, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """The job is in the queue, committed; returns its id.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        data = encode_payload(payload)
        runtime = self._runtime
        spec = self.spec(opts, runtime)
        if runtime.slot.taken:
            await runtime.turn("enqueue", "enqueue_tx")
        session = runtime.session()
        return (await session.insert_jobs(self._name, (data,), spec, wake=self._wake))[0]

    async def enqueue_many(
        self, payloads: Iterable[Any], opts: EnqueueOpts | None = None
    ) -> list[int]:
        """As `enqueue`, for several payloads: all or none, one round trip, ids in input order.

        Raises:
            CodecError: a payload is not JSON, or the headers are not storable.

        """
        data = encode_payloads(payloads)
        runtime = self._runtime
        spec = self.spec(opts, runtime)
        if runtime.slot.taken:
            await runtime.turn("enqueue_many", "enqueue_many_tx")
        session = runtime.session()
        if not data:
            return []
        return await session.insert_jobs(self._name, data, spec, wake=self._wake)

    def spec(self, opts: EnqueueOpts | None, runtime: Runtime) -> JobSpec:
        """What is stored with a job that this handle enqueues, in a store of that runtime.

        Raises:
            DatabaseError: that is another store than the handle's, or an option is not an i64.
            CodecError: the headers are not storable.

        """
        if runtime is not self._runtime:
            raise DatabaseError(
                f"queue {self._name!r} is a handle of another store than the transaction: pass "
                "its name, or a handle of this one"
            )
        return self._spec if opts is None else self._resolver.resolve(opts)


class Wrapper(Protocol):
    """A queue's handle for code that blocks."""

    @property
    def wrapped(self) -> Queue:
        """The asynchronous handle."""


def unwrapped(queue: str | Queue | Wrapper) -> str | Queue:
    """The asynchronous handle of a blocking one; what is none stays as it is."""
    if isinstance(queue, (str, Queue)):
        return queue
    return cast("str | Queue", getattr(queue, "wrapped", queue))


def _handle(item: object, call: str) -> JobHandle:
    if isinstance(item, JobHandle):
        return item
    detail = f"{call} takes job handles, not {type(item).__name__}"
    raise DatabaseError(detail) from TypeError(detail)


def _state(state: JobState | str) -> JobState:
    try:
        return JobState(state)
    except ValueError as error:
        raise DatabaseError("state must be 'pending', 'processing', 'dead' or None") from error
