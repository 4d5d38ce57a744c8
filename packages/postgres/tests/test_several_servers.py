"""URLs that name several servers: the one that takes writes is found, also after a failover."""

import asyncio
import contextlib
import signal
import socket

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_core.names import RECONNECTED
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.urls import Place, places

QUICK = PostgresOpts(connect_timeout=1.0)


def together(*servers, attrs="read-write"):
    """One URL of several servers."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs={attrs}"


def as_sqlalchemy(*servers, attrs="read-write"):
    """The same as SQLAlchemy spells it."""
    hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in servers)
    return f"postgresql+asyncpg://postgres@/postgres?{hosts}&target_session_attrs={attrs}"


@pytest.fixture
def pair(own_server):
    """A primary, and a standby that has every commit before its caller hears of it."""
    standby = own_server.standby()
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    yield own_server, standby
    standby.stop(signal.SIGQUIT)


@pytest.fixture
def silent():
    """A place that takes connections and never says a word, as a host that was cut off."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield Place("127.0.0.1", listening.getsockname()[1])


async def eventually(call):
    """Call until it works; only `DatabaseError` may come before."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except DatabaseError:
                await asyncio.sleep(0.05)


async def column(url, query):
    """The values of a query's only column, past the library."""
    connection = await asyncpg.connect(url)
    try:
        return [value for (value,) in await connection.fetch(query)]
    finally:
        await connection.close()


async def transact(store):
    """A transaction of ours that enqueues and publishes."""
    async with store.transaction() as tx:
        return await tx.enqueue_tx("q", "tx"), await tx.publish_tx("s", "tx")


@pytest.mark.once
@pytest.mark.parametrize("kind", ["url", "sqlalchemy-url", "engine"])
async def test_failover(pair, kind):
    """The primary dies under load and the standby is promoted: calls, transactions, subscribers
    and receivers go on there, and whatever was acknowledged is there.
    """
    primary, standby = pair
    engine = create_async_engine(as_sqlalchemy(standby, primary))
    targets = {
        # The first of them is the one that does not take writes.
        "url": together(standby, primary),
        "sqlalchemy-url": as_sqlalchemy(standby, primary),
        "engine": engine,
    }
    jobs, offsets, over = [], [], asyncio.Event()

    async def keep_writing(store):
        while not over.is_set():
            await asyncio.sleep(0.002)
            try:
                jobs.append(await store.queue("q").enqueue(len(jobs)))
                offsets.append(await store.stream("s").publish(len(offsets)))
                job, offset = await transact(store)
            except DatabaseError:
                continue
            jobs.append(job)
            offsets.append(offset)

    async with PostgresStore(targets[kind], opts=QUICK) as store:
        receiver = await store.listen("news")
        events = await store.stream("s").subscribe("reader")
        seen = []

        async def read():
            # A read that comes in the outage fails, and the next goes on where it stood.
            while (event := await eventually(events.recv)) is not None:
                seen.append(event.offset)

        reading = asyncio.create_task(read())
        writing = [asyncio.create_task(keep_writing(store)) for _ in range(4)]
        while len(jobs) < 200:  # noqa: ASYNC110 - the writers do not say
            await asyncio.sleep(0.01)
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        before = len(jobs)
        await asyncio.to_thread(standby.promote)
        await eventually(lambda: transact(store))
        async with asyncio.timeout(60):
            while len(jobs) < before + 100:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            over.set()
            await asyncio.gather(*writing)
            assert RECONNECTED == (await receiver.recv()).channel
            await store.notify("news", 1)
            while (await receiver.recv()).channel != "news":
                pass
            there = await column(standby.url, "SELECT id FROM alkstore.__alkstore_jobs")
            assert set() == set(jobs) - set(there)
            there = await column(standby.url, 'SELECT "offset" FROM alkstore.__alkstore_events')
            assert set() == set(offsets) - set(there)
            while len(seen) < len(there):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert sorted(there) == seen
        await events.close()
        await reading
    await engine.dispose()


