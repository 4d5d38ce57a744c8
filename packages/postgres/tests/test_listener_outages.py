"""The listener after terminated sessions, restarts, crashes, silence, and outages of any length."""

import asyncio
import itertools
import logging
import signal
import time
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

from alkstore_core import DatabaseError
from alkstore_core.names import RECONNECTED
from alkstore_core.spi import Fired, Topic
from alkstore_postgres import PostgresOpts, PostgresStore, listener

pytestmark = pytest.mark.once


X = Topic("channel", "x")

TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'alkstore listener' AND datname = current_database()"
)
IDLE_IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE application_name LIKE 'alkstore%' AND state LIKE 'idle in transaction%'"
)


@pytest.fixture
def impatient(monkeypatch):
    """A listener that tries again soon."""
    monkeypatch.setattr(listener, "SOONEST", 0.01)
    monkeypatch.setattr(listener, "LATEST", 0.05)


@pytest.fixture
def lines(caplog):
    """What the listener has logged so far."""
    caplog.set_level(logging.INFO, "alkstore_postgres")
    return lambda: [r.getMessage() for r in caplog.records if r.name == listener.__name__]


async def until(condition, within=30.0):
    """Wait until it holds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - of the server, or of many
            await asyncio.sleep(0.01)


async def soon(subscription, within=30.0):
    """Why a subscription wakes next."""
    async with asyncio.timeout(within):
        return await subscription.wait()


async def test_a_terminated_session_costs_nobody_anything(store, sql, postgres_url):
    """When an operator ends the listener's session, over and over, every receiver of a channel or
    queue is told so, a consumer gets every event, nobody closes, and no session of ours is ever
    idle in a transaction.
    """
    receiver = await store.listen("x")
    wakes = await store.queue("q").wakes()
    events = await store.stream("s").subscribe("c")
    async with PostgresStore(postgres_url) as other:
        for number in range(5):
            assert [(True,)] == [tuple(row) for row in await sql.fetch(TERMINATE)]
            await other.stream("s").publish(number)
            async with asyncio.timeout(30):
                assert number == (await events.recv()).payload_as(int)
                assert RECONNECTED == (await receiver.recv()).channel
                assert RECONNECTED == (await wakes.recv()).channel
            assert 0 == await sql.fetchval(IDLE_IN_TRANSACTION)
        await other.notify("x", 1)
        async with asyncio.timeout(30):
            assert "x" == (await receiver.recv()).channel


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restarted_server_is_listened_to_again(own_server, how):
    """After a restart or a crash of the server every receiver gets its reconnect wake and later
    notifications; a consumer gets what was published meanwhile; no receiver closes.
    """
    async with PostgresStore(own_server.url) as store:
        receiver = await store.listen("x")
        events = await store.stream("s").subscribe("c")
        await asyncio.to_thread(own_server.restart, how)
        # By somebody else, who is connected before our listener may be.
        async with PostgresStore(own_server.url) as other:
            await other.stream("s").publish("meanwhile")
            async with asyncio.timeout(60):
                assert RECONNECTED == (await receiver.recv()).channel
                assert "meanwhile" == (await events.recv()).payload_as(str)
            await other.notify("x", 1)
            await other.stream("s").publish("later")
            async with asyncio.timeout(30):
                assert "x" == (await receiver.recv()).channel
                assert "later" == (await events.recv()).payload_as(str)


async def test_listening_comes_before_the_reconnect_wake(signals_on, sql, proxy_to, postgres_url):
    """Whoever reads on a reconnect wake and finds nothing is woken by whatever commits next:
    all channels are listened on again before anybody wakes.
    """
    proxy = await proxy_to(postgres_url)
    signals = signals_on(proxy.url)
    topics = [Topic("channel", f"c{number}") for number in range(50)]
    subscriptions = [await signals.subscribe(topic) for topic in topics]
    for _ in range(5):
        proxy.cut()
        assert {Fired.RECONNECTED} == {await soon(subscription) for subscription in subscriptions}
        for topic in topics:
            await sql.execute("SELECT pg_notify($1, '')", topic.name)
        assert {Fired.SIGNALLED} == {await soon(subscription) for subscription in subscriptions}


async def test_a_silent_peer_is_noticed(signals_on, sql, proxy_to, postgres_url):
    """A server that says nothing any more, on a connection that looks alive, is asked and given
    up; with what is set by default that takes under a minute.
    """
    assert 60 > listener.LIVENESS + listener.PATIENCE
    proxy = await proxy_to(postgres_url)
    signals = signals_on(proxy.url, liveness=0.3, patience=0.5, connect_timeout=0.5)
    subscription = await signals.subscribe(X)
    proxy.stall()
    begun = time.monotonic()
    await sql.execute("NOTIFY x")
    await until(lambda: proxy.connections > 1, within=5)
    assert 0.3 < time.monotonic() - begun
    proxy.resume()
    assert Fired.RECONNECTED is await soon(subscription)
    await sql.execute("NOTIFY x")
    assert Fired.SIGNALLED is await soon(subscription)


async def test_nothing_is_lost_in_the_silence(proxy_to, postgres_url):
    """A consumer and workers whose listener was cut off silently get all that was committed
    meanwhile, as soon as the silence is noticed.
    """
    proxy = await proxy_to(postgres_url)
    opts = PostgresOpts(listen_url=proxy.url)
    async with (
        PostgresStore(postgres_url, opts=opts) as store,
        PostgresStore(postgres_url) as other,
    ):
        ears = store._runtime.engine.signals._listener
        ears._liveness = ears._patience = ears._connect_timeout = 0.3
        events = await store.stream("s").subscribe("c")
        wakes = await store.queue("q").wakes()
        receiver = await store.listen("x")
        proxy.stall()
        for number in range(10):
            await other.stream("s").publish(number)
        await other.queue("q").enqueue("meanwhile")
        asyncio.get_running_loop().call_later(1.0, proxy.resume)
        async with asyncio.timeout(30):
            assert list(range(10)) == [(await events.recv()).payload_as(int) for _ in range(10)]
            assert await wakes.recv()
            assert RECONNECTED == (await receiver.recv()).channel
        assert "meanwhile" == (await store.queue("q").claim_one("w")).job.payload_as(str)


async def test_a_silent_peer_keeps_nobody_from_subscribing(signals_on, proxy_to, postgres_url):
    """Subscribing while the peer is silent fails or succeeds in bounded time."""
    proxy = await proxy_to(postgres_url)
    signals = signals_on(proxy.url, patience=0.3, connect_timeout=0.3)
    kept = await signals.subscribe(X)
    proxy.stall()
    async with asyncio.timeout(10):
        with pytest.raises(DatabaseError, match="cannot listen to the test database: no answer"):
            await signals.subscribe(Topic("channel", "y"))
    proxy.resume()
    async with asyncio.timeout(10):
        await signals.subscribe(Topic("channel", "y"))
    assert Fired.RECONNECTED is await soon(kept)


async def test_no_outage_is_too_long(impatient, signals_on, lines, proxy_to, postgres_url):
    """Hundreds of failed attempts neither end the listener nor close a receiver; each makes one
    line in the log.
    """
    proxy = await proxy_to(postgres_url)
    signals = signals_on(proxy.url)
    subscription = await signals.subscribe(X)
    proxy.refuse()
    proxy.cut()
    await until(lambda: proxy.connections > 200)
    proxy.refuse(refusing=False)
    assert Fired.RECONNECTED is await soon(subscription)
    told = lines()
    assert told[0].startswith("no longer listening to the test database: ")
    assert all("trying again in 0.0 s" in line for line in told[1:-1])
    assert "listening to the test database again" == told[-1]
    # The first connection was no attempt to reconnect, and the last one succeeded.
    assert proxy.connections == len(told)


def test_pauses_grow_to_half_a_minute_and_differ():
    """Attempts are further and further apart, at most 30 s, and not in step with others'."""
    pauses = []

    async def attempt(failures):
        made = listener.Listener(None, lambda: "x", None, None, describe="database")
        made._failures = failures
        made._bell.wait = asyncio.Event().wait
        waiting = asyncio.create_task(made._pause(OSError("down"), lost=False))
        await asyncio.sleep(0)
        pauses.append(asyncio.get_running_loop()._scheduled[0].when() - time.monotonic())
        waiting.cancel()

    for failures in itertools.chain(range(12), (10**6,)):
        asyncio.run(attempt(failures))
    assert all(0.1 * 2**n / 2 - 0.05 <= pauses[n] <= 0.1 * 2**n for n in range(9))
    assert all(14.5 < pause <= 30 for pause in pauses[9:])
    assert len(set(pauses)) == len(pauses)


