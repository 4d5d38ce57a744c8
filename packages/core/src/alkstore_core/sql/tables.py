"""The tables of every SQL engine.

A job's `state` is finer than the contract's, because each state is its own partial index and a
claim walks one of them only, so its cost does not depend on what else is waiting:

* `ready`: may be claimed now;
* `delayed`: pending, not due when it was written; a claim makes it ready once it is;
* `processing`: claimed; a lapsed claim stays here until a claim turns it back;
* `expired`: pending and found past its expiry by a claim, set aside for the sweep.

The columns of `jobs` stand in the order of the fields of `Job`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    literal_column,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from alkstore_core.sql._dialect import Bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Dialect
    from sqlalchemy.sql.elements import ColumnElement

SCHEMA_VERSION = 1

PREFIX = "__alkstore_"

READY: ColumnElement[str] = literal_column("'ready'", Text)
DELAYED: ColumnElement[str] = literal_column("'delayed'", Text)
PROCESSING: ColumnElement[str] = literal_column("'processing'", Text)
EXPIRED: ColumnElement[str] = literal_column("'expired'", Text)

metadata: MetaData = MetaData()

# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_BigInt = BigInteger().with_variant(Integer(), "sqlite")


def _job_columns() -> list[Column[object]]:
    return [
        Column("queue", Text, nullable=False),
        Column("payload", Bytes, nullable=False),
        Column("headers", Text),
        Column("state", Text, nullable=False),
        Column("priority", _BigInt, nullable=False),
        Column("run_at", _BigInt, nullable=False),
        Column("created_at", _BigInt, nullable=False),
        Column("expires_at", _BigInt),
        Column("attempts", _BigInt, nullable=False),
        Column("max_attempts", _BigInt, nullable=False),
        Column("visibility_timeout_s", _BigInt, nullable=False),
        Column("backoff_base_s", _BigInt, nullable=False),
        Column("dead_letter_retention_s", _BigInt),
        Column("worker_id", Text),
        Column("claimed_at", _BigInt),
        Column("claim_expires_at", _BigInt),
        Column("last_error", Text),
    ]


jobs: Table = Table(
    PREFIX + "jobs",
    metadata,
    Column("id", _BigInt, primary_key=True),
    *_job_columns(),
    # Without it SQLite hands the id of a deleted row out again.
    sqlite_autoincrement=True,
)


def _partial_index(name: str, condition: ColumnElement[bool], *columns: object) -> None:
    Index(PREFIX + name, *columns, sqlite_where=condition, postgresql_where=condition)  # type: ignore[arg-type]


# `expires_at` rides along so that a claim passes over expired rows without reading them.
_partial_index(
    "jobs_ready",
    jobs.c.state == READY,
    jobs.c.queue,
    jobs.c.priority.desc(),
    jobs.c.run_at,
    jobs.c.id,
    jobs.c.expires_at,
)
_partial_index(
    "jobs_delayed",
    jobs.c.state == DELAYED,
    jobs.c.queue,
    jobs.c.run_at,
    jobs.c.priority,
    jobs.c.expires_at,
)
_partial_index("jobs_processing", jobs.c.state == PROCESSING, jobs.c.queue, jobs.c.claim_expires_at)
_partial_index(
    "jobs_expiry",
    jobs.c.expires_at.is_not(None),
    jobs.c.queue,
    jobs.c.state,
    jobs.c.expires_at,
)

dead_jobs: Table = Table(
    PREFIX + "dead_jobs",
    metadata,
    Column("id", _BigInt, primary_key=True, autoincrement=False),
    *_job_columns(),
    Column("died_at", _BigInt, nullable=False),
    # When its retention is over; NULL: never.
    Column("retained_until", _BigInt),
)
Index(PREFIX + "dead_jobs_queue", dead_jobs.c.queue, dead_jobs.c.id)
_partial_index(
    "dead_jobs_retention",
    dead_jobs.c.retained_until.is_not(None),
    dead_jobs.c.queue,
    dead_jobs.c.retained_until,
)

events: Table = Table(
    PREFIX + "events",
    metadata,
    Column("offset", _BigInt, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("key", Text),
    Column("payload", Bytes, nullable=False),
    Column("headers", Text),
    Column("created_at", _BigInt, nullable=False),
    sqlite_autoincrement=True,
)
Index(PREFIX + "events_stream", events.c.stream, events.c.offset)

consumers: Table = Table(
    PREFIX + "consumers",
    metadata,
    Column("stream", Text, nullable=False),
    Column("consumer", Text, nullable=False),
    Column("offset", _BigInt, nullable=False),
    PrimaryKeyConstraint("stream", "consumer"),
    sqlite_with_rowid=False,
)

locks: Table = Table(
    PREFIX + "locks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("token", _BigInt, nullable=False),
    Column("expires_at", _BigInt, nullable=False),
    sqlite_with_rowid=False,
)

schedules: Table = Table(
    PREFIX + "schedules",
    metadata,
    Column("name", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("payload", Bytes, nullable=False),
    Column("priority", _BigInt, nullable=False),
    Column("max_attempts", _BigInt),
    Column("expires", _BigInt),
    Column("headers", Text),
    Column("next_fire_at", _BigInt, nullable=False),
)

# One row per notified channel, the latest notify first in line when `seq` is read backwards. A
# notify replaces the row, so `seq` is new each time and stays above that of every removed row.
channels: Table = Table(
    PREFIX + "channels",
    metadata,
    Column("seq", _BigInt, primary_key=True),
    Column("channel", Text, nullable=False, unique=True),
    Column("notified_at", _BigInt, nullable=False),
    sqlite_autoincrement=True,
)

sequences: Table = Table(
    PREFIX + "sequences",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", _BigInt, nullable=False),
    sqlite_with_rowid=False,
)

meta: Table = Table(
    PREFIX + "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)


def ddl(dialect: Dialect) -> Iterator[str]:
    """Every statement that makes the tables and their indexes, in order."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))
