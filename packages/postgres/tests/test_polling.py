"""Wakes without LISTEN: a look at the tables in an interval."""

import asyncio

import pytest

from alkstore_core import DatabaseError, StopToken
from alkstore_core.names import RECONNECTED
from alkstore_core.requests import SCHEDULES
from alkstore_core.spi import Fired, Topic
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.polling import PollingSignals

POLLING = PostgresOpts(poll_interval=0.02)
S = Topic("stream", "s")


@pytest.fixture
async def polling(postgres_url):
    """A store that does not listen."""
    async with PostgresStore(postgres_url, opts=POLLING) as store:
        yield store


@pytest.fixture
async def other(polling, postgres_url):
    """Another store on the database, whose commits it has to see."""
    async with PostgresStore(postgres_url) as store:
        yield store


class Tables:
    """What `look` sees, and how often it was called."""

    def __init__(self) -> None:
        self.seen = {}
        self.looks = 0
        self.failing = False

    async def look(self, topics):
        self.looks += 1
        if self.failing:
            raise DatabaseError("down")
        return {topic: what for topic, what in self.seen.items() if topic in topics}


@pytest.fixture
async def tables():
    """Signals over tables of the test's own making."""
    tables = Tables()
    tables.signals = PollingSignals(tables.look, 0.002, "test database")
    yield tables
    await tables.signals.end()


async def looked(tables, times=3):
    """Wait until it has looked so often."""
    until = tables.looks + times
    async with asyncio.timeout(10):
        while tables.looks < until:  # noqa: ASYNC110 - the interval is what is tested
            await asyncio.sleep(0.001)


async def test_jobs_wake(polling, other):
    """A job that another store enqueues wakes a worker."""
    async with polling.queue("q").wakes() as wakes:
        await other.queue("q").enqueue(1)
        async with asyncio.timeout(10):
            assert "q" == (await wakes.recv()).channel
        assert 1 == (await polling.queue("q").claim_one("w")).job.payload_as(int)


async def test_events_wake(polling, other):
    """Events that another store publishes reach a consumer, in order, each once."""
    async with polling.stream("s").subscribe("c") as events:
        for number in range(20):
            await other.stream("s").publish(number)
            if number % 3 == 0:
                await asyncio.sleep(0.03)
        async with asyncio.timeout(10):
            assert list(range(20)) == [(await events.recv()).payload_as(int) for _ in range(20)]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_late_commits_are_seen(polling, other, ends):
    """An event that commits after a later one, and an event that another transaction held back
    and then let go, reach a consumer.
    """
    async with polling.stream("s").subscribe("c") as events:
        tx = await other.begin_tx()
        await tx.publish_tx("s", "first")
        await other.stream("s").publish("second")
        await asyncio.sleep(0.1)
        assert not events._buffer
        await getattr(tx, ends)()
        expected = ["first", "second"] if ends == "commit" else ["second"]
        async with asyncio.timeout(10):
            assert expected == [(await events.recv()).payload_as(str) for _ in expected]


async def test_schedules_wake(polling, other):
    """A schedule that another store adds or removes wakes the leader's wait."""
    subscription = await polling._runtime.engine.signals.subscribe(SCHEDULES)
    await other.schedule("s", "@every 1h", "q", 1)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await subscription.wait()
    await other.unschedule("s")
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await subscription.wait()
    subscription.close()


async def test_schedules_are_run(polling, other):
    """A leader that does not listen fires what another store schedules."""
    stop = StopToken()
    async with polling.queue("q").wakes() as wakes:
        running = asyncio.create_task(polling.run_schedules(stop))
        await other.schedule("s", "@every 1s", "q", "fired")
        async with asyncio.timeout(20):
            await wakes.recv()
        stop.stop()
        await running
    assert "fired" == (await other.queue("q").claim_one("w")).job.payload_as(str)


async def test_channels_are_refused(polling):
    """A notify leaves nothing in the tables: listening says so, instead of hearing nothing."""
    with pytest.raises(DatabaseError, match="give listen_url"):
        await polling.listen("x")
    # Whoever listens elsewhere hears it.
    await polling.notify("x", 1)


async def test_no_session_is_kept(polling, sql):
    """There is no listening session; looks borrow a connection of the pool."""
    async with polling.queue("q").wakes():
        await asyncio.sleep(0.1)
        who = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'alkstore listener'"
        assert 0 == await sql.fetchval(who)


async def test_old_news_wake_nobody(tables):
    """What was there before `subscribe` returned is no wake; what comes later is one, once."""
    tables.seen = {S: 7, SCHEDULES: (1, 100, 0)}
    events, schedules = [await tables.signals.subscribe(topic) for topic in (S, SCHEDULES)]
    await looked(tables)
    assert (None, None) == (events._pending, schedules._pending)
    tables.seen = {S: 8, SCHEDULES: (1, 90, 0)}
    await looked(tables)
    assert [Fired.SIGNALLED] * 2 == [await events.wait(), await schedules.wait()]
    await looked(tables)
    assert (None, None) == (events._pending, schedules._pending)


async def test_nothing_is_looked_at_for_nobody(tables):
    """Without subscribers the database is left alone; with new ones it is looked at again."""
    subscription = await tables.signals.subscribe(S)
    await looked(tables)
    subscription.close()
    looks = tables.looks
    await asyncio.sleep(0.05)
    assert looks == tables.looks
    again = await tables.signals.subscribe(S)
    tables.seen = {S: 1}
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await again.wait()


async def test_an_outage_ends_in_a_reconnect_wake(tables, monkeypatch):
    """However many looks fail, subscribers stay and are told once one succeeds."""
    monkeypatch.setattr("alkstore_postgres.polling.LATEST", 0.005)
    subscription = await tables.signals.subscribe(S)
    tables.failing = True
    await looked(tables, 40)
    assert subscription._pending is None
    with pytest.raises(DatabaseError, match="down"):
        await tables.signals.subscribe(S)
    tables.failing = False
    async with asyncio.timeout(10):
        assert Fired.RECONNECTED is await subscription.wait()


async def test_a_restarted_server_is_looked_at_again(own_server):
    """After a restart every receiver is told, and a consumer gets what it missed."""
    async with PostgresStore(own_server.url, opts=POLLING) as store:
        wakes = await store.queue("q").wakes()
        events = await store.stream("s").subscribe("c")
        await asyncio.to_thread(own_server.stop)
        await asyncio.sleep(0.1)
        await asyncio.to_thread(own_server.start)
        async with PostgresStore(own_server.url) as other:
            await other.stream("s").publish("meanwhile")
        async with asyncio.timeout(60):
            assert RECONNECTED == (await wakes.recv()).channel
            assert "meanwhile" == (await events.recv()).payload_as(str)


async def test_end_closes_all(tables):
    """After `end` every subscription has closed, and later ones close at once."""
    subscription = await tables.signals.subscribe(S)
    await tables.signals.end()
    assert Fired.CLOSED is await subscription.wait()
    looks = tables.looks
    assert Fired.CLOSED is await (await tables.signals.subscribe(S)).wait()
    await asyncio.sleep(0.02)
    assert looks + 1 == tables.looks
