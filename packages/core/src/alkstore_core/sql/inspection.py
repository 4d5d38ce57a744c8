"""Questions about what is there: for operators, and for whoever waits for the next due job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Text, bindparam, func, select, union

from alkstore_core.sql._dialect import NOW, Elements
from alkstore_core.sql._jobs import (
    ONE,
    ZERO,
    as_json,
    expired,
    job_columns,
    lapsed,
    of_queue,
    unexpired,
    up_to,
)
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import (
    DELAYED,
    EXPIRED,
    PROCESSING,
    READY,
    consumers,
    dead_jobs,
    events,
    jobs,
)
from alkstore_core.values import JobState, QueueStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Column, ScalarSelect, Select
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import NameKind
    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job

_ready = (jobs.c.state == READY, of_queue, unexpired)
_due = (jobs.c.state == DELAYED, of_queue, jobs.c.run_at <= NOW, unexpired)


def _count(*conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).where(*conditions).scalar_subquery()


def _oldest(*conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.min(jobs.c.run_at)).where(*conditions).scalar_subquery()


# One statement, so one moment; each number comes out of one partial index.
STATS = select(
    _count(*_ready).label("ready"),
    _count(*_due).label("due"),
    _count(jobs.c.state == DELAYED, of_queue, jobs.c.run_at > NOW, unexpired).label("delayed"),
    _count(jobs.c.state == PROCESSING, of_queue, jobs.c.claim_expires_at >= NOW).label("live"),
    _count(lapsed, unexpired).label("lapsed"),
    _count(of_queue, jobs.c.state.in_([DELAYED, EXPIRED, READY]), expired).label("expired"),
    _count(lapsed, expired).label("lapsed_and_expired"),
    _count(dead_jobs.c.queue == bindparam("queue", type_=Text)).label("dead"),
    _oldest(*_ready).label("oldest_ready"),
    _oldest(*_due).label("oldest_due"),
    NOW.label("read_at"),
)

# By id, so along the table: a page costs a page where the queue is most of the table.
_listed = (
    select(*job_columns)
    .where(of_queue, jobs.c.id > bindparam("after_id", type_=BigInteger))
    .order_by(jobs.c.id)
)

LIST_JOBS = up_to("limit", _listed)
LIST_PENDING = up_to("limit", _listed.where(jobs.c.state != PROCESSING))
LIST_PROCESSING = up_to("limit", _listed.where(jobs.c.state == PROCESSING))

_queues = Elements("queues")


def _first(column: Column[int], *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return (
        select(column)
        .where(*conditions, jobs.c.queue == _queues.text, unexpired)
        .order_by(column)
        .limit(ONE)
        .offset(ZERO)
        .correlate(_queues.table)
        .scalar_subquery()
    )


NEXT_DUE = select(
    _queues.text,
    NOW,
    _first(jobs.c.run_at, jobs.c.state == DELAYED),
    _first(jobs.c.claim_expires_at, jobs.c.state == PROCESSING),
)


def _distinct(name: str, column: Column[str], *conditions: ColumnElement[bool]) -> Select[Any]:
    """The different values of an indexed column: one look-up for each, not one for each row."""
    found = select(func.min(column).label("name")).where(*conditions).cte(name, recursive=True)
    following = (
        select(func.min(column))
        .where(*conditions, column > found.c.name)
        .correlate(found)
        .scalar_subquery()
    )
    found = found.union_all(select(following).where(found.c.name.is_not(None)))
    return select(found.c.name).where(found.c.name.is_not(None))


QUEUE_NAMES = union(
    _distinct("ready", jobs.c.queue, jobs.c.state == READY),
    _distinct("delayed", jobs.c.queue, jobs.c.state == DELAYED),
    _distinct("processing", jobs.c.queue, jobs.c.state == PROCESSING),
    _distinct("expiring", jobs.c.queue, jobs.c.expires_at.is_not(None)),
    _distinct("dead", dead_jobs.c.queue),
)
STREAM_NAMES = union(
    _distinct("published", events.c.stream), _distinct("consumed", consumers.c.stream)
)


def stats(queue: str) -> Op[QueueStats]:
    """Count the jobs of a queue."""
    (row,) = (yield STATS, {"queue": queue}).rows
    ready, due, delayed, live, lapsed_, expired_, lapsed_expired, dead, *times, now = row
    oldest = min((time for time in times if time is not None), default=None)
    return QueueStats(
        ready=ready + due,
        delayed=delayed,
        processing=live,
        lapsed=lapsed_,
        expired=expired_ + lapsed_expired,
        dead=dead,
        oldest_ready_age_s=None if oldest is None else max(0, now - oldest),
    )


def list_jobs(queue: str, state: JobState | None, limit: int, after_id: int) -> Op[list[Job]]:
    """Live jobs with an id above `after_id`, by id."""
    if state is JobState.DEAD:
        return []
    if state is None:
        statement = LIST_JOBS
    else:
        statement = LIST_PROCESSING if state is JobState.PROCESSING else LIST_PENDING
    row = {"queue": queue, "limit": limit, "after_id": after_id}
    return [job_from_row(row) for row in (yield statement, row).rows]


def next_due(queues: Sequence[str]) -> Op[dict[str, int]]:
    """For each queue that has one: seconds until a delayed job or a lapse comes due."""
    rows = (yield NEXT_DUE, {"queues": as_json(queues)}).rows
    due: dict[str, int] = {}
    for queue, now, run_at, claim_expires_at in rows:
        times = [] if run_at is None else [run_at]
        if claim_expires_at is not None:
            # A claim lasts through the second of its deadline.
            times.append(claim_expires_at + 1)
        if times:
            due[queue] = min(times) - now
    return due


def names(kind: NameKind) -> Op[list[str]]:
    """The queues or streams that hold a row, by name."""
    rows = (yield QUEUE_NAMES if kind == "queue" else STREAM_NAMES, {}).rows
    return sorted(name for (name,) in rows)
