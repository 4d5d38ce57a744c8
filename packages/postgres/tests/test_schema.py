"""The schema: made once however many open it, changed in one piece, and nobody else's business."""

import asyncio
import subprocess
import sys
import textwrap
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from server import sqlalchemy_url
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    literal_column,
    text,
)
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_core.sql.tables import channels, meta
from alkstore_core.sql.tables import metadata as tables
from alkstore_postgres.migrations import VERSION_TABLE, head, leave_out, scripts
from alkstore_postgres.schema import ensure_schema, revision_of

pytestmark = pytest.mark.once


HEAD = "0001"
NAMES = ("alkstore", 'Quoted "name"', "select", "ünïcode")

OPEN = """
import asyncio, sys
from sqlalchemy.ext.asyncio import create_async_engine
from alkstore_postgres.migrations import scripts
from alkstore_postgres.schema import ensure_schema

async def main():
    engine = create_async_engine(sys.argv[1])
    await ensure_schema(engine, "alkstore", migrate=True, known=scripts(*sys.argv[2:]))
    await engine.dispose()

asyncio.run(main())
"""


@pytest.fixture
async def engine(postgres_url):
    """An engine on an empty database."""
    engine = create_async_engine(sqlalchemy_url(postgres_url))
    yield engine
    await engine.dispose()


async def execute(engine, sql, **given):
    """Run one statement in a transaction; its rows, if it gives any."""
    async with engine.begin() as connection:
        result = await connection.execute(text(sql), given)
        return [tuple(row) for row in result] if result.returns_rows else []


def opening(url, *versions):
    """Another process that opens the schema."""
    arguments = [sys.executable, "-c", OPEN, sqlalchemy_url(url), *versions]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE)


async def migrating(engine):
    """Return once somebody has made the table `half` and not committed it yet."""
    half = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted"
    while not (await execute(engine, half))[0][0]:  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.05)


def later_versions(path, body, revision="0002", down=HEAD):
    """A directory with our revisions and one more."""
    path.mkdir()
    for script in scripts().walk_revisions():
        (path / f"{script.revision}.py").write_text(script.module.__loader__.get_source(None))
    (path / f"{revision}.py").write_text(
        textwrap.dedent(f"""
            import time
            revision, down_revision = {revision!r}, {down!r}
            branch_labels = depends_on = None

            def upgrade(operations, schema):
                {body}
            """)
    )
    return scripts(str(path))


def test_head_is_this_one():
    """There is one newest revision, the one these tests know."""
    assert HEAD == head(scripts())


@pytest.mark.parametrize("name", NAMES)
async def test_made_and_kept(engine, name):
    """An empty database gets the schema, whatever its name, and the next opening finds it."""
    assert None is await revision_of(engine, name)

    await ensure_schema(engine, name, migrate=True)
    await ensure_schema(engine, name, migrate=False)

    assert HEAD == await revision_of(engine, name)


async def test_eight_processes_make_one_schema(engine, postgres_url):
    """Eight processes that open an empty database at once all succeed; there is one version."""
    running = [opening(postgres_url) for _ in range(8)]
    errors = [process.communicate(timeout=60)[1].decode() for process in running]

    assert [0] * 8 == [process.returncode for process in running], errors
    assert [(HEAD,)] == await execute(engine, f"SELECT * FROM alkstore.{VERSION_TABLE}")


async def test_threads_and_databases_do_not_meet(engine, postgres_url):
    """Threads of one process migrate several schemas at the same time."""
    failures = []

    async def make(name):
        mine = create_async_engine(sqlalchemy_url(postgres_url))
        try:
            await asyncio.gather(*(ensure_schema(mine, name, migrate=True) for _ in range(3)))
        finally:
            await mine.dispose()

    def run(name):
        try:
            asyncio.run(make(name))
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"s{n % 3}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert [] == failures
    assert [HEAD] * 3 == [await revision_of(engine, f"s{n}") for n in range(3)]


async def test_head_is_only_read(engine, postgres_url):
    """At the newest revision opening writes nothing, so a read-only session can do it."""
    await ensure_schema(engine, "alkstore", migrate=True)
    readers = create_async_engine(
        sqlalchemy_url(postgres_url),
        connect_args={"server_settings": {"default_transaction_read_only": "on"}},
    )
    try:
        await ensure_schema(readers, "alkstore", migrate=True)
        with pytest.raises(DatabaseError, match="read-only"):
            await ensure_schema(readers, "another", migrate=True)
    finally:
        await readers.dispose()


async def test_serializable_default_makes_one_schema(engine, postgres_url):
    """Who waits for another's migration sees it, also where snapshots are older by default."""
    strict = create_async_engine(
        sqlalchemy_url(postgres_url), isolation_level="SERIALIZABLE", pool_size=8
    )
    try:
        await asyncio.gather(*(ensure_schema(strict, "alkstore", migrate=True) for _ in range(8)))
    finally:
        await strict.dispose()
    assert [(HEAD,)] == await execute(engine, f"SELECT * FROM alkstore.{VERSION_TABLE}")


