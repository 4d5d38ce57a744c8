"""Jobs, dead jobs, events, consumers, locks, schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, LargeBinary, PrimaryKeyConstraint, Text, text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Rows live for seconds: left to the defaults, a table of a hundred thousand dead versions is
# still not worth a vacuum, and a claim walks past all of them.
_BUSY = (
    "fillfactor = 70, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02, "
    "autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05"
)

# Which transaction made a job ready; it never goes down, and what a snapshot does not see yet is
# not below the snapshot's oldest.
_THIS_TRANSACTION = "CAST(CAST(pg_catalog.pg_current_xact_id() AS text) AS bigint)"
_MADE_READY = f"""
CREATE FUNCTION {{schema}}."__alkstore_made_ready"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.made_ready = {_THIS_TRANSACTION};
    RETURN NEW;
END $$"""
_ON_UPDATE = """
CREATE TRIGGER "__alkstore_made_ready" BEFORE UPDATE ON {schema}."__alkstore_jobs"
FOR EACH ROW WHEN (NEW.state = 'ready')
EXECUTE FUNCTION {schema}."__alkstore_made_ready"()"""


def upgrade(operations: Operations, schema: str) -> None:
    """Make the tables and their indexes."""
    _jobs(operations, schema)
    _dead_jobs(operations, schema)
    _streams(operations, schema)
    operations.create_table(
        "__alkstore_locks",
        Column("name", Text, primary_key=True),
        Column("owner", Text, nullable=False),
        Column("token", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        schema=schema,
    )
    operations.create_table(
        "__alkstore_schedules",
        Column("name", Text, primary_key=True),
        Column("spec", Text, nullable=False),
        Column("queue", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("priority", BigInteger, nullable=False),
        Column("max_attempts", BigInteger),
        Column("expires", BigInteger),
        Column("headers", Text),
        Column("next_fire_at", BigInteger, nullable=False),
        schema=schema,
    )
    operations.create_table(
        "__alkstore_sequences",
        Column("name", Text, primary_key=True),
        Column("value", BigInteger, nullable=False),
        schema=schema,
    )
    quote = operations.get_context().dialect.identifier_preparer.quote
    for table in ("__alkstore_jobs", "__alkstore_locks"):
        operations.execute(f"ALTER TABLE {quote(schema)}.{quote(table)} SET ({_BUSY})")


def _job_columns() -> list[Column[Any]]:
    return [
        Column("queue", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("headers", Text),
        Column("state", Text, nullable=False),
        Column("priority", BigInteger, nullable=False),
        Column("run_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger),
        Column("attempts", BigInteger, nullable=False),
        Column("max_attempts", BigInteger, nullable=False),
        Column("visibility_timeout_s", BigInteger, nullable=False),
        Column("backoff_base_s", BigInteger, nullable=False),
        Column("dead_letter_retention_s", BigInteger),
        Column("worker_id", Text),
        Column("claimed_at", BigInteger),
        Column("claim_expires_at", BigInteger),
        Column("last_error", Text),
    ]


def _jobs(operations: Operations, schema: str) -> None:
    operations.create_table(
        "__alkstore_jobs",
        Column("id", BigInteger, primary_key=True),
        *_job_columns(),
        Column("made_ready", BigInteger, server_default=text(_THIS_TRANSACTION), nullable=False),
        schema=schema,
    )
    indexes: dict[str, tuple[list[Any], str]] = {
        "ready": (
            ["queue", text("priority DESC"), "run_at", "id", "expires_at"],
            "state = 'ready'",
        ),
        "delayed": (["queue", "run_at", "priority", "expires_at"], "state = 'delayed'"),
        "processing": (["queue", "claim_expires_at"], "state = 'processing'"),
        "expiry": (["queue", "state", "expires_at"], "expires_at IS NOT NULL"),
        # Not by queue first: the planner would take it for another way to all ready jobs.
        "recent": (["made_ready", "queue"], "state = 'ready'"),
    }
    for name, (columns, condition) in indexes.items():
        operations.create_index(
            f"__alkstore_jobs_{name}",
            "__alkstore_jobs",
            columns,
            schema=schema,
            postgresql_where=text(condition),
        )
    quote = operations.get_context().dialect.identifier_preparer.quote
    operations.execute(_MADE_READY.format(schema=quote(schema)))
    operations.execute(_ON_UPDATE.format(schema=quote(schema)))


def _dead_jobs(operations: Operations, schema: str) -> None:
    operations.create_table(
        "__alkstore_dead_jobs",
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        *_job_columns(),
        Column("died_at", BigInteger, nullable=False),
        Column("retained_until", BigInteger),
        schema=schema,
    )
    operations.create_index(
        "__alkstore_dead_jobs_queue", "__alkstore_dead_jobs", ["queue", "id"], schema=schema
    )
    operations.create_index(
        "__alkstore_dead_jobs_retention",
        "__alkstore_dead_jobs",
        ["queue", "retained_until"],
        schema=schema,
        postgresql_where=text("retained_until IS NOT NULL"),
    )


def _streams(operations: Operations, schema: str) -> None:
    operations.create_table(
        "__alkstore_events",
        Column("offset", BigInteger, primary_key=True),
        Column("stream", Text, nullable=False),
        Column("key", Text),
        Column("payload", LargeBinary, nullable=False),
        Column("headers", Text),
        Column("created_at", BigInteger, nullable=False),
        schema=schema,
    )
    operations.create_index(
        "__alkstore_events_stream", "__alkstore_events", ["stream", "offset"], schema=schema
    )
    operations.create_table(
        "__alkstore_consumers",
        Column("stream", Text, nullable=False),
        Column("consumer", Text, nullable=False),
        Column("offset", BigInteger, nullable=False),
        PrimaryKeyConstraint("stream", "consumer"),
        schema=schema,
    )
