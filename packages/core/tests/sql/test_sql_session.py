"""Sessions over ops: who is woken, when, and with which mark."""

import pytest

from alkstore_core import DatabaseError
from alkstore_core.spi import Claim, Entry, Session, Topic
from alkstore_core.sql.connection_drivers import ConnectionDriver
from alkstore_core.sql.session import SqlSession, SqlTxSession

CHANNEL = Topic("channel", "c")
QUEUE = Topic("queue", "q")
STREAM = Topic("stream", "s")
LOCK = Topic("lock", "l")


class Woken(list):
    """What was fired, in order."""

    def __call__(self, topic, mark):
        self.append((topic, mark))


@pytest.fixture
def woken():
    """Collects wakes."""
    return Woken()


@pytest.fixture
def session(db, woken):
    """A session each of whose calls is on its own."""
    return SqlSession(ConnectionDriver(db.connection, lambda: db.now), woken)


async def test_every_primitive_is_there(session):
    """The session can be made: nothing of the seam is left abstract."""
    assert isinstance(session, Session)


async def test_what_changed_wakes(session, spec, woken):
    """Topics of a call that did something are fired, a stream's with its last offset."""
    await session.insert_jobs("q", [b"1"], spec(), wake=(QUEUE,))
    offsets = await session.append("s", [Entry(b"1"), Entry(b"2")], wake=(STREAM,))
    await session.signal((CHANNEL,))
    await session.signal((CHANNEL, QUEUE))
    assert [
        (QUEUE, None),
        (STREAM, offsets[-1]),
        (CHANNEL, 1),
        (CHANNEL, 2),
        (QUEUE, None),
    ] == woken


async def test_a_channel_beside_a_change_gets_its_mark(session, spec, woken):
    """A call may wake a channel too, which then is noted in the database with it."""
    await session.insert_jobs("q", [b"1"], spec(), wake=(QUEUE, CHANNEL))
    assert [(QUEUE, None), (CHANNEL, 1)] == woken


async def test_what_changed_nothing_wakes_nobody(session, spec, woken, db):
    """A stale claim, a lost lease, an empty batch: no news."""
    assert not await session.requeue("q", Claim(1, 1), 0, None, wake=(QUEUE, CHANNEL))
    assert 0 == await session.release("q", [Claim(1, 1)], wake=(QUEUE,))
    assert None is await session.redrive("q", 1, wake=(QUEUE,))
    assert not await session.release_lock("l", 1, wake=(LOCK,))
    assert not await session.delete_schedule("n", wake=(Topic("schedules", ""),))
    assert [] == await session.insert_jobs("q", [], spec(), wake=(QUEUE,))
    assert [] == woken
    assert [] == db.rows("SELECT * FROM __alkstore_channels")


async def test_a_transaction_wakes_after_its_commit(db, spec, woken):
    """Nothing is fired before the commit returned, each topic once, with its newest mark."""
    happened = []

    async def commit():
        happened.append(("commit", list(woken)))
        db.connection.commit()

    async def rollback():
        happened.append(("rollback",))

    driver = ConnectionDriver(db.connection, lambda: db.now)
    tx = SqlTxSession(driver, woken, db.connection, commit, rollback)
    await tx.insert_jobs("q", [b"1"], spec(), wake=(QUEUE,))
    await tx.append("s", [Entry(b"1")], wake=(STREAM,))
    await tx.append("s", [Entry(b"2")], wake=(STREAM,))
    await tx.signal((CHANNEL,))
    assert [b"1", b"2"] == [event.payload for event in await tx.read("s", 0, 10)]
    assert [] == woken
    await tx.commit()
    await tx.rollback()
    assert [("commit", [])] == happened
    assert [(QUEUE, None), (STREAM, None), (CHANNEL, None)] == woken


async def test_a_rollback_wakes_nobody(db, woken):
    """A rollback forgets the wakes, and happens once."""
    happened = []

    async def commit():
        happened.append("commit")

    async def rollback():
        happened.append("rollback")
        db.connection.rollback()

    driver = ConnectionDriver(db.connection, lambda: db.now)
    tx = SqlTxSession(driver, woken, db.connection, commit, rollback)
    await tx.signal((CHANNEL,))
    await tx.rollback()
    await tx.rollback()
    assert ["rollback"] == happened
    assert [] == woken
    assert [] == db.rows("SELECT * FROM __alkstore_channels")


async def test_a_driver_error_is_opaque(db, session):
    """What the database refuses is a `DatabaseError` with the driver's error as its cause."""
    db.connection.exec_driver_sql("DROP TABLE __alkstore_jobs")
    with pytest.raises(DatabaseError, match="no such table") as caught:
        await session.get_job("q", 1)
    assert "OperationalError" == type(caught.value.__cause__).__name__


async def test_an_op_sees_one_time(db, session):
    """The clock is read once however many statements an op has."""
    ticks = iter(range(1_000, 2_000))
    session = SqlSession(ConnectionDriver(db.connection, lambda: next(ticks)), Woken())
    token = await session.acquire("l", "a", 10)
    (lock,) = await session.list_locks()
    assert (token, 1_010) == (lock.token, lock.expires_at)
    assert 1_002 == next(ticks)
