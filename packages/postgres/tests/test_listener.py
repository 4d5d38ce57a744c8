"""The listener: what is heard, by whom, on which connection, and for how long."""

import asyncio
import gc
import socket

import asyncpg
import pytest
from server import sqlalchemy_url
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import Closed, DatabaseError
from alkstore_core.spi import Fired, Topic
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.channels import channel_of
from alkstore_postgres.outside import KEEPALIVE, make_lasting

X = Topic("channel", "x")

LISTENERS = (
    "SELECT state, xact_start IS NULL AS outside, query FROM pg_stat_activity "
    "WHERE application_name = 'alkstore listener' AND datname = current_database()"
)


async def pending(subscription):
    """What a subscription has to say now, or `None`."""
    try:
        async with asyncio.timeout(0.05):
            return await subscription.wait()
    except TimeoutError:
        return None


async def notify(sql, topic, schema="alkstore"):
    """Notify as the store's own statements do."""
    await sql.execute("SELECT pg_notify($1, '')", channel_of(schema, topic))


async def listening(sql, number):
    """Wait until so many sessions of listeners are there; return what they do."""
    async with asyncio.timeout(20):
        while len(found := await sql.fetch(LISTENERS)) != number:  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.01)
    return found


async def test_a_listener_cancelled_before_it_began_ends(signals_on, postgres_url):
    """Whoever waits for a task that was cancelled before its first step hears of it; closing ends,
    and without it the next one is listened for.
    """
    for closing in (True, False):
        signals = signals_on(postgres_url)
        waiting = asyncio.create_task(signals.subscribe(X))
        while signals._listener._task is None:  # noqa: ASYNC110 - its next turn is too late
            await asyncio.sleep(0)
        signals._listener._task.cancel()
        async with asyncio.timeout(10):
            if closing:
                await signals.end()
            with pytest.raises(Closed if closing else DatabaseError, match=r"closed|was cancelled"):
                await waiting
            if not closing:
                await signals.subscribe(X)


async def test_every_commit_after_a_subscription_wakes_it(signals_on, sql, postgres_url):
    """What is committed once `subscribe` has returned wakes it, however soon after."""
    signals = signals_on(postgres_url)
    for number in range(100):
        topic = Topic("channel", f"c{number}")
        subscription = await signals.subscribe(topic)
        await notify(sql, topic)
        async with asyncio.timeout(10):
            assert Fired.SIGNALLED is await subscription.wait()


async def test_no_commit_before_a_subscription_wakes_it(signals_on, sql, postgres_url, proxy_to):
    """What was committed before `subscribe` began wakes nobody, not even where its
    notification is still on its way to an older subscription of the same topic.
    """
    proxy = await proxy_to(postgres_url)
    signals = signals_on(proxy.url)
    oldest = await signals.subscribe(X)
    proxy.delay = 0.01
    for number in range(10):
        other = Topic("channel", f"c{number}")
        await notify(sql, other)
        fresh = [await signals.subscribe(other)]
        await notify(sql, X)
        assert oldest._pending is None
        fresh.append(await signals.subscribe(X))
        assert Fired.SIGNALLED is await oldest.wait()
        assert [None, None] == [await pending(subscription) for subscription in fresh]


@pytest.mark.parametrize(
    "name",
    [
        "MixedCase",
        'quo"ted',
        "semi;colon -- and 'more'",
        "a" * 63,
        "a" * 64,
        "ü" * 31 + "a",
        "ü" * 32,
        "é€😀" * 20,
        "x" * 255,
    ],
)
async def test_both_sides_agree_on_names(signals_on, sql, postgres_url, name):
    """A channel of any legal name is heard, and no other is, also where Postgres would cut
    both names to the same 63 bytes.
    """
    signals = signals_on(postgres_url)
    topic = Topic("channel", name)
    meant = await signals.subscribe(topic)
    others = [
        await signals.subscribe(Topic("channel", other))
        for other in (name[:-1] + "!", name.swapcase() + "-", name + "-")
        if len(other.encode()) <= 255
    ]
    await notify(sql, topic)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await meant.wait()
    assert {None} == {await pending(other) for other in others}


