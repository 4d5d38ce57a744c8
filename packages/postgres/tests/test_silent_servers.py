"""Servers that say nothing, or goodbye without hanging up."""

import asyncio

import attrs
import pytest
from proxy import Deaf, Proxy
from server import sqlalchemy_url
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore, driver, engine, transactions

pytestmark = pytest.mark.once

KILL = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
BRIEF = PostgresOpts(
    pool_size=1, pool_timeout=0.2, connect_timeout=2, statement_timeout=1, migrate=False
)
BOUND = 20.0
"""Seconds: more than all of these time-outs together, and a polite end."""


class Mute(Proxy):
    """Lets anybody in, and swallows the first question and what comes after it once told to."""

    silent = False

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            if self.silent and data[:1] in {b"P", b"Q"}:
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


class HalfOpen(Proxy):
    """Does not tell that the other side hung up."""

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        await asyncio.Event().wait()


class Fatal(Proxy):
    """Once told to, lets anybody in whose session ends with its first BEGIN, as a pooler may."""

    deadly = False
    begun = 0

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            if self.deadly and data[:1] == b"Q" and b"BEGIN" in data:
                self.begun += 1
                sql = b"SELECT pg_terminate_backend(pg_backend_pid())\0"
                data = b"Q" + (len(sql) + 4).to_bytes(4, "big") + sql
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


@pytest.fixture
def hasty(monkeypatch):
    """Little grace for those that say nothing."""
    for module in (driver, engine, transactions):
        monkeypatch.setattr(module, "GRACE", 0.2)


async def test_opening_ends(hasty, postgres_url):
    """A server that takes us in and then falls silent keeps nobody from hearing of it."""
    async with Mute(postgres_url) as proxy:
        proxy.silent = True
        store = PostgresStore(proxy.url, opts=BRIEF)
        async with asyncio.timeout(BOUND):
            with pytest.raises(DatabaseError, match="no answer in time"):
                await store.open()


async def test_calls_on_a_new_connection_end(hasty, store, postgres_url):
    """So do calls and begins that need another connection, and after them the store closes."""
    async with Mute(postgres_url) as proxy:
        other = PostgresStore(proxy.url, opts=BRIEF)
        await other.open()
        proxy.cut()
        proxy.silent = True
        async with asyncio.timeout(BOUND * 4):
            # The connection that was cut may take the first of them with it.
            for _ in range(2):
                with pytest.raises(DatabaseError):
                    await other.queue("q").stats()
                with pytest.raises(DatabaseError):
                    await other.begin_tx()
            await other.close()


async def test_a_silent_read_is_not_asked_again(hasty, store, postgres_url):
    """Who reads from a server that does not answer waits for its time-out once."""
    opts = attrs.evolve(BRIEF, statement_timeout=0.3)
    async with Deaf(postgres_url) as proxy, PostgresStore(proxy.url, opts=opts) as other:
        proxy.deaf_to = b"__alkstore_jobs"
        async with asyncio.timeout(BOUND):
            with pytest.raises(DatabaseError, match="no answer in time"):
                await other.queue("q").stats()
        assert 1 == proxy.swallowed


async def test_an_engine_keeps_no_silent_connection(hasty, store, postgres_url):
    """A store that cannot be opened for silence leaves the application a pool that answers."""
    async with Deaf(postgres_url) as proxy:
        engine = create_async_engine(sqlalchemy_url(proxy.url), pool_size=1, max_overflow=0)
        proxy.deaf_to = b"__alkstore_jobs"
        opts = attrs.evolve(BRIEF, statement_timeout=0.3)
        async with asyncio.timeout(BOUND):
            with pytest.raises(DatabaseError, match="no answer in time"):
                await PostgresStore(engine, opts=opts).open()
            async with engine.connect() as connection:
                assert 1 == await connection.scalar(text("SELECT 1"))
        await engine.dispose()


async def test_a_begin_that_ends_its_connection(postgres_url):
    """Whoever begins where each BEGIN is answered by the connection's end hears of it."""
    async with (
        Fatal(postgres_url) as proxy,
        PostgresStore(proxy.url, opts=PostgresOpts(pool_size=1)) as store,
    ):
        proxy.deadly = True
        async with asyncio.timeout(BOUND):
            with pytest.raises(DatabaseError, match="refused an operation"):
                await store.begin_tx()
        assert driver.TRIES == proxy.begun
        proxy.deadly = False
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)
        assert 1 == (await store.queue("q").stats()).ready


async def test_goodbye_without_hanging_up(store, sql, postgres_url):
    """What was not even sent on a connection whose server has said goodbye is done on another."""
    async with HalfOpen(postgres_url) as proxy, PostgresStore(proxy.url) as other:
        await other.queue("q").enqueue(1)
        await sql.fetch(KILL)
        assert 2 == await other.queue("q").enqueue(2)
        await sql.fetch(KILL)
        async with other.transaction() as tx:
            await tx.enqueue_tx("q", 3)
    assert 3 == (await store.queue("q").stats()).ready
