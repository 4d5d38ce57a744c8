# ruff: noqa: D102 - `spi` says what each primitive promises.
"""The seam's sessions on Postgres: the shared ones, with the ops that differ here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_core import DatabaseError
from alkstore_core.sql import dead_letters, inspection, locks, queues, schedules, transfer
from alkstore_core.sql import streams as core_streams
from alkstore_core.sql._jobs import as_json
from alkstore_core.sql.op import Driver, Mode, Op
from alkstore_core.sql.session import SqlSession, SqlTxSession
from alkstore_postgres import claims as my_claims
from alkstore_postgres import dead_letters as my_dead_letters
from alkstore_postgres import locks as my_locks
from alkstore_postgres import queues as my_queues
from alkstore_postgres import streams
from alkstore_postgres.channels import channel_of
from alkstore_postgres.forms import adapted, notify_all
from alkstore_postgres.fronts import Fronts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alkstore_core.spi import Entry, Topic, TopicKind
    from alkstore_core.sql.merging import Merge
    from alkstore_core.sql.signals import Marks
    from alkstore_core.values import Job, StreamEvent

T = TypeVar("T")

_log = logging.getLogger(__name__)

_same = adapted({})

OPS: Mapping[Callable[..., Op[Any]], Callable[..., Op[Any]]] = {
    dead_letters.bury: my_dead_letters.bury,
    dead_letters.purge_dead: my_dead_letters.purge_dead,
    dead_letters.purge_retired: my_dead_letters.purge_retired,
    dead_letters.redrive: my_dead_letters.redrive,
    dead_letters.sweep: my_dead_letters.sweep,
    locks.acquire: my_locks.acquire,
    locks.release_lock: my_locks.release_lock,
    queues.ack: my_queues.ack,
    queues.ack_ids: my_queues.ack_ids,
    queues.extend: my_queues.extend,
    queues.insert_jobs: my_queues.insert_jobs,
    queues.release: my_queues.release,
    queues.release_unseen: my_queues.release_unseen,
    queues.requeue: my_queues.requeue,
    schedules.delete_schedule: _same(schedules.delete_schedule),
    schedules.put_schedule: _same(schedules.put_schedule),
    core_streams.trim: streams.trim,
}
"""What an op of the shared SQL is here; each takes a channel to notify before its arguments."""

MERGES: Mapping[Callable[..., Op[Any]], Merge] = {
    my_queues.insert_jobs: my_queues.INSERTS,
    my_queues.ack: my_queues.ACKS,
    streams.append: streams.APPENDS,
}

STEPWISE: frozenset[Callable[..., Op[Any]]] = frozenset(
    {
        my_claims.claim,
        *OPS.values(),
        *(merge.run for merge in MERGES.values()),
        streams.append,
        streams.read,
        streams.read_from,
        core_streams.bounds,
        core_streams.get_offset,
        core_streams.list_consumers,
        core_streams.save_offset,
        dead_letters.list_dead,
        inspection.list_jobs,
        inspection.names,
        inspection.next_due,
        inspection.stats,
        locks.holds,
        locks.list_locks,
        locks.renew,
        notify_all,
        queues.delete_job,
        queues.get_job,
        schedules.advance,
        schedules.list_schedules,
        transfer.dump,
    }
)
"""Ops of one statement, and those whose statements may each commit alone."""


class _Adapting(Driver):
    """Runs the Postgres form of an op that has one."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> Awaitable[T]:
        mine = OPS.get(op)
        if mine is None:
            return self._driver.run(mode, op, *args)
        return self._driver.run(mode, mine, None, *args)

    def run_waking(
        self, mode: Mode, channel: str | None, op: Callable[..., Op[T]], *args: Any
    ) -> Awaitable[T]:
        """Run the Postgres form of an op, which notifies `channel` if it does something."""
        return self._driver.run(mode, OPS[op], channel, *args)


class PostgresSession(SqlSession):
    """Every primitive; a wake travels in the statement that it is about.

    `publishing` belongs to a transaction; without it each call is one of its own. `on_cut` hears
    of streams that held something back.
    """

    announced_kinds: frozenset[TopicKind] = frozenset({"channel", "queue", "stream", "schedules"})

    def __init__(
        self,
        schema: str,
        driver: Driver,
        fire: Callable[[Topic, int | None], None],
        *rest: Any,
        publishing: streams.Publishing | None = None,
        on_cut: Callable[[str], None] | None = None,
    ) -> None:
        self._adapting = _Adapting(driver)
        super().__init__(self._adapting, fire, *rest)
        self._schema = schema
        self._publishing = publishing
        self._on_cut = on_cut
        self._fronts = Fronts()

    def announce(self, topics: Sequence[Topic]) -> Op[Marks]:
        names = sorted({channel_of(self._schema, topic) for topic in topics})
        yield from notify_all(as_json(names))
        return {}

    async def signal(self, topics: Sequence[Topic]) -> None:
        names = sorted({channel_of(self._schema, topic) for topic in topics})
        await self._driver.run(Mode.WRITE, notify_all, as_json(names))
        for topic in topics:
            self._woke(topic, None)

    async def _change(
        self,
        wake: Sequence[Topic],
        op: Callable[..., Op[T]],
        *args: Any,
        mode: Mode = Mode.WRITE,
        mark: Callable[[T], int] | None = None,
    ) -> T:
        if len(wake) > 1:
            return await super()._change(wake, op, *args, mode=mode, mark=mark)
        channel = channel_of(self._schema, wake[0]) if wake else None
        value = await self._adapting.run_waking(mode, channel, op, *args)
        if value:
            for topic in wake:
                self._woke(topic, None)
        return value

    async def claim(self, queue: str, worker_id: str, limit: int) -> list[Job]:
        found: list[Job] = []
        arguments = (self._fronts, found, queue, worker_id, limit)
        try:
            return await self._driver.run(Mode.WRITE, my_claims.claim, *arguments)
        except DatabaseError as error:
            # What a step before the one that failed has claimed would wait for its lapse.
            taken = [job for job in found if not my_claims.is_spent(job)]
            if not taken:
                raise
            _log.warning("a claim got %d of %d jobs: %s", len(taken), limit, error)
            return sorted(taken, key=my_claims.claim_order_of)

    async def append(
        self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        arguments = (self._schema, stream, entries, self._publishing)
        channel = channel_of(self._schema, wake[0]) if wake else None
        offsets = await self._driver.run(Mode.WRITE, streams.append, channel, *arguments)
        for topic in wake:
            # Without a mark: offsets do not commit in their order.
            self._woke(topic, None)
        return offsets

    async def read(self, stream: str, after: int, limit: int) -> list[StreamEvent]:
        arguments = (self._schema, stream, after, limit, self._publishing)
        found, cut = await self._driver.run(Mode.READ, streams.read, *arguments)
        return self._seen(stream, found, cut=cut)

    async def read_from(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        arguments = (self._schema, stream, consumer, limit)
        found, cut = await self._driver.run(Mode.READ, streams.read_from, *arguments)
        return self._seen(stream, found, cut=cut)

    def _seen(self, stream: str, found: list[StreamEvent], *, cut: bool) -> list[StreamEvent]:
        if cut and self._on_cut is not None:
            self._on_cut(stream)
        return found


class PostgresTxSession(PostgresSession, SqlTxSession):
    """A transaction of ours."""
