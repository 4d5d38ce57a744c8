"""Queues for code that blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from alkstore_core.queues import Queue  # noqa: TC001 - so the reference knows whose it is
from alkstore_core.sync.given import collected, wrapped_handles
from alkstore_core.sync.jobs import SyncJobHandle
from alkstore_core.sync.receivers import attached_wakes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.queues import JobSource
    from alkstore_core.stop import StopToken
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.sync.receivers import SyncWakeReceiver
    from alkstore_core.values import EnqueueOpts, Job, JobState, QueueStats


class SyncJobSource:
    """A queue without `enqueue`, as `JobSource`. Each call does what the one of that name does."""

    __slots__ = ("_bridge", "_source")

    def __init__(self, bridge: Bridge, source: JobSource) -> None:
        self._bridge = bridge
        self._source = source

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._source.name

    def claim_one(self, worker_id: str) -> SyncJobHandle | None:
        """Take the best ready job, or `None`: highest priority, then ready time, then id."""
        handles = self.claim_batch(worker_id, 1)
        return handles[0] if handles else None

    def claim_batch(self, worker_id: str, n: int) -> list[SyncJobHandle]:
        """Take up to `n` ready jobs, best first; none for `n` of 0 or less.

        An interrupted call, as by a `KeyboardInterrupt`, gives its jobs back, at once or as soon
        as the database has answered. What it has returned is the caller's, also when the
        interruption comes before the caller has kept it.
        """
        bridge, source = self._bridge, self._source
        return bridge.take(
            lambda: source.claim_batch(worker_id, n),
            source.release_batch,
            lambda handles: [SyncJobHandle(bridge, handle) for handle in handles],
        )

    def ack_batch(self, handles_or_ids: Iterable[SyncJobHandle | int], worker_id: str) -> int:
        """Delete finished jobs; returns how many. Any number, in atomic pieces of 1,000."""
        given = wrapped_handles(handles_or_ids)
        return self._bridge.call(self._source.ack_batch, given, worker_id)

    def release_batch(self, handles: Iterable[SyncJobHandle]) -> int:
        """Give jobs back as if never claimed, as `SyncJobHandle.release`; returns how many."""
        return self._bridge.call(self._source.release_batch, wrapped_handles(handles))

    def heartbeat_batch(self, handles: Iterable[SyncJobHandle], extend: int) -> list[SyncJobHandle]:
        """As `SyncJobHandle.heartbeat`, for several; returns those whose claim was live, by id."""
        given = list(handles)
        wrapped = wrapped_handles(given)
        live = self._bridge.call(self._source.heartbeat_batch, wrapped, extend)
        outer = {id(handle): h for handle, h in zip(wrapped, given, strict=True)}
        return [outer[id(handle)] for handle in live]

    def cancel(self, job_id: int) -> bool:
        """Delete a live job of this queue, claimed or not; it does not interrupt its worker."""
        return self._bridge.call(self._source.cancel, job_id)

    def get_job(self, job_id: int) -> Job | None:
        """The job of this queue, live or dead, or `None`."""
        return self._bridge.call(self._source.get_job, job_id)

    def sweep_expired(self) -> int:
        """Every job past its expiry is dead, `"expired"`; returns how many."""
        return self._bridge.call(self._source.sweep_expired)

    def wakes(self, stop: StopToken | None = None) -> SyncWakeReceiver:
        """Wakes when a job may be claimable: enqueued, retried, come due, or its claim lapsed.

        Attached when this returns; use `with`, or `close` it.
        """
        return attached_wakes(self._bridge, self._source.wakes(stop))

    def stats(self) -> QueueStats:
        """How many jobs stand where, at one moment."""
        return self._bridge.call(self._source.stats)

    def jobs(
        self, state: JobState | str | None = None, limit: int = 100, after_id: int = 0
    ) -> list[Job]:
        """Up to `limit` live jobs by id, above `after_id`; `"dead"` as state lists dead ones."""
        return self._bridge.call(self._source.jobs, state, limit, after_id)

    def dead_jobs(self, limit: int = 100, after_id: int = 0) -> list[Job]:
        """Up to `limit` dead jobs by id, above `after_id`."""
        return self._bridge.call(self._source.dead_jobs, limit, after_id)

    def redrive(self, job_id: int) -> int | None:
        """Replace a dead job by a fresh one, ready now, without expiry; returns its new id."""
        return self._bridge.call(self._source.redrive, job_id)

    def purge_dead(self, before: int | None = None) -> int:
        """Delete dead jobs that died before a time, or all; returns how many."""
        return self._bridge.call(self._source.purge_dead, before)


@final
class SyncQueue(SyncJobSource):
    """A queue of one name, as `Queue`. Its options are stamped on what this handle enqueues."""

    __slots__ = ("_queue",)

    def __init__(self, bridge: Bridge, queue: Queue) -> None:
        super().__init__(bridge, queue)
        self._queue = queue

    @property
    def wrapped(self) -> Queue:
        """The asynchronous handle."""
        return self._queue

    def enqueue(self, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """The job is in the queue, committed; returns its id."""
        return self._bridge.call(self._queue.enqueue, payload, opts)

    def enqueue_many(self, payloads: Iterable[Any], opts: EnqueueOpts | None = None) -> list[int]:
        """As `enqueue`, for several payloads: all or none, one round trip, ids in input order."""
        return self._bridge.call(self._queue.enqueue_many, collected(payloads), opts)
