"""A store on the application's own engine: nobody leaves anything of his for the other."""

import asyncio

import pytest
from proxy import Proxy
from server import sqlalchemy_url
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresStore

JOBS = "SELECT count(*) FROM alkstore.__alkstore_jobs"


class Cutting(Proxy):
    """Passes on what has `cuts` in it, and hangs up."""

    cuts = b"\0nothing"

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
            if self.cuts in data:
                break
        raise ConnectionResetError


@pytest.fixture
async def engine(postgres_url):
    """An application's engine, whose "connect" event says something to the server."""
    engine = create_async_engine(sqlalchemy_url(postgres_url), pool_size=4, max_overflow=0)

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(dbapi, record):
        cursor = dbapi.cursor()
        cursor.execute("SET work_mem = '7MB'")
        cursor.close()

    yield engine
    await engine.dispose()


async def test_acknowledged_is_committed_on_a_new_connection(engine, sql):
    """What the application does on "connect" begins a transaction; a call of ours that comes
    next on that connection is committed all the same, and the application's setting stays.
    """
    async with PostgresStore(engine) as store, store.begin_tx(), store.begin_tx():
        assert 1 == await store.queue("q").enqueue(1)
        assert 1 == await sql.fetchval(JOBS)
        # The connection that the call was made on.
        async with engine.connect() as connection:
            assert "7MB" == await connection.scalar(text("SHOW work_mem"))


async def test_a_transaction_left_behind_is_not_ours(engine, sql):
    """A transaction that somebody left open on a pooled connection, past SQLAlchemy, neither
    swallows what we acknowledge nor is committed by it.
    """
    await sql.execute("CREATE TABLE theirs (value int)")
    async with PostgresStore(engine) as store:
        connections = [await engine.connect() for _ in range(4)]
        for connection in connections:
            raw = (await connection.get_raw_connection()).driver_connection
            await raw.execute("BEGIN")
            await raw.execute("INSERT INTO theirs VALUES (1)")
        for connection in connections:
            await connection.close()
        ids = await asyncio.gather(*[store.queue(f"q{n}").enqueue(n) for n in range(4)])
        assert (4, 4) == (len(set(ids)), await sql.fetchval(JOBS))
    assert 0 == await sql.fetchval("SELECT count(*) FROM theirs")


async def test_a_listener_that_fails_undoes_nothing(engine, sql, caplog):
    """What the application's "checkin" event raises is told of; the call that is done succeeds
    once, and so do calls that rode together and a transaction.
    """
    async with PostgresStore(engine) as store:
        queue = store.queue("q")
        await queue.enqueue(0)
        fails = []

        @event.listens_for(engine.sync_engine, "checkin")
        def on_checkin(dbapi, record):
            if fails:
                fails.pop()
                raise RuntimeError("the application's own trouble")

        fails.append(1)
        assert await queue.enqueue(1)
        fails.append(1)
        assert 20 == len(set(await asyncio.gather(*(queue.enqueue(n) for n in range(20)))))
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("q", 2)
            fails.append(1)
            await tx.commit()
        assert not fails
        assert 23 == await sql.fetchval(JOBS)
        assert 23 == (await queue.stats()).ready
    assert 3 == sum("could not be given back" in record.message for record in caplog.records)


async def test_a_listener_that_fails_hides_no_outcome(postgres_url, store, sql, caplog):
    """What the application's "invalidate" event raises changes nothing about what a caller hears
    of a connection that is lost: not that of a commit in doubt, nor an answer that has arrived.
    """
    async with Cutting(postgres_url) as proxy:
        engine = create_async_engine(sqlalchemy_url(proxy.url), pool_size=1, max_overflow=0)

        @event.listens_for(engine.sync_engine, "invalidate")
        def on_invalidate(dbapi, record, error):
            raise RuntimeError("the application's own trouble")

        async with PostgresStore(engine) as other:
            proxy.cuts = b"INSERT INTO"
            with pytest.raises(DatabaseError, match="unknown"):
                await other.queue("q").enqueue(1)
            lease = await other._runtime.engine._connections.take()
            assert 1 == await lease.raw.fetchval("SELECT 1")
            lease.raw.terminate()
            await lease.give_back()
        assert 0 == engine.pool.checkedout()
        await engine.dispose()
    assert sum("taken out of the pool" in record.message for record in caplog.records)


async def test_a_connection_that_died_in_the_pool(engine, sql):
    """What was cut while nobody used it is replaced: for a call and for a transaction alike."""
    async with PostgresStore(engine) as store:
        for n in range(2):
            connections = [await engine.connect() for _ in range(4)]
            for connection in connections:
                (await connection.get_raw_connection()).driver_connection.terminate()
            for connection in connections:
                await connection.close()
            if n:
                await store.queue("q").enqueue(n)
            else:
                async with store.transaction() as tx:
                    await tx.enqueue_tx("q", n)
    assert 2 == await sql.fetchval(JOBS)
    assert 0 == engine.pool.checkedout()


async def test_two_stores_on_one_engine(engine):
    """The one that is closed first takes nothing from the other, which hears of a transaction
    that the engine gave up and closes as ever; nor does an engine that was disposed meanwhile.
    """
    async with PostgresStore(engine) as store:
        async with PostgresStore(engine):
            pass
        tx = await store.begin_tx()
        await tx.connection.invalidate()
        async with asyncio.timeout(10):
            while store._runtime.transactions:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        with pytest.raises(DatabaseError, match="lost with its connection"):
            await tx.enqueue_tx("q", 1)
        await engine.dispose()