@pytest.mark.once
async def test_no_store_on_a_standby(own_server):
    """Where the URL leaves the choice open, and where an engine leads astray: never a standby."""
    standby = own_server.standby()
    try:
        for attrs in ("any", "primary", "read-write"):
            async with PostgresStore(together(standby, own_server, attrs=attrs)) as store:
                async with store.transaction() as tx:
                    port = (await tx.connection.exec_driver_sql("SHOW port")).scalar_one()
                assert port == str(own_server.port)
        port = own_server.port
        engine = create_async_engine(as_sqlalchemy(own_server, standby, attrs="any"))
        async with PostgresStore(engine) as store:
            await store.queue("q").enqueue(1)
            await asyncio.to_thread(own_server.stop)
            # A standby answers reads, and knows nothing of what is open on the primary.
            for call in (store.queue("q").stats, store.stream("s").bounds, lambda: transact(store)):
                with pytest.raises(DatabaseError):
                    await call()
                with pytest.raises(DatabaseError, match="the server is a standby"):
                    await call()
        await engine.dispose()
    finally:
        standby.stop()


async def test_a_silent_server_does_not_keep_the_next_from_being_asked(postgres_url, silent):
    """Each gets `connect_timeout` seconds, and the good one is asked first from then on."""
    host, _, database = postgres_url.rpartition("@")[2].partition("/")
    url = f"postgresql://postgres@{silent},{host}/{database}?target_session_attrs=read-write"
    opts = PostgresOpts(connect_timeout=1.5, pool_size=8)
    loop = asyncio.get_running_loop()
    async with PostgresStore(url, opts=opts) as store, store.listen("news") as receiver:
        started = loop.time()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(store.begin_tx())
        assert loop.time() - started < 1.5
        await store.notify("news", 1)
        async with asyncio.timeout(10):
            assert "news" == (await receiver.recv()).channel


async def test_why_none_will_do(silent):
    """When all are tried in vain the error says of each why, and no password."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"postgresql://me:s3cr3t@{silent},127.0.0.1:{port}/shop"
    store = PostgresStore(url, opts=PostgresOpts(connect_timeout=0.3))
    with pytest.raises(DatabaseError) as refused:
        await store.open()
    assert f"{silent}: no answer in 0.3 s; 127.0.0.1:{port}: " in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


async def test_a_refusal_is_not_taken_elsewhere(postgres_url, silent):
    """A server that does not know the database ends the search; the next is not asked."""
    host = postgres_url.rpartition("@")[2].partition("/")[0]
    store = PostgresStore(f"postgresql://postgres@{host},{silent}/nowhere", opts=QUICK)
    with pytest.raises(DatabaseError, match=r'database "nowhere" does not exist$'):
        await store.open()


@pytest.mark.parametrize("attrs", ["standby", "read-only", "prefer-standby", "fastest"])
def test_servers_that_only_read_are_refused(attrs):
    """A URL that asks for a standby, or for what nobody knows, makes no store."""
    with pytest.raises(DatabaseError, match=f"target_session_attrs is '{attrs}'"):
        PostgresStore(f"postgresql://a,b/shop?target_session_attrs={attrs}")


TWO = (Place("a", 1), Place("b", 2))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p@a:1,b:2/d", TWO),
        ("postgresql://a,b/d?port=1,2", TWO),
        ("postgresql:///d?host=a,b&port=1,2", TWO),
        ("postgresql+asyncpg://u@/d?host=a:1&host=b:2", TWO),
        ("postgresql+asyncpg://u@/d?host=a&host=b&port=1&port=2", TWO),
        ("postgresql://a,b/d", (Place("a", 5432), Place("b", 5432))),
        ("postgresql://[::1]:7,b/d?port=8", (Place("::1", 7), Place("b", 8))),
        ("postgresql://%2Frun%2Fa,%2Frun%2Fb:3/d", (Place("/run/a", 5432), Place("/run/b", 3))),
        ("postgresql://a:1/d", ()),
        ("postgresql:///d", ()),
    ],
)
def test_places(url, expected):
    """Several servers are found wherever libpq and SQLAlchemy write them."""
    assert expected == places(url)


@pytest.mark.parametrize("hosts", ["a,,b", "a:x,b", "a,b/d?port=1,2,3", "a,b/d?port=x"])
def test_places_that_make_no_sense(hosts):
    """They are refused before anything is opened."""
    with pytest.raises(DatabaseError, match="Postgres URL"):
        PostgresStore(f"postgresql://{hosts}")


def test_places_of_the_environment(monkeypatch):
    """`PGHOST` and `PGPORT` name them where the URL does not."""
    monkeypatch.setenv("PGHOST", "a,b")
    monkeypatch.setenv("PGPORT", "1,2")
    assert TWO == places("postgresql:///d")
    assert () == places("postgresql://c/d")
