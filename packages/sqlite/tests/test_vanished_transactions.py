"""Transactions that SQLite, or somebody with hold of the connection, ended behind our back."""

import asyncio
import contextlib

import pytest
import pytest_asyncio
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from alkstore_core import DatabaseError
from alkstore_sqlite import SqliteStore

KINDS = ["handle", "AsyncSession", "AsyncConnection", "Session", "Connection"]
CAUSES = ["a trigger", "the caller's statement"]


@pytest_asyncio.fixture
async def store(path, sql):
    """A store beside a business table; a trigger rolls back what enqueues to `bad`."""
    sql("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
    async with SqliteStore(path) as store:
        sql(
            "CREATE TRIGGER verdict BEFORE INSERT ON __alkstore_jobs WHEN NEW.queue = 'bad' "
            "BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
        )
        yield store


class Transaction:
    """A handle or a joined transaction, used alike."""

    def __init__(self, tx, execute, commit, rollback, settled) -> None:
        self.tx = tx
        self._execute = execute
        self._commit = commit
        self._rollback = rollback
        self._settled = settled

    async def call(self, name, *args):
        """A `*_tx` call."""
        return await self._settled(getattr(self.tx, name)(*args))

    async def insert(self, number, how="") -> None:
        """A business row."""
        await self._settled(self._execute(text(f"INSERT {how} INTO orders VALUES ({number})")))

    async def commit(self) -> None:
        """End well."""
        await self._settled(self._commit())

    async def rollback(self) -> None:
        """End without a trace."""
        await self._settled(self._rollback())

    async def vanish(self, cause) -> None:
        """Write a row and a job, then let SQLite roll back by itself; the error is caught."""
        await self.insert(1)
        await self.call("enqueue_tx", "mail", "before")
        bad = (
            self.call("enqueue_tx", "bad", 1)
            if cause == "a trigger"
            else self.insert(1, "OR ROLLBACK")
        )
        with pytest.raises(Exception, match=r"no|UNIQUE"):
            await bad


@pytest.fixture
def begun(store, path, ways):
    """Begin a transaction of some kind; nobody but the test ends it."""

    @contextlib.asynccontextmanager
    async def begin(kind):
        if kind == "handle":
            tx = await store.begin_tx()
            execute = tx.connection.execute
            yield Transaction(tx, execute, tx.commit, tx.rollback, ways.settled)
            await tx.rollback()
            return
        async with ways.owner_of(kind, path) as owner:
            await ways.settled(owner.begin())
            yield Transaction(
                store.join(owner), owner.execute, owner.commit, owner.rollback, ways.settled
            )

    return begin


async def traces(store, sql) -> tuple[list, list, list]:
    """Business rows, jobs and events."""
    jobs = [job.payload for job in await store.queue("mail").jobs()]
    events = [event.payload for event in await store.stream("x").read_since(0, 10)]
    return sql("SELECT number FROM orders"), jobs, events


NOTHING = ([], [], [])

LATER = {
    "enqueue_tx": lambda tx: tx.call("enqueue_tx", "mail", "after"),
    "publish_tx": lambda tx: tx.call("publish_tx", "x", "after"),
    "get_offset_tx": lambda tx: tx.call("get_offset_tx", "x", "me"),
    "a business row": lambda tx: tx.insert(2),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_goes_on_in_a_vanished_transaction(store, sql, begun, kind, cause, later):
    """After SQLite rolled back by itself each call and statement is refused, nothing stays."""
    async with begun(kind) as tx:
        await tx.vanish(cause)
        with pytest.raises(DatabaseError, match="no longer there"):
            await LATER[later](tx)
        await tx.rollback()

    assert NOTHING == await traces(store, sql)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_vanished_transaction_does_not_commit(store, sql, begun, kind, cause):
    """The commit of a transaction that SQLite rolled back is an error, nothing stays."""
    async with begun(kind) as tx:
        await tx.vanish(cause)
        with pytest.raises(DatabaseError):
            await tx.commit()

    assert NOTHING == await traces(store, sql)


async def test_a_block_with_a_vanished_transaction_does_not_end_well(store, sql):
    """`transaction()` raises when a business statement, whose error was caught, ended it."""

    async def work(tx) -> None:
        await tx.enqueue_tx("mail", "before")
        await tx.connection.execute(text("INSERT INTO orders VALUES (1)"))
        with contextlib.suppress(Exception):
            await tx.connection.execute(text("INSERT OR ROLLBACK INTO orders VALUES (1)"))

    with pytest.raises(DatabaseError, match="no longer there"):
        await store.with_tx(work)

    assert NOTHING == await traces(store, sql)


ENDINGS = {
    "rollback": lambda connection: connection.rollback(),
    "close": lambda connection: connection.close(),
    "ROLLBACK": lambda connection: connection.exec_driver_sql("ROLLBACK"),
}


@pytest.mark.parametrize("ending", [*ENDINGS, "commit", "COMMIT"])
async def test_nothing_is_written_after_the_connection_ended_it(store, sql, ending):
    """A handle whose connection was committed, rolled back or closed by hand writes no more."""
    endings = {
        **ENDINGS,
        "commit": lambda connection: connection.commit(),
        "COMMIT": lambda connection: connection.exec_driver_sql("COMMIT"),
    }
    async with store.begin_tx() as tx:
        await endings[ending](tx.connection)
        with pytest.raises(DatabaseError):
            await tx.enqueue_tx("mail", "after")

    assert NOTHING == await traces(store, sql)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_commit_after_the_connection_ended_it_is_an_error(store, sql, ending):
    """A handle does not report a commit of what its connection threw away."""

    async def work(tx) -> None:
        await tx.enqueue_tx("mail", "before")
        await ENDINGS[ending](tx.connection)

    with pytest.raises(DatabaseError):
        await store.with_tx(work)

    assert NOTHING == await traces(store, sql)


@pytest.mark.parametrize("ending", [*ENDINGS, "a trigger"])
async def test_the_next_writer_need_not_wait(store, begun, ending):
    """Whatever ended a transaction, the turn, the lock and the store are there for the next."""

    async def work(tx) -> None:
        if ending == "a trigger":
            await tx.enqueue_tx("bad", 1)
        else:
            await ENDINGS[ending](tx.connection)

    with pytest.raises(DatabaseError):
        await store.with_tx(work)

    async with asyncio.timeout(4):
        await store.queue("mail").enqueue("next")
        async with store.transaction() as tx:
            await tx.enqueue_tx("mail", "and next")
    assert [b'"next"', b'"and next"'] == [job.payload for job in await store.queue("mail").jobs()]


def with_foreign_keys(raw, _):
    """As an application turns them on, for each connection."""
    cursor = raw.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection", "Session", "Connection"])
async def test_a_commit_that_fails_frees_the_file(path, sql, ways, kind):
    """As for a deferred foreign key: nothing of it stays, nor its lock, and the next is well."""
    sql("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    sql(
        "CREATE TABLE children (parent INTEGER REFERENCES parents (id)"
        " DEFERRABLE INITIALLY DEFERRED)"
    )
    engine = ways.make_engine(kind, path)
    event.listen(getattr(engine, "sync_engine", engine), "connect", with_foreign_keys)
    owner = {"AsyncSession": AsyncSession, "Session": Session}.get(kind, type(engine).connect)(
        engine
    )

    async def done(answer):
        return await answer if kind.startswith("Async") else answer

    if kind == "AsyncConnection":
        await owner
    await done(owner.execute(text("INSERT INTO children VALUES (9)")))
    with pytest.raises(IntegrityError):
        await done(owner.commit())
    sql("BEGIN IMMEDIATE")

    await done(owner.rollback())
    await done(owner.execute(text("INSERT INTO parents VALUES (1)")))
    await done(owner.commit())
    await done(owner.close())
    await done(engine.dispose())
    assert [(1, None)] == sql("SELECT id, parent FROM parents LEFT JOIN children ON true")