async def test_missing_is_refused_without_migrate(engine):
    """Without `migrate` a missing schema is an error that says what to run."""
    with pytest.raises(DatabaseError, match=r"does not exist.*alkstore-postgres upgrade"):
        await ensure_schema(engine, "alkstore", migrate=False)
    assert None is await revision_of(engine, "alkstore")


async def test_older_is_refused_without_migrate(engine, tmp_path):
    """Without `migrate` a schema of an older version is an error that names both revisions."""
    await ensure_schema(engine, "alkstore", migrate=True)
    newer = later_versions(tmp_path / "versions", "pass")
    with pytest.raises(DatabaseError, match=r"at revision 0001.*needs 0002"):
        await ensure_schema(engine, "alkstore", migrate=False, known=newer)


async def test_newer_is_refused(engine, tmp_path):
    """A schema of a later version is refused and left as it is."""
    newer = later_versions(tmp_path / "versions", "pass")
    await ensure_schema(engine, "alkstore", migrate=True, known=newer)
    for migrate in (True, False):
        with pytest.raises(DatabaseError, match=r"revision 0002, which is newer.*upgrade the"):
            await ensure_schema(engine, "alkstore", migrate=migrate)
    assert "0002" == await revision_of(engine, "alkstore")


async def test_a_killed_migration_has_not_happened(engine, postgres_url, tmp_path):
    """SIGKILL inside a migration leaves the old revision, and the next opening completes it."""
    await ensure_schema(engine, "alkstore", migrate=True)
    slow = "operations.execute('CREATE TABLE alkstore.half (x int)'); time.sleep(60)"
    later_versions(tmp_path / "slow", slow)
    process = opening(postgres_url, str(tmp_path / "slow"))
    await asyncio.wait_for(migrating(engine), 30)
    process.kill()
    process.communicate()

    known = later_versions(
        tmp_path / "quick", "operations.execute('CREATE TABLE alkstore.half ()')"
    )
    await ensure_schema(engine, "alkstore", migrate=True, known=known)

    assert "0002" == await revision_of(engine, "alkstore")


def tables_in(schema):
    """The shared tables, and what the fronts of claims need beside them."""
    metadata = MetaData(schema=schema)
    for table in tables.sorted_tables:
        # Notifies travel by NOTIFY here, and the version is Alembic's.
        if table not in (channels, meta):
            table.to_metadata(metadata)
    jobs = metadata.tables[f"{schema}.__alkstore_jobs"]
    jobs.append_column(Column("made_ready", BigInteger, nullable=False, server_default="0"))
    ready = jobs.c.state == literal_column("'ready'", Text)
    Index("__alkstore_jobs_recent", jobs.c.made_ready, jobs.c.queue, postgresql_where=ready)
    return metadata


async def test_head_equals_the_tables(engine):
    """What the revisions make is what the statements are compiled from."""
    await ensure_schema(engine, "alkstore", migrate=True)
    expected = tables_in("alkstore")

    def compare(connection):
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == "alkstore",
            "version_table": VERSION_TABLE,
            "version_table_schema": "alkstore",
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), expected)

    async with engine.connect() as connection:
        assert [] == await connection.run_sync(compare)


async def test_head_has_the_indexes(engine):
    """The revisions make the very indexes that the tables declare, conditions included."""
    await ensure_schema(engine, "alkstore", migrate=True)
    declared = tables_in("declared")
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA declared"))
        await connection.run_sync(declared.create_all)
    of_schema = (
        "SELECT replace(indexdef, :schema || '.', '') FROM pg_indexes WHERE schemaname = :schema"
    )

    found = [await execute(engine, of_schema, schema=name) for name in ("declared", "alkstore")]

    expected, actual = ({row for row in rows if VERSION_TABLE not in row[0]} for rows in found)
    assert expected == actual
    assert 10 < len(expected)


@pytest.mark.parametrize("options", [{}, {"include_schemas": True, "include_name": leave_out()}])
async def test_an_applications_alembic_sees_nothing(engine, options):
    """Autogenerate of the application proposes its own changes and nothing about our tables."""
    await ensure_schema(engine, "alkstore", migrate=True)
    application = MetaData()
    Table("orders", application, Column("id", Integer, primary_key=True))

    def compare(connection):
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, application)

    async with engine.connect() as connection:
        ((change, table),) = await connection.run_sync(compare)
    assert ("add_table", "orders") == (change, table.name)


async def test_errors_hold_no_password(postgres_url):
    """A server that cannot be reached is an error without the URL's password."""
    engine = create_async_engine("postgresql+asyncpg://someone:secret@127.0.0.1:1/nowhere")
    with pytest.raises(DatabaseError, match="cannot look at schema 'alkstore'") as caught:
        await ensure_schema(engine, "alkstore", migrate=True)
    assert "secret" not in str(caught.value)
    await engine.dispose()