async def test_topics_of_one_name_are_apart(signals_on, sql, postgres_url):
    """A channel, a queue and a stream of one name are three topics, and schemas have their own
    queues and streams.
    """
    here, there = signals_on(postgres_url), signals_on(postgres_url, schema="other")
    topics = [Topic(kind, "x") for kind in ("channel", "queue", "stream", "schedules")]
    heard = [await here.subscribe(topic) for topic in topics]
    elsewhere = [await there.subscribe(topic) for topic in topics]
    for number, topic in enumerate(topics):
        await notify(sql, topic)
        async with asyncio.timeout(10):
            assert Fired.SIGNALLED is await heard[number].wait()
        assert [None] * 4 == [await pending(subscription) for subscription in heard]
    # What callers call their channels belongs to the database.
    assert Fired.SIGNALLED is await pending(elsewhere[0])
    assert [None] * 3 == [await pending(subscription) for subscription in elsewhere[1:]]


async def test_a_trigger_wakes_receivers(store, sql):
    """Whoever notifies a channel by plain SQL wakes its receivers."""
    async with store.listen("orders changed") as receiver:
        await sql.execute("""NOTIFY "orders changed", 'a payload of theirs'""")
        async with asyncio.timeout(10):
            assert "orders changed" == (await receiver.recv()).channel


async def test_hundreds_of_receivers_share_one_session(store, sql):
    """Receivers cost no sessions: all are woken by way of one, which stands outside of
    transactions.
    """
    receivers = await asyncio.gather(*[store.listen(f"c{n % 150}") for n in range(300)])
    ((state, outside, _),) = await listening(sql, 1)
    assert ("idle", True) == (state, outside)
    for number in range(150):
        await sql.execute("SELECT pg_notify($1, '')", f"c{number}")
    async with asyncio.timeout(20):
        woken = [(await receiver.recv()).channel for receiver in receivers]
    assert [f"c{n % 150}" for n in range(300)] == woken
    for receiver in receivers:
        await receiver.close()


async def test_nobody_is_listened_for_any_more(signals_on, sql, postgres_url):
    """When the last subscriber of a topic leaves, closed or lost, the server need not tell of
    it any more; after the last of all the connection ends by itself.
    """
    signals = signals_on(postgres_url, liveness=0.3)
    first, second = await signals.subscribe(X), await signals.subscribe(X)
    other = await signals.subscribe(Topic("channel", "y"))
    first.close()
    await signals.subscribe(Topic("queue", "z"))  # lost at once
    gc.collect()
    await notify(sql, X)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await second.wait()
    del second
    gc.collect()
    async with asyncio.timeout(10):
        while (await listening(sql, 1))[0]["query"] != 'UNLISTEN "x"':  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    other.close()
    await listening(sql, 0)
    # And begins anew.
    again = await signals.subscribe(X)
    await notify(sql, X)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await again.wait()


async def test_a_cancelled_subscription_leaves_nothing(signals_on, sql, postgres_url):
    """Cancelling `subscribe` at whatever moment leaves neither a topic nor a deaf listener."""
    signals = signals_on(postgres_url)
    kept = await signals.subscribe(X)
    for number in range(60):
        task = asyncio.create_task(signals.subscribe(Topic("queue", str(number))))
        await asyncio.sleep(number * 0.00005)
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result().close()
    assert [X] == list(signals.topics)
    await notify(sql, X)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await kept.wait()


async def test_close_is_clean(postgres_url, sql):
    """After `close` there is no session, no task, and every receiver has ended."""
    before = asyncio.all_tasks()
    store = PostgresStore(postgres_url)
    await store.open()
    receiver = await store.listen("x")
    events = await store.stream("s").subscribe("c")
    wakes = await store.queue("q").wakes()
    await store.close()
    assert [None, None, None] == [await r.recv() for r in (receiver, events, wakes)]
    await listening(sql, 0)
    await asyncio.sleep(0)
    assert before == asyncio.all_tasks()


async def test_held_transactions_do_not_keep_it_from_listening(postgres_url, sql):
    """With every connection of the pool in a transaction, a receiver attaches and wakes."""
    opts = PostgresOpts(pool_size=1, pool_timeout=0.5)
    async with (
        PostgresStore(postgres_url, opts=opts) as store,
        store.begin_tx(),
        store.listen("x") as receiver,
    ):
        await sql.execute("NOTIFY x")
        async with asyncio.timeout(10):
            assert "x" == (await receiver.recv()).channel


