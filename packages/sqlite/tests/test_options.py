"""Options, URLs, prepared engines and findings: what reaches SQLite, and what is refused."""

import asyncio
import contextlib
import os
import time

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError, open_store
from alkstore_sqlite import SqliteOpts, SqliteStore, engine_from_url, prepare_engine
from alkstore_sqlite.diagnosis import LARGE_WAL

LEVELS = {"NORMAL": 1, "FULL": 2}


def runner_level(runner) -> int:
    """`synchronous` of a runner's connection, asked in the thread that owns it."""
    asked = []

    class Asking:
        def __init__(self, connection) -> None:
            self.connection = connection

        def __getattr__(self, name):
            return getattr(self.connection, name)

        def execute(self, sql, parameters=()):
            if not asked:
                asked.append(self.connection.execute("PRAGMA synchronous").fetchone()[0])
            return self.connection.execute(sql, parameters)

    runner._connection = Asking(runner._connection)
    return asked


@pytest.mark.parametrize("level", [None, "FULL", "NORMAL"])
async def test_synchronous_reaches_the_stores_connections(path, level):
    """Writer, reader and transactions commit as durably as was asked, FULL by default."""
    opts = SqliteOpts() if level is None else SqliteOpts(synchronous=level)
    async with SqliteStore(path, opts=opts) as store:
        engine = store._runtime.engine
        writer, reader = runner_level(engine._writer), runner_level(engine._reader)
        await store.queue("x").enqueue(1)
        await store.queue("x").stats()
        async with store.begin_tx() as tx:
            found = await tx.connection.exec_driver_sql("PRAGMA synchronous")
            handle = found.scalar_one()

    expected = LEVELS[level or "FULL"]
    assert [expected] * 3 == [writer[0], reader[0], handle]


@pytest.mark.parametrize("kind", ["AsyncConnection", "Connection"])
@pytest.mark.parametrize("level", [None, "FULL", "NORMAL"])
async def test_synchronous_reaches_prepared_engines(path, ways, kind, level):
    """A prepared engine's connections commit as durably as was asked, FULL by default."""
    engine = ways.make_engine(kind, path, prepared=False)
    prepare_engine(engine, **({} if level is None else {"synchronous": level}))
    try:
        connection = await ways.settled(engine.connect())
        found = await ways.settled(connection.exec_driver_sql("PRAGMA synchronous"))
        assert LEVELS[level or "FULL"] == found.scalar_one()
        await ways.settled(connection.close())
    finally:
        await ways.settled(engine.dispose())


@pytest.mark.parametrize("level", ["OFF", "off", "full", "EXTRA", 2, None, ""])
def test_less_than_durable_is_refused(level):
    """`synchronous` is FULL or NORMAL, for a store and for a prepared engine."""
    with pytest.raises(ValueError, match=r"'FULL'.*'NORMAL'"):
        SqliteOpts(synchronous=level)
    with pytest.raises(ValueError, match=r"'FULL'.*'NORMAL'"):
        prepare_engine(create_engine("sqlite://"), synchronous=level)


@pytest.mark.parametrize("value", [0, -1, True, "1", None, float("nan")])
@pytest.mark.parametrize("name", ["poll_interval", "busy_timeout"])
def test_seconds_are_above_zero(name, value):
    """An option in seconds is a number above 0; the error names the option."""
    with pytest.raises(ValueError, match=f"SqliteOpts.{name}"):
        SqliteOpts(**{name: value})


@pytest.mark.parametrize(
    ("opts", "seconds"), [(SqliteOpts(), 0.001), (SqliteOpts(poll_interval=0.02), 0.02)]
)
async def test_poll_interval_is_the_watchers_nap(path, opts, seconds, monkeypatch):
    """Between two looks the watcher sleeps for `poll_interval`, 1 ms by default."""
    naps = asyncio.Queue()
    loop = asyncio.get_running_loop()
    sleep = time.sleep

    def nap(length):
        loop.call_soon_threadsafe(naps.put_nowait, length)
        sleep(0.001)

    monkeypatch.setattr("alkstore_sqlite.watcher.time.sleep", nap)
    async with SqliteStore(path, opts=opts) as store, store.listen("x"):
        assert {seconds} == {await naps.get() for _ in range(3)}


@pytest.mark.parametrize("make", [create_engine, create_async_engine])
def test_preparing_twice_is_preparing_once(make, path):
    """A second `prepare_engine` returns the engine and adds no listener."""
    driver = "sqlite" if make is create_engine else "sqlite+aiosqlite"
    engine = make(f"{driver}:///{path}")
    target = engine if make is create_engine else engine.sync_engine
    assert engine is prepare_engine(engine)
    before = [len(list(getattr(target.dispatch, name))) for name in ("begin", "commit")]

    assert engine is prepare_engine(engine)
    assert before == [len(list(getattr(target.dispatch, name))) for name in ("begin", "commit")]
    assert all(before)


