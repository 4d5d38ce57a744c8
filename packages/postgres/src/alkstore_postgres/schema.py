"""The schema of a database: is it there, is it ours, is it of this version; making it so."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shlex
from typing import TYPE_CHECKING, Final

import asyncpg
from sqlalchemy import exc, text
from sqlalchemy.schema import CreateSchema

from alkstore_core import DatabaseError
from alkstore_core.sql.faults import reason
from alkstore_postgres.migrations import VERSION_TABLE, head, run, scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alembic.script import ScriptDirectory
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

# The first statement of a transaction: under another isolation it would go on seeing the
# schema as it was before the wait for the lock.
_READ_COMMITTED: Final = text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")

_EXISTS: Final = text(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
    "ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table)"
)
LOCK_PATIENCE: Final = 60.0
"""Seconds for which a migration waits for a lock that somebody else holds."""

_LOCK_NOT_AVAILABLE: Final = "55P03"

_HOLDERS: Final = text(
    "SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.state, 'unknown') "
    "FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = "
    "(SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) "
    "AND CAST(l.classid AS bigint) << 32 | CAST(l.objid AS bigint) = :key"
)
_SCHEMA_EXISTS: Final = text(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :schema)"
)


async def ensure_schema(
    engine: AsyncEngine,
    schema: str,
    *,
    migrate: bool,
    known: ScriptDirectory | None = None,
    patience: float | None = None,
) -> None:
    """The schema is at the head of our revisions. Where it is already, nothing is written.

    Any number of processes, threads and tasks may do this at once: they wait for each other, a
    minute at most. A migration that is interrupted has not happened. It may take long; the look
    before it takes `patience` seconds at most.

    Raises:
        DatabaseError: it is at another revision and `migrate` is false, it is newer than this
            package, the role may not make it, or somebody has a lock on it for too long; the
            message says what to do.

    """
    known = scripts() if known is None else known
    revision = await revision_of(engine, schema, patience)
    if not _is_due(revision, schema, known, migrate=migrate):
        return
    failed = f"cannot bring schema {schema!r} up to date"
    until_locked = None if patience is None else patience + LOCK_PATIENCE
    with told(failed):
        try:
            async with (
                asyncio.timeout(until_locked) as limit,
                engine.connect() as connection,
                connection.begin(),
            ):
                await connection.execute(_READ_COMMITTED)
                await connection.run_sync(_lock, schema)
                limit.reschedule(None)
                await connection.run_sync(_upgrade, schema, known)
        except exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            holds = await _who_holds(engine, schema, patience)
            raise DatabaseError(f"{failed}: {holds}") from error


async def revision_of(
    engine: AsyncEngine, schema: str, patience: float | None = None
) -> str | None:
    """The schema's revision; `None` where there is none. Reads only, for `patience` seconds.

    Raises:
        DatabaseError: the database cannot be reached or refuses.

    """
    with told(f"cannot look at schema {schema!r}"):
        async with asyncio.timeout(patience), engine.connect() as connection, connection.begin():
            return await connection.run_sync(_revision, schema)


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Say of a failure what it kept from being done."""
    try:
        yield
    except (exc.SQLAlchemyError, asyncpg.PostgresError, OSError, TimeoutError) as error:
        raise DatabaseError(f"{what}: {reason(error) or 'no answer in time'}") from error


def _revision(connection: Connection, schema: str) -> str | None:
    names = {"schema": schema, "table": VERSION_TABLE}
    if not connection.scalar(_EXISTS, names):
        return None
    quote = connection.dialect.identifier_preparer.quote
    table = f"{quote(schema)}.{quote(VERSION_TABLE)}"
    revision: str | None = connection.scalar(text(f"SELECT version_num FROM {table}"))  # noqa: S608
    return revision


def _is_due(revision: str | None, schema: str, known: ScriptDirectory, *, migrate: bool) -> bool:
    newest = head(known)
    if revision == newest:
        return False
    ours = {script.revision for script in known.walk_revisions()}
    if revision is not None and revision not in ours:
        raise DatabaseError(
            f"schema {schema!r} is at revision {revision}, which is newer than this "
            f"alkstore-postgres (it knows {newest}): upgrade the package"
        )
    if not migrate:
        state = "does not exist" if revision is None else f"is at revision {revision}"
        option = "" if schema == "alkstore" else f" --schema {shlex.quote(schema)}"
        raise DatabaseError(
            f"schema {schema!r} {state}, this alkstore-postgres needs {newest}: run "
            f"`alkstore-postgres upgrade{option}`, or open with migrate=True"
        )
    return True


def _lock(connection: Connection, schema: str) -> None:
    """Wait for whoever migrates this schema already."""
    # For this transaction alone: waiting for the lock and for tables in use is what takes long.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text(f"SET LOCAL lock_timeout = {int(LOCK_PATIENCE * 1000)}"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _lock_key(schema)})


async def _who_holds(engine: AsyncEngine, schema: str, patience: float | None) -> str:
    """What a lock was not free for, and what to do about it."""
    async with asyncio.timeout(patience), engine.connect() as connection, connection.begin():
        found = await connection.execute(_HOLDERS, {"key": _lock_key(schema)})
        holders = [tuple(row) for row in found]
    if not holders:
        return (
            f"its tables were locked by other transactions for {LOCK_PATIENCE:g} s: end those, "
            "and try again"
        )
    pid, application, state = holders[0]
    return (
        f"backend {pid} ({application or 'unnamed'}, {state}) has been migrating it for more than "
        f"{LOCK_PATIENCE:g} s: try again when it has ended, or SELECT pg_terminate_backend({pid})"
    )


def _upgrade(connection: Connection, schema: str, known: ScriptDirectory) -> None:
    """Do what is left to do."""
    if _revision(connection, schema) == head(known):
        return
    if not connection.scalar(_SCHEMA_EXISTS, {"schema": schema}):
        connection.execute(CreateSchema(schema))
    run(connection, schema, known)


def _lock_key(schema: str) -> int:
    digest = hashlib.sha256(f"alkstore migration {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
