"""The database as a whole, and transactions as copies of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.model.locks import Locks
from alkstore_contract.model.queues import Queues
from alkstore_contract.model.schedules import Schedules
from alkstore_contract.model.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_contract.model.jobs import Job
    from alkstore_contract.model.streams import Event


class Database:
    """Everything that is committed."""

    def __init__(self) -> None:
        self.queues: Queues = Queues()
        self.streams: Streams = Streams()
        self.locks: Locks = Locks()
        self.schedules: Schedules = Schedules()

    def copy(self) -> Database:
        """The same contents, apart."""
        other = Database()
        other.queues, other.streams = self.queues.copy(), self.streams.copy()
        other.locks, other.schedules = self.locks.copy(), self.schedules.copy()
        return other

    def deadlines(self) -> set[int]:
        """The times at which something changes by itself."""
        times: set[int] = set()
        for job in self.queues.live.values():
            times.add(job.run_at)
            if job.expires_at is not None:
                times.add(job.expires_at)
            if job.claim is not None:
                times.add(job.claim.until)
        for job in self.queues.dead.values():
            if job.died_at is not None and job.stamps.retention is not None:
                times.add(job.died_at + job.stamps.retention)
        times |= {lease.until for lease in self.locks.leases.values()}
        return times | {schedule.next_fire_at for schedule in self.schedules.all.values()}


class Transaction:
    """What a transaction wants to do. Until its commit nobody else sees any of it."""

    def __init__(self) -> None:
        self._changes: list[Callable[[Database], None]] = []
        self.jobs: list[Job] = []
        self.channels: list[str] = []
        """What its commit wakes for: jobs, and channels that it notifies."""

        self.published: dict[str, list[int]] = {}
        """The offsets that it was given, by stream."""

        self.saved: set[tuple[str, str]] = set()
        """The streams and consumers whose offset it saves."""

    def enqueue(self, job: Job) -> None:
        """The job comes with the commit."""
        self._changes.append(lambda database: database.queues.enqueue(job))
        self.jobs.append(job)

    def publish(self, event: Event) -> None:
        """The event comes with the commit."""
        self._changes.append(lambda database: database.streams.publish(event))
        self.published.setdefault(event.stream, []).append(event.offset)

    def save(self, stream: str, consumer: str, offset: int) -> None:
        """The offset is saved with the commit."""
        self._changes.append(lambda database: database.streams.save(stream, consumer, offset))
        self.saved.add((stream, consumer))

    def notify(self, channel: str) -> None:
        """The signal goes out with the commit."""
        self.channels.append(channel)

    def seen(self, database: Database) -> Database:
        """What its own reads see: a copy of what is committed, with its changes."""
        view = database.copy()
        self.commit(view)
        return view

    def commit(self, database: Database) -> None:
        """All of it; a rollback is to do nothing instead."""
        for change in self._changes:
            change(database)