async def test_no_password_is_logged(impatient, lines, own_server, signals_on):
    """Whatever goes wrong while connecting, the log and the error hold no password."""
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE somebody LOGIN PASSWORD 'correct horse'")
    access = own_server.data / "pg_hba.conf"
    access.write_text(access.read_text().replace("trust", "scram-sha-256"))
    await asyncio.to_thread(own_server.stop)
    secret = "s3cr3t"  # and wrong
    url = urlsplit(own_server.url)._replace(netloc=f"somebody:{secret}@127.0.0.1:{own_server.port}")
    signals = signals_on(url.geturl())
    with pytest.raises(DatabaseError) as refused:
        await signals.subscribe(X)
    own_server.start(ready=False)
    # Until it has started it refuses for other reasons.
    denied = ""
    while "password authentication failed" not in denied:
        with pytest.raises(DatabaseError) as error:
            await signals.subscribe(X)
        denied = str(error.value)
    told = "\n".join([str(refused.value), denied, *lines()])
    assert "cannot listen to the test database" in told
    assert secret not in told


async def test_subscribing_during_an_outage_fails_at_once(impatient, signals_on, own_server):
    """Whoever subscribes while the server is away gets an error, not a receiver that hears
    nothing and not a call that hangs; the receivers that are there stay.
    """
    signals = signals_on(own_server.url)
    subscription = await signals.subscribe(X)
    await asyncio.to_thread(own_server.stop)
    async with asyncio.timeout(10):
        with pytest.raises(DatabaseError, match="cannot listen to the test database: "):
            await signals.subscribe(X)
    await asyncio.to_thread(own_server.start)
    async with asyncio.timeout(30):
        await signals.subscribe(X)
    assert Fired.RECONNECTED is await soon(subscription)


