"""What `status` and `top` show of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from alkstore_core.cli.amounts import age, count, rate, until
from alkstore_core.cli.escaping import shown
from alkstore_core.cli.sheets import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alkstore_core import LockInfo, Schedule
    from alkstore_core.cli.looks import Look, Rates
    from alkstore_core.overview import QueueOverview, StreamOverview

_NAME: Final = Column("name", long=True, whole=True)


def board(look: Look, rates: Rates | None) -> Iterator[Sheet]:
    """Sheets of what there is; none for what there is not."""
    seen = look.seen
    queues = [queue for queue in seen.queues if queue.kind == "queue"]
    outboxes = [queue for queue in seen.queues if queue.kind == "outbox"]
    if queues:
        yield _queues("Queues", queues, rates)
    if outboxes:
        yield _queues("Outboxes", outboxes, rates)
    if seen.streams:
        yield _streams(seen.streams, rates)
        consumers = [*_consumers(seen.streams, rates)]
        if consumers:
            columns = [
                Column("consumer", long=True, whole=True),
                Column("of stream", long=True, whole=True),
                Column("offset", right=True),
                Column("lag", right=True),
            ]
            columns += [Column("lag/s", right=True)] if rates is not None else []
            yield Sheet("Consumers", columns, consumers)
    if seen.locks:
        yield locks_sheet("Locks", seen.locks, seen.at)
    if seen.schedules:
        yield schedules_sheet("Schedules", seen.schedules, seen.at)


def locks_sheet(title: str, locks: Iterable[LockInfo], now: int) -> Sheet:
    """Leases and their owners."""
    columns = [
        _NAME,
        Column("owner", long=True),
        Column("token", right=True),
        Column("lapses", right=True),
    ]
    return Sheet(
        title,
        columns,
        [(lock.name, lock.owner, str(lock.token), until(lock.expires_at, now)) for lock in locks],
    )


def schedules_sheet(title: str, schedules: Iterable[Schedule], now: int) -> Sheet:
    """Schedules and when each fires next; one whose time has passed stands out."""
    rows = []
    for schedule in schedules:
        left = schedule.next_fire_at - now
        when = Text(f"overdue {age(-left)}", "yellow") if left < 0 else Text(f"in {age(left)}")
        rows.append((_name(schedule.name), Text(schedule.spec), Text(shown(schedule.queue)), when))
    columns = [
        _NAME,
        Column("spec"),
        Column("queue", long=True, whole=True),
        Column("fires", right=True),
    ]
    return Sheet(title, columns, rows)


def _queues(title: str, queues: Iterable[QueueOverview], rates: Rates | None) -> Sheet:
    columns = [_NAME]
    names = ("ready", "delayed", "processing", "lapsed", "expired", "dead", "oldest")
    columns += [Column(name, right=True) for name in names]
    if rates is not None:
        columns += [Column("backlog/s", right=True), Column("dead/s", right=True)]
    rows = []
    for queue in queues:
        stats = queue.stats
        row = [
            _name(queue.name),
            count(stats.ready, "green"),
            count(stats.delayed),
            count(stats.processing),
            count(stats.lapsed, "yellow"),
            count(stats.expired, "yellow"),
            count(stats.dead, "red"),
            Text(age(stats.oldest_ready_age_s)),
        ]
        if rates is not None:
            row += [rate(rates.backlog(queue)), rate(rates.dead(queue))]
        rows.append(row)
    return Sheet(title, columns, rows)


def _streams(streams: Iterable[StreamOverview], rates: Rates | None) -> Sheet:
    columns = [_NAME]
    columns += [Column(name, right=True) for name in ("events", "first", "last")]
    if rates is not None:
        columns.append(Column("events/s", right=True))
    rows = []
    for stream in streams:
        bounds = stream.bounds
        row = [_name(stream.name), count(bounds.count), Text(str(bounds.first))]
        row.append(Text(str(bounds.last)))
        if rates is not None:
            row.append(rate(rates.events(stream)))
        rows.append(row)
    return Sheet("Streams", columns, rows)


def _consumers(streams: Iterable[StreamOverview], rates: Rates | None) -> Iterator[list[Text]]:
    for stream in streams:
        for consumer in stream.consumers:
            row = [_name(consumer.name), Text(shown(stream.name)), Text(str(consumer.offset))]
            row.append(count(consumer.lag, "yellow"))
            if rates is not None:
                row.append(rate(rates.lag(stream, consumer)))
            yield row


def _name(name: str) -> Text:
    return Text(shown(name), style="bold")