async def test_an_engine_prepared_twice_can_be_joined(store, path, ways):
    """A twice prepared engine begins once and carries the store's rows."""
    engine = prepare_engine(ways.make_engine("AsyncConnection", path))
    async with engine.begin() as connection:
        await store.join(connection).enqueue_tx("x", 1)
    await engine.dispose()

    assert 1 == len(await store.queue("x").jobs())


def test_an_engine_of_another_database_is_refused():
    """`prepare_engine` takes SQLite engines; the error names the dialect it was given."""

    class Driver:
        paramstyle = "pyformat"
        version_info = (99, 0)
        __version__ = "99.0.0"

    engine = create_engine("mysql+pymysql://", module=Driver)
    with pytest.raises(ValueError, match="mysql"):
        prepare_engine(engine)
    assert not event.contains(engine, "begin", prepare_engine)


ODD = ["app.db", "my app.db", "50%25.db", "a?mode=ro.db", "a#b.db", "ä☃.db", "file:x.db"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("make", [engine_from_url, open_store])
async def test_a_url_holds_a_path_verbatim(tmp_path, monkeypatch, make, name):
    """What comes after `sqlite:///` is the path, whatever signs are in it."""
    monkeypatch.chdir(tmp_path)
    async with make(f"sqlite:///{name}") as store:
        await store.queue("x").enqueue(1)

    assert [name] == [file.name for file in tmp_path.iterdir()]


async def test_a_url_with_four_slashes_is_absolute(path):
    """`sqlite:////…` names a file from the root."""
    async with engine_from_url(f"sqlite:///{path}") as store:
        await store.queue("x").enqueue(1)

    assert path.exists()


@pytest.mark.parametrize("scheme", ["SQLITE", "Sqlite"])
async def test_a_urls_scheme_is_in_any_case(path, scheme):
    """The scheme is not case-sensitive, as in every URL."""
    async with engine_from_url(f"{scheme}:///{path}") as store:
        assert 1 == await store.queue("x").enqueue(1)


async def test_a_url_takes_a_clock(path, clock):
    """A store made from a URL goes by the clock it was given."""
    async with engine_from_url(f"sqlite:///{path}", clock=clock) as store:
        await store.queue("x").enqueue(1)
        assert [1_000_000] == [job.created_at for job in await store.queue("x").jobs()]


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:app.db",
        "sqlite://host/app.db",
        "sqlite:/app.db",
        "postgresql:///app.db",
        "app.db",
        "",
    ],
)
def test_a_url_of_another_shape_is_refused(url):
    """A URL without a path, or with a host, is an error that shows how one looks."""
    with pytest.raises(DatabaseError, match=r"sqlite:///app\.db"):
        engine_from_url(url)


async def test_a_large_log_is_a_finding(store, path):
    """`diagnose` tells of a write-ahead log that SQLite cannot reuse, and names the file."""
    assert [] == await store.diagnose()
    await store.queue("x").enqueue(1)
    # Its end is not read before a commit reaches it, and the close truncates it.
    os.truncate(f"{path}-wal", LARGE_WAL + 1)

    [finding] = await store.diagnose()

    assert ("sqlite.wal.large", "warning") == (finding.code, finding.severity)
    assert str(path) in finding.message
    assert "67108865 bytes" in finding.message


async def test_a_log_of_ordinary_size_is_no_finding(store, path):
    """At the limit itself, and without a log, `diagnose` has nothing to say."""
    await store.queue("x").enqueue(1)
    os.truncate(f"{path}-wal", LARGE_WAL)

    assert [] == await store.diagnose()


async def test_a_second_name_of_the_file_is_a_finding(store, path):
    """SQLite keeps a log for each name: `diagnose` tells it, and what to do."""
    other = path.with_name("link.db")
    os.link(path, other)

    [finding] = await store.diagnose()

    assert ("sqlite.file.names", "warning") == (finding.code, finding.severity)
    assert f"{path} is one of 2 names" in finding.message
    assert "remove the others" in finding.message
    other.unlink()
    assert [] == await store.diagnose()


async def test_busy_timeout_reaches_prepared_engines(path, ways, sql):
    """A prepared engine waits for the lock as long as it was told, and no longer."""
    sql("CREATE TABLE t (x)")
    engine = ways.make_engine("AsyncConnection", path, prepared=False)
    prepare_engine(engine, busy_timeout=0.05)
    holder = ways.make_engine("AsyncConnection", path)
    async with contextlib.AsyncExitStack() as stack:
        held = await stack.enter_async_context(holder.connect())
        await held.begin()
        waiting = await stack.enter_async_context(engine.connect())
        async with asyncio.timeout(30):
            with pytest.raises(Exception, match="database is locked"):
                await waiting.begin()
    await engine.dispose()
    await holder.dispose()