async def test_a_standby_is_not_listened_to(impatient, signals_on, lines, own_server):
    """A server that came back read-only never notifies; the listener tries on until it leads."""
    signals = signals_on(own_server.url)
    subscription = await signals.subscribe(X)
    await asyncio.to_thread(own_server.stop)
    (own_server.data / "standby.signal").touch()
    await asyncio.to_thread(own_server.start)
    await until(lambda: any("during recovery" in line for line in lines()))
    assert subscription._pending is None
    connection = await asyncpg.connect(own_server.url)
    assert await connection.fetchval("SELECT pg_promote()")
    assert Fired.RECONNECTED is await soon(subscription)
    await connection.execute("NOTIFY x")
    assert Fired.SIGNALLED is await soon(subscription)
    await connection.close()


async def test_a_session_on_a_demoted_server_is_given_up(monkeypatch, signals_on, postgres_url):
    """Where a failover leaves the session on what is a standby then, it is left for another."""
    monkeypatch.setattr(listener, "ALIVE", "SELECT false")
    signals = signals_on(postgres_url, liveness=0.05)
    subscription = await signals.subscribe(X)
    assert Fired.RECONNECTED is await soon(subscription)


async def test_closing_does_not_wait_for_the_server(signals_on, proxy_to, postgres_url, own_server):
    """`end` is quick while connected to a silent peer, while connecting, and between attempts;
    every subscription closes.
    """
    proxy = await proxy_to(postgres_url)
    silent, connecting = signals_on(proxy.url), signals_on(proxy.url)
    first = await silent.subscribe(X)
    proxy.stall()
    second = asyncio.create_task(connecting.subscribe(X))
    between = signals_on(own_server.url)
    third = await between.subscribe(X)
    await asyncio.to_thread(own_server.stop)
    await asyncio.sleep(0.5)
    async with asyncio.timeout(5):
        for signals in (silent, connecting, between):
            await signals.end()
    assert [Fired.CLOSED] * 2 == [await soon(first), await soon(third)]
    with pytest.raises(Exception, match="the store was closed"):
        await second
