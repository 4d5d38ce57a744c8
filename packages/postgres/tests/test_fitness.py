"""Opening refuses, each with one sentence, what a store cannot keep its promises on."""

import asyncio

import asyncpg
import pytest
from server import sqlalchemy_url
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.cli import main

TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'alkstore'"


@pytest.fixture(params=["url", "engine"])
async def store_on(request):
    """Make a store on a URL: with a pool of its own, or on the application's engine."""
    engines = []

    def make(url):
        if request.param == "url":
            return PostgresStore(url)
        engines.append(create_async_engine(sqlalchemy_url(url)))
        return PostgresStore(engines[-1])

    yield make
    for engine in engines:
        await engine.dispose()


@pytest.fixture
async def latin_url(sql, postgres_url):
    """An empty database of another encoding."""
    name = f"{await sql.fetchval('SELECT current_database()')}_latin"
    await sql.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    yield f"{postgres_url}_latin"
    await sql.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def refusal(store):
    """What opening says, in one line."""
    with pytest.raises(DatabaseError) as refused:
        await store.open()
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_another_encoding(latin_url, store_on, sql):
    """A database that is not in UTF8 is refused by name, and nothing is made in it."""
    told = await refusal(store_on(latin_url))
    assert "its encoding is LATIN1" in told
    assert "ENCODING 'UTF8'" in told
    connection = await asyncpg.connect(latin_url)
    assert 0 == await connection.fetchval(TABLES)
    await connection.close()


async def test_another_encoding_is_not_migrated(latin_url, capsys):
    """Nor does the command make tables in one."""
    assert 2 == await run_command("upgrade", "--url", latin_url)
    assert "its encoding is LATIN1" in capsys.readouterr().err


async def run_command(*arguments):
    """Run the command where no event loop is running."""
    return await asyncio.to_thread(main, arguments)


async def test_read_only_by_default(postgres_url, store_on, sql):
    """A database on which nothing can be written unless one insists is refused, old or new."""
    database = await sql.fetchval("SELECT current_database()")
    switch = f"ALTER DATABASE {database} SET default_transaction_read_only ="
    await sql.execute(f"{switch} on")
    try:
        assert "default_transaction_read_only to off" in await refusal(store_on(postgres_url))
        assert 0 == await sql.fetchval(TABLES)
    finally:
        await sql.execute(f"{switch} off")
    async with store_on(postgres_url) as store:
        await store.queue("q").enqueue(1)
    await sql.execute(f"{switch} on")
    assert "read-only by default" in await refusal(store_on(postgres_url))


@pytest.mark.once
async def test_a_standby(own_server, store_on):
    """A server in recovery is refused, migrated or not."""
    standby = own_server.standby()
    try:
        told = await refusal(store_on(standby.url))
        assert "the server is a standby" in told
        assert "the primary" in told
        unmigrated = PostgresStore(standby.url, opts=PostgresOpts(migrate=False))
        assert "the server is a standby" in await refusal(unmigrated)
    finally:
        standby.stop()
