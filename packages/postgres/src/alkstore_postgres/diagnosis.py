"""What an operator should know about a database: who holds readers, vacuum or wakes up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    DateTime,
    Float,
    Text,
    cast,
    column,
    extract,
    func,
    literal_column,
    select,
    table,
)

from alkstore_core import Finding
from alkstore_core.sql import inspection
from alkstore_postgres.streams import notes, pg_locks, stream_of_note, unsigned_key

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.sql.op import Op

LONG: Final = 60
"""Seconds. A transaction that publishes is open for moments."""

VERY_LONG: Final = 600
"""Seconds, after which the rows that a snapshot keeps from being vacuumed begin to tell."""

FULL: Final = 0.25
"""Of the server's queue of notifications. It is as good as empty where nobody is stuck."""

_sessions = table(
    "pg_stat_activity",
    *(column(name) for name in ("pid", "application_name", "state", "backend_xmin", "datname")),
    column("backend_type", Text),
    column("xact_start", DateTime),
)
_age: ColumnElement[Any] = extract(
    "epoch", func.clock_timestamp(type_=DateTime) - _sessions.c.xact_start
)
_open_for: ColumnElement[int] = cast(func.floor(_age), BigInteger)
_who = (
    _sessions.c.pid,
    func.coalesce(cast(_sessions.c.application_name, Text), literal_column("''")),
    func.coalesce(cast(_sessions.c.state, Text), literal_column("'unknown'")),
    _open_for,
)

NOTES = (
    select(stream_of_note, *_who)
    .join_from(pg_locks, _sessions, pg_locks.c.pid == _sessions.c.pid)
    .where(*notes, _open_for >= literal_column(str(LONG)))
)

SNAPSHOTS = select(*_who).where(
    _sessions.c.datname == func.current_database(),
    _sessions.c.backend_xmin.is_not(None),
    # Vacuums keep nothing from each other, however long they take.
    _sessions.c.backend_type != literal_column("'autovacuum worker'", Text),
    _open_for >= literal_column(str(VERY_LONG)),
)

QUEUE = select(func.pg_notification_queue_usage(type_=Float))


def diagnose(schema: str) -> Op[list[Finding]]:
    """Findings; none when all is well. The role sees of others' sessions what it may."""
    findings: list[Finding] = []
    streams = yield from inspection.names("stream")
    names = {unsigned_key(schema, stream): stream for stream in streams}
    for key, *who in sorted((yield NOTES, {}).rows):
        if key in names:
            findings.append(_held(names[key], *who))
    findings += [_old(*who) for who in (yield SNAPSHOTS, {}).rows]
    ((usage,),) = (yield QUEUE, {}).rows
    if usage > FULL:
        findings.append(
            Finding(
                code="postgres.notify.queue",
                severity="error",
                message=(
                    f"the server's queue of notifications is {usage:.0%} full: a session that "
                    "listens is stuck in a transaction; once it is full, commits that notify fail"
                ),
            )
        )
    return findings


def _held(stream: str, pid: int, application: str, state: str, seconds: int) -> Finding:
    return Finding(
        code="postgres.stream.held",
        severity="warning",
        message=(
            f"readers of stream {stream!r} wait for backend {pid} ({application or 'unnamed'}, "
            f"{state}): it published in a transaction that has been open for {seconds} s; end it, "
            f"or SELECT pg_terminate_backend({pid})"
        ),
    )


def _old(pid: Any, application: str, state: str, seconds: int) -> Finding:
    return Finding(
        code="postgres.snapshot.old",
        severity="warning",
        message=(
            f"backend {pid} ({application or 'unnamed'}, {state}) keeps a snapshot, in a "
            f"transaction that has been open for {seconds} s: what workers finish while it does "
            f"cannot be vacuumed, and claims walk past it; end it, or SELECT "
            f"pg_terminate_backend({pid})"
        ),
    )