async def test_an_applications_engine_is_listened_like(postgres_url, sql):
    """On an application's engine the listener connects as that does, not out of its pool, and
    what the application does on "connect" leaves it in no transaction.
    """
    engine = create_async_engine(
        sqlalchemy_url(postgres_url),
        pool_size=1,
        max_overflow=0,
        connect_args={"server_settings": {"search_path": "the_applications"}},
    )
    connected = []

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(dbapi, record):
        cursor = dbapi.cursor()
        cursor.execute("SELECT 1")
        cursor.close()
        connected.append(dbapi)

    try:
        async with PostgresStore(engine) as store, store.listen("x") as receiver:
            number = len(connected)
            ((state, outside, _),) = await listening(sql, 1)
            assert ("idle", True) == (state, outside)
            await sql.execute("NOTIFY x")
            async with asyncio.timeout(10):
                assert "x" == (await receiver.recv()).channel
            async with engine.connect():
                assert number == len(connected)
    finally:
        await engine.dispose()


async def test_a_silent_network_is_probed_from_both_ends(postgres_url):
    """The system sends keepalives on the listener's connection, and so does the server's."""
    connection = await asyncpg.connect(postgres_url)
    await make_lasting(connection, "kept alive")
    plug = connection._transport.get_extra_info("socket")
    assert 1 == plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert 15 == plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert 45 >= KEEPALIVE["TCP_KEEPIDLE"] + KEEPALIVE["TCP_KEEPINTVL"] * KEEPALIVE["TCP_KEEPCNT"]
    assert "15" == await connection.fetchval("SHOW tcp_keepalives_idle")
    assert "kept alive" == await connection.fetchval("SHOW application_name")
    await connection.close()


async def test_sites_that_end_idle_sessions_leave_it_alone(signals_on, sql, postgres_url):
    """`idle_session_timeout` of the database does not end a listener that only waits."""
    name = await sql.fetchval("SELECT current_database()")
    await sql.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '100ms'")
    signals = signals_on(postgres_url)
    subscription = await signals.subscribe(X)
    await asyncio.sleep(0.5)
    assert None is await pending(subscription)
    await notify(sql, X)
    async with asyncio.timeout(10):
        assert Fired.SIGNALLED is await subscription.wait()


async def test_a_wrong_listen_url_is_refused(postgres_url, databases):
    """A `listen_url` that leads to another database would be deaf for ever: an error says so."""
    with databases.empty() as elsewhere:
        opts = PostgresOpts(listen_url=elsewhere)
        async with PostgresStore(postgres_url, opts=opts) as store:
            with pytest.raises(DatabaseError, match="listen_url leads to another database"):
                await store.listen("x")


async def test_a_right_listen_url_is_taken(postgres_url, sql, proxy_to):
    """With a `listen_url` only that address is listened on."""
    proxy = await proxy_to(postgres_url)
    opts = PostgresOpts(listen_url=proxy.url)
    async with PostgresStore(postgres_url, opts=opts) as store, store.listen("x") as receiver:
        await sql.execute("NOTIFY x")
        async with asyncio.timeout(10):
            assert "x" == (await receiver.recv()).channel
        assert 1 == proxy.connections


async def test_a_pooler_without_another_address_is_refused(postgres_url):
    """Behind a pooler in transaction mode nothing would ever be heard: an error says so."""
    async with PostgresStore(postgres_url, opts=PostgresOpts(pgbouncer=True)) as store:
        with pytest.raises(DatabaseError, match="give listen_url"):
            await store.listen("x")
        # The rest works.
        assert 1 == await store.queue("q").enqueue(1)


@pytest.mark.alone
async def test_another_processes_commit_wakes_within_two_milliseconds(postgres_url, spawn):
    """From the call of `notify` in one process to the wake in another, at the median."""
    async with PostgresStore(postgres_url) as store:
        child = await spawn("echo.py", postgres_url)
        async with store.listen("pong") as receiver:
            trips = []
            for _ in range(300):
                begun = asyncio.get_running_loop().time()
                await store.notify("ping", None)
                async with asyncio.timeout(10):
                    await receiver.recv()
                trips.append(asyncio.get_running_loop().time() - begun)
        child.terminate()
        # There and back: two notifies, two wakes.
        assert 0.004 > sorted(trips)[150]


async def test_sessions_are_called_as_the_url_says(postgres_url, sql):
    """A name that the URL gives is that of every session, so that an operator knows whose it is."""
    url = f"{postgres_url}?application_name=shop"
    async with PostgresStore(url) as store, store.listen("news"):
        named = await sql.fetch(
            "SELECT application_name FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY 1"
        )
    assert ["shop", "shop listener"] == [name for (name,) in named]
