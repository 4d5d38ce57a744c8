"""Wakes that travel in the database itself: notified channels, and what a watcher looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import (
    BigInteger,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
)

from alkstore_core.sql._dialect import NOW, Elements
from alkstore_core.sql._jobs import ZERO
from alkstore_core.sql.tables import READY, channels, events, jobs, locks, schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.spi import Topic
    from alkstore_core.sql.op import Op

T = TypeVar("T")

Marks = dict["Topic", int | None]
"""Topics to wake, each with a number that grows from signal to signal, if it has one."""

_channel = bindparam("channel", type_=Text)

# Replacing deletes the row and inserts another: a new `seq`, above all that ever were.
NOTIFY = (
    insert(channels)
    .prefix_with("OR REPLACE")
    .values(channel=_channel, notified_at=NOW)
    .returning(channels.c.seq)
)

# Each notify adds a row at most and looks at the two oldest, so idle ones never pile up.
FORGET_IDLE = delete(channels).where(
    channels.c.seq.in_(
        select(channels.c.seq)
        .order_by(channels.c.seq)
        .limit(literal_column("2", BigInteger))
        .offset(ZERO)
        .correlate(None)
    ),
    channels.c.notified_at < NOW - literal_column("3600", BigInteger),
)

CHANNELS_SINCE = (
    select(channels.c.seq, channels.c.channel)
    .where(channels.c.seq > bindparam("after", type_=BigInteger))
    .order_by(channels.c.seq)
)
LAST_NOTIFY = select(func.max(channels.c.seq))

_streams = Elements("streams")

STREAM_TAILS = select(
    _streams.text,
    select(func.max(events.c.offset))
    .where(events.c.stream == _streams.text)
    .correlate(_streams.table)
    .scalar_subquery(),
)

_queues = Elements("queues")

# The least ready queue from this name on is this one. A plain look for any row of it may become
# a scan past all that are not ready, when statistics say that most were.
READY_QUEUES = select(_queues.text).where(
    select(func.min(jobs.c.queue))
    .where(jobs.c.state == READY, jobs.c.queue >= _queues.text)
    .correlate(_queues.table)
    .scalar_subquery()
    == _queues.text
)

# What a scheduler waits for: a nearer boundary, a schedule more or less, a leader gone. Not the
# leader's renewals: a runner that woke itself by each of them would never sleep.
SCHEDULES_STATE = select(
    func.count(),
    func.min(schedules.c.next_fire_at),
    select(func.count())
    .select_from(locks)
    .where(locks.c.name == bindparam("leadership", type_=Text))
    .scalar_subquery(),
)


def notify(topics: Sequence[Topic]) -> Op[Marks]:
    """Note that channels were notified; `seq` is the mark."""
    marks: Marks = {}
    for topic in topics:
        ((marks[topic],),) = (yield NOTIFY, {"channel": topic.name}).rows
    yield FORGET_IDLE, {}
    return marks


def announced(
    announce: Callable[[Sequence[Topic]], Op[Marks]],
    topics: Sequence[Topic],
    op: Callable[..., Op[T]],
    *args: object,
) -> Op[tuple[T, Marks]]:
    """Run an op and, when it did something, announce `topics` in the same transaction."""
    value = yield from op(*args)
    marks = (yield from announce(topics)) if value else {}
    return value, marks
