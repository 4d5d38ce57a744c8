"""Isolation levels on an application's own prepared engine."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_sqlite import prepare_engine

AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}


@pytest.fixture
def engine(path):
    """Make a prepared engine on the file, gone with the test."""
    made = []

    def make(**options):
        made.append(prepare_engine(create_engine(f"sqlite:///{path}", **options)))
        return made[-1]

    yield make
    for one in made:
        one.dispose()


@pytest.mark.parametrize("of", ["engine", "connection"])
def test_autocommit_commits_each_statement(engine, sql, of):
    """As on an engine that was not prepared: nothing waits for a commit that nobody makes."""
    found = engine(**(AUTOCOMMIT if of == "engine" else {}))
    with found.begin() as connection:
        connection.execute(text("CREATE TABLE t (x)"))
    with found.connect() as plain:
        connection = plain if of == "engine" else plain.execution_options(**AUTOCOMMIT)
        connection.execute(text("INSERT INTO t VALUES (1)"))
        assert [(1,)] == sql("SELECT x FROM t")
        connection.execute(text("VACUUM"))

    assert [(1,)] == sql("SELECT x FROM t")


def test_autocommit_waits_for_the_lock(engine, path, sql):
    """Without a transaction that waits fairly, SQLite waits by itself, as long as it was told."""
    sql("CREATE TABLE t (x)")
    found = engine(**AUTOCOMMIT)
    with found.connect() as connection:
        assert 5_000 == connection.execute(text("PRAGMA busy_timeout")).scalar_one()
        connection.rollback()
        back = connection.execution_options(isolation_level="SERIALIZABLE")
        back.execute(text("INSERT INTO t VALUES (1)"))
        assert 0 == back.execute(text("PRAGMA busy_timeout")).scalar_one()
        back.rollback()
    assert [] == sql("SELECT x FROM t")


@pytest.mark.parametrize("level", ["SERIALIZABLE", "READ UNCOMMITTED", "AUTOCOMMIT"])
def test_the_drivers_own_transactions_stay_off(engine, sql, level):
    """Setting a level turns them on again, which must not meet the connection's next user."""
    sql("CREATE TABLE t (x)")
    found = engine()
    with found.connect() as connection:
        connection.execution_options(isolation_level=level).execute(text("SELECT 1"))
    with found.begin() as connection:
        assert connection.connection.dbapi_connection.isolation_level is None
        nested = connection.begin_nested()
        connection.execute(text("INSERT INTO t VALUES (1)"))
        nested.commit()
        connection.rollback()

    assert [] == sql("SELECT x FROM t")


async def test_no_store_joins_an_autocommit_connection(store, path, ways):
    """What it carried could not be undone; the error says what to join instead."""
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{path}", **AUTOCOMMIT))
    async with engine.connect() as connection:
        with pytest.raises(DatabaseError, match="AUTOCOMMIT, so that nothing on it commits"):
            await store.join(connection).enqueue_tx("q", 1)
    await engine.dispose()

    assert [] == await store.queues()


async def test_no_store_joins_another_name_of_its_file(store, path):
    """SQLite would keep a log for each hard link."""
    other = path.with_name("link.db")
    other.hardlink_to(path)
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{other}"))
    async with engine.connect() as connection:
        with pytest.raises(DatabaseError, match=r"link\.db, another name \(hard link\) of"):
            await store.join(connection).enqueue_tx("q", 1)
    await engine.dispose()


async def test_a_store_joins_by_a_symbolic_link(store, path):
    """That is one name for SQLite, whatever it is called."""
    other = path.with_name("link.db")
    other.symlink_to(path)
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{other}"))
    async with engine.begin() as connection:
        await store.join(connection).enqueue_tx("q", 1)
    await engine.dispose()

    assert ["q"] == await store.queues()
