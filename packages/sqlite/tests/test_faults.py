"""Faults that were found once: marks, threads, starts, encodings, looks and commits that fail."""

import asyncio
import contextlib
import gc
import sqlite3
import subprocess
import threading

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from alkstore_core import DatabaseError
from alkstore_core.spi import Topic
from alkstore_core.sql import connection_drivers
from alkstore_core.sql.compile import Compiler
from alkstore_sqlite import SqliteOpts, SqliteStore, watcher
from alkstore_sqlite.connections import open_plain
from alkstore_sqlite.probe import TableProbe


async def soon(awaitable):
    """What must come comes in time; the bound is for failures only."""
    async with asyncio.timeout(10):
        return await awaitable


async def rolled_back_savepoint(store, call, *args) -> None:
    """Commit a transaction with a savepoint that was rolled back, with three calls in it."""
    async with store.transaction() as tx:
        savepoint = await tx.connection.begin_nested()
        for _ in range(3):
            await getattr(tx, call)(*args)
        await savepoint.rollback()


async def test_a_rolled_back_savepoint_hides_no_event(store):
    """A subscriber gets the event that has an offset of a savepoint that was rolled back."""
    stream = store.stream("x")
    async with stream.subscribe("me") as events:
        await rolled_back_savepoint(store, "publish_tx", "x", "undone")
        waiting = asyncio.create_task(events.recv())
        await asyncio.sleep(0)
        assert 1 == await stream.publish("real")

        assert b'"real"' == (await soon(waiting)).payload


async def test_a_rolled_back_savepoint_hides_no_notify(store):
    """A listener hears the notify that has a number of a savepoint that was rolled back."""
    async with store.listen("x") as wakes:
        await rolled_back_savepoint(store, "notify_tx", "x", None)
        await soon(wakes.recv())  # of the outer commit
        for _ in range(3):
            await store.notify("x", None)
            assert "x" == (await soon(wakes.recv())).channel


@pytest.fixture
def no_threads(monkeypatch):
    """A context in which no thread of some names can be started."""

    @contextlib.contextmanager
    def forbid(*names):
        start = threading.Thread.start

        def refuse(thread):
            if not names or thread.name.startswith(names):
                raise RuntimeError("can't start new thread")
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            yield

    return forbid


async def test_without_threads_a_store_does_not_open(path, no_threads):
    """`open` raises when no thread can be started, `close` ends, and a later open works."""
    store = SqliteStore(path)
    with no_threads(), pytest.raises(DatabaseError, match="can't start new thread"):
        await soon(store.open())
    await soon(store.open())
    assert 1 == await store.queue("x").enqueue(1)
    await soon(store.close())


@pytest.mark.parametrize("kind", ["listen", "subscribe", "wakes"])
async def test_without_threads_a_receiver_does_not_attach(store, no_threads, kind):
    """Attaching raises when no thread can be started; the next attach and `close` work."""
    attach = {
        "listen": lambda: store.listen("x"),
        "subscribe": lambda: store.stream("x").subscribe("me"),
        "wakes": store.queue("x").wakes,
    }[kind]
    with no_threads("alkstore-watcher"), pytest.raises(DatabaseError, match="new thread"):
        await soon(attach())
    async with await soon(attach()):
        pass
    await soon(store.close())


async def test_without_threads_no_transaction_begins(store, no_threads):
    """`begin_tx` raises when its driver gets no thread; the turn is free again."""
    with no_threads(), pytest.raises(DatabaseError):
        await soon(store.begin_tx())
    await soon(store.queue("x").enqueue(1))
    await soon(store.with_tx(lambda tx: tx.enqueue_tx("x", 2)))
    assert 2 == len(await store.queue("x").jobs())


@pytest.fixture
async def patient(path):
    """A store whose calls wait for their turn for longer than any test."""
    async with SqliteStore(path, opts=SqliteOpts(busy_timeout=1000)) as store:
        yield store


async def leave(lock, error=None) -> None:
    """Enter the lock's block and leave it, with or without an error."""
    async with lock:
        if error is not None:
            raise error


async def test_a_lock_left_in_ones_own_transaction_is_refused_at_once(patient):
    """Leaving `async with lock` while the task's own transaction is open does not wait."""
    lock = await patient.try_lock("l", "me", 60)
    async with asyncio.timeout(10), patient.begin_tx():
        with pytest.raises(DatabaseError, match="leave it after the transaction"):
            await leave(lock)
    assert await lock.release()


async def test_an_error_leaves_a_lock_in_ones_own_transaction_at_once(patient):
    """An error out of the lock's block goes on at once; the lease stays until it lapses."""
    lock = await patient.try_lock("l", "me", 60)
    async with asyncio.timeout(10), patient.begin_tx():
        with pytest.raises(KeyError):
            await leave(lock, KeyError())
    assert ["l"] == [lease.name for lease in await patient.locks()]


async def test_joined_engines_leave_no_compiler(store, path, ways):
    """However many engines are joined and dropped, their dialects and statements are not kept."""

    def compilers() -> int:
        gc.collect()
        return sum(isinstance(thing, Compiler) for thing in gc.get_objects())

    async def join_each() -> None:
        for kind in ways.JOINED:
            async with ways.owner_of(kind, path) as owner:
                await ways.settled(store.join(owner).enqueue_tx("x", 1))

    await join_each()
    alive, kept = compilers(), len(connection_drivers._compilers)
    for _ in range(3):
        await join_each()

    assert kept == len(connection_drivers._compilers)
    # Fewer is no leak: stores of tests before this one may go meanwhile.
    assert compilers() <= alive


