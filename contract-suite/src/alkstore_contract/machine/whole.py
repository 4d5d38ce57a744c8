"""Which steps make up which machine, and the look at everything at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from alkstore_contract.machine import sources
from alkstore_contract.machine.claiming import Claiming
from alkstore_contract.machine.compare import OUTBOX_PREFIX, expected, same_jobs
from alkstore_contract.machine.copying import Copying
from alkstore_contract.machine.delivering import Delivering
from alkstore_contract.machine.enqueuing import Enqueuing
from alkstore_contract.machine.locking import Locking
from alkstore_contract.machine.scheduling import Scheduling
from alkstore_contract.machine.streaming import STREAMS, Streaming
from alkstore_contract.machine.transacting import Transacting
from alkstore_contract.machine.waking import Waking

if TYPE_CHECKING:
    from alkstore_contract.machine.calls import Client


class _Jobs(Enqueuing):
    def finish(self) -> None:
        super().finish()
        for client in self.clients:
            self._same_jobs(client)

    def _same_jobs(self, client: Client) -> None:
        for queue in sources.NAMES:
            source = sources.source(client.store, queue)
            told = f"store {client.number}, {queue!r}, "
            live = self.look(lambda s=source: s.jobs(limit=100_000), "jobs()")  # type: ignore[misc]
            same_jobs(live, self.model.queues.jobs(queue), told)
            dead = self.look(lambda s=source: s.dead_jobs(limit=100_000), "dead_jobs()")  # type: ignore[misc]
            same_jobs(dead, self.model.queues.dead_jobs(queue), f"{told}dead ")
            self.same_stats(self.look(source.stats, "stats()"), queue)
        names = self.model.queues.names()
        queues = sorted(name for name in names if not sources.is_outbox(name))
        expected(self.look(client.store.queues, "queues()"), queues, "queues()")
        outboxes = sorted(name.removeprefix(OUTBOX_PREFIX) for name in names - set(queues))
        expected(self.look(client.store.outboxes, "outboxes()"), outboxes, "outboxes()")


class _Events(Streaming):
    def finish(self) -> None:
        super().finish()
        for client in self.clients:
            for stream in STREAMS:
                self.same_stream(client, stream)
            # Whether a consumer that saved 0 counts is open.
            certain = self.model.streams.names()
            possible = certain | {stream for stream, _ in self.model.streams.positions}
            seen = self.look(client.store.streams, "streams()")
            expected(seen, sorted(certain | (possible & set(seen))), "streams()")


class _Leases(Locking):
    def finish(self) -> None:
        super().finish()
        for client in self.clients:
            self.same_locks(client)


class _Rhythms(Scheduling):
    def finish(self) -> None:
        super().finish()
        for client in self.clients:
            self.same_schedules(client)


class Queues(_Jobs, Claiming):
    """Jobs and claims."""


class Outboxes(_Jobs, Delivering):
    """Jobs, claims and deliveries."""


class Streams(_Events, Waking):
    """Events, consumers, subscriptions and wakes."""


class Locks(_Leases):
    """Locks."""


class Schedules(_Jobs, _Rhythms):
    """Schedules, and the jobs that they enqueue."""


class Transactions(_Jobs, _Events, Transacting, Claiming):
    """Transactions, beside everything that they may get in the way of."""


class Wakes(_Jobs, _Events, Waking, Transacting, Claiming):
    """Receivers, beside everything that may wake them."""

    omits: ClassVar[frozenset[str]] = frozenset(
        {
            "ack_ids",
            "get_job",
            "get_offset",
            "heartbeat",
            "list_jobs",
            "look_at_stream",
            "purge",
            "read_from",
            "read_since",
            "read_tx",
            "save_offset",
            "save_offset_tx",
            "stats",
            "use_ended",
            "work_off",
        }
    )


class Whole(Copying, _Jobs, _Events, _Leases, _Rhythms, Waking, Transacting, Delivering):
    """All mechanisms on one database, which is copied in the end."""