async def test_no_subscriber_relies_on_a_look_that_was_not_yet_taken(store, path, monkeypatch):
    """A second subscription, made while the first still starts the watcher, is attached only
    when commits of others are seen.
    """
    gate = threading.Event()

    def slowly(name):
        assert gate.wait(30)
        return open_plain(name)

    monkeypatch.setattr(watcher, "open_plain", slowly)
    try:
        first = asyncio.ensure_future(_received(store.stream("x").subscribe("me")))
        second = asyncio.ensure_future(_received(store.stream("x").subscribe("you")))
        for _ in range(5):  # reads behind which the second's own would have come to its end
            await store.stream("x").bounds()
        assert [False, False] == [first.done(), second.done()]
    finally:
        gate.set()
    receivers = [await soon(first), await soon(second)]
    waiting = [asyncio.create_task(receiver.recv()) for receiver in receivers]
    await asyncio.sleep(0)
    async with SqliteStore(path) as other:
        await other.stream("x").publish(1)

    assert [b"1", b"1"] == [(await soon(task)).payload for task in waiting]


async def _received(attaching):
    return await attaching


def contents(path) -> bytes:
    """A file's bytes, read by another process: only SQLite opens a database in this one."""
    return subprocess.run(["cat", path], check=True, capture_output=True).stdout


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
async def test_a_file_in_another_encoding_is_refused_untouched(path, encoding):
    """A database in UTF-16 is refused by name; not a byte of it is changed."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA encoding='{encoding}'")
        connection.execute("CREATE TABLE mine (x)")
    before = contents(path)

    with pytest.raises(DatabaseError, match=encoding):
        await SqliteStore(path).open()

    assert before == contents(path)
    assert ["app.db"] == [file.name for file in path.parent.iterdir()]


class FailsOnce:
    """A connection on which the first question about a table finds the database busy."""

    def __init__(self, connection, table) -> None:
        self._connection = connection
        self._table = table

    def execute(self, sql, parameters=()):
        """Ask."""
        if self._table is not None and self._table in sql:
            self._table = None
            raise sqlite3.OperationalError("database is locked")
        return self._connection.execute(sql, parameters)


@pytest.mark.parametrize("table", ["__alkstore_events", "__alkstore_jobs", "__alkstore_schedules"])
async def test_a_look_that_failed_half_way_has_seen_nothing(store, path, table):
    """News found before a later question met a busy database are found by the next look."""
    topics = [
        Topic("channel", "x"),
        Topic("stream", "x"),
        Topic("queue", "x"),
        Topic("schedules", ""),
    ]
    await store.notify("x", None)
    await store.stream("x").publish(1)
    await store.queue("x").enqueue(1)
    await store.schedule("s", "@every 1s", "x", 1)
    probe = TableProbe(Compiler(sqlite.dialect(paramstyle="qmark")))
    with contextlib.closing(sqlite3.connect(path)) as plain:
        connection = FailsOnce(plain, table)
        with pytest.raises(sqlite3.OperationalError):
            probe(connection, lambda: topics)

        assert [(topic, mark) for topic, mark in zip(topics, [1, 1, None, None], strict=True)] == (
            probe(connection, lambda: topics)
        )


@pytest.fixture
def failing_commit(monkeypatch):
    """The driver's next commit of a transaction fails; counts all of them."""
    commits = []
    commit = aiosqlite.Connection.commit

    async def fail(connection):
        commits.append(connection)
        if len(commits) == 1:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        await commit(connection)

    monkeypatch.setattr(aiosqlite.Connection, "commit", fail)
    return commits


async def test_a_transactions_failed_commit_is_unknown_and_not_tried_again(store, failing_commit):
    """A handle's commit that fails says that the outcome is unknown; the next transaction has
    another connection.
    """
    with pytest.raises(DatabaseError, match="is unknown"):
        await store.with_tx(lambda tx: tx.enqueue_tx("x", "lost"))
    assert 1 == len(failing_commit)

    await soon(store.with_tx(lambda tx: tx.enqueue_tx("x", "next")))

    assert [b'"next"'] == [job.payload for job in await store.queue("x").jobs()]
    assert failing_commit[0] is not failing_commit[1]


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection", "Session", "Connection"])
async def test_an_error_of_the_database_quotes_nothing_of_ours(store, path, sql, ways, kind):
    """A refusal carries the driver's words, and of statement and payload nothing."""
    sql(
        "CREATE TRIGGER verdict BEFORE INSERT ON __alkstore_jobs "
        "BEGIN SELECT RAISE(ABORT, 'not today'); END"
    )

    async def enqueue_joined() -> None:
        async with ways.owner_of(kind, path) as owner:
            await ways.settled(owner.begin())
            await ways.settled(store.join(owner).enqueue_tx("x", "a secret"))

    for call in (
        lambda: store.queue("x").enqueue("a secret"),
        lambda: store.with_tx(lambda tx: tx.enqueue_tx("x", "a secret")),
        enqueue_joined,
    ):
        with pytest.raises(DatabaseError, match="not today") as caught:
            await call()
        assert "secret" not in str(caught.value)
        assert "INSERT" not in str(caught.value)


async def test_a_business_statement_that_fails_is_the_callers_own_error(store):
    """What the caller executes on `tx.connection` raises what SQLAlchemy raises."""
    with pytest.raises(Exception, match="no such table: missing"):
        await store.with_tx(
            lambda tx: tx.connection.execute(text("INSERT INTO missing VALUES (1)"))
        )
