"""Wakes: after every commit that matters, from any process, at a cost that stays flat."""

import asyncio
import contextlib
import gc
import statistics
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from alkstore_core import DatabaseError, EnqueueOpts, ManualClock, QueueOpts, StopToken
from alkstore_core.sql.signals import CHANNELS_SINCE
from alkstore_sqlite import SqliteStore
from alkstore_sqlite import watcher as watcher_module
from alkstore_sqlite.probe import TableProbe


async def soon(awaitable):
    """What must come comes in time; the bound is for failures only."""
    async with asyncio.timeout(10):
        return await awaitable


async def nothing(receiver, fence) -> bool:
    """Whether a receiver has had no wake, once `fence`, fired later, has had one."""
    await soon(fence.recv())
    task = asyncio.ensure_future(receiver.recv())
    done, _ = await asyncio.wait([task], timeout=0.02)
    task.cancel()
    await asyncio.wait([task])
    return not done


@pytest.fixture(scope="module")
def receiving_process(spawn_for_module):
    """Another process, which waits for one wake after another."""
    return spawn_for_module("receiver.py")


WRITES = {
    "notify": lambda store: store.notify("x", 1),
    "publish": lambda store: store.stream("x").publish(1),
    "publish_with_key": lambda store: store.stream("x").publish_with_key("k", 1),
    "enqueue": lambda store: store.queue("x").enqueue(1),
    "enqueue_many": lambda store: store.queue("x").enqueue_many([1, 2]),
    "outbox": lambda store: store.outbox("x").enqueue(1),
    "notify_tx": lambda store: store.with_tx(lambda tx: tx.notify_tx("x", 1)),
    "publish_tx": lambda store: store.with_tx(lambda tx: tx.publish_tx("x", 1)),
    "enqueue_tx": lambda store: store.with_tx(lambda tx: tx.enqueue_tx("x", 1)),
    "outbox_tx": lambda store: store.with_tx(lambda tx: tx.outbox_enqueue_tx("x", 1)),
}


@pytest.mark.parametrize("write", WRITES)
async def test_own_commits_wake(store, write, receiver_for):
    """Each kind of write wakes its receivers in the same store, both of them."""
    async with receiver_for(write, store) as one, receiver_for(write, store) as two:
        await WRITES[write](store)

        assert await soon(one.recv()) is not None
        assert await soon(two.recv()) is not None


@pytest.mark.parametrize("write", WRITES)
async def test_commits_of_another_process_wake(store, path, receiving_process, write):
    """Each kind of write wakes its receivers in another process."""
    receiving_process.tell(path, write)
    await receiving_process.expect("waiting")
    await WRITES[write](store)

    await receiving_process.expect("woken")


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection", "Session", "Connection"])
async def test_a_joined_commit_wakes_the_own_process(store, path, ways, kind):
    """The application's own commit wakes receivers beside it, from a worker thread as well."""

    async def join_and_write() -> None:
        async with ways.owner_of(kind, path) as owner:
            tx = store.join(owner)
            await ways.settled(tx.notify_tx("x", 1))
            await ways.settled(tx.enqueue_tx("x", 1))
            await ways.settled(tx.publish_tx("x", 1))
            await ways.settled(owner.commit())

    async with (
        store.listen("x") as channel,
        store.queue("x").wakes() as queue,
        store.stream("x").subscribe("me") as events,
    ):
        if kind.startswith("Async"):
            await join_and_write()
        else:
            await asyncio.to_thread(asyncio.run, join_and_write())

        assert await soon(channel.recv()) is not None
        assert await soon(queue.recv()) is not None
        assert b"1" == (await soon(events.recv())).payload


async def test_commits_of_another_store_wake(store, path):
    """Two stores on one file in one process are strangers that wake each other."""
    async with SqliteStore(path) as other, store.listen("x") as receiver:
        await other.notify("x", 1)

        assert "x" == (await soon(receiver.recv())).channel


async def test_a_wake_names_what_was_listened_to(store):
    """A channel's wake says the channel, a queue's wakes say the queue."""
    async with store.listen("chan ☃") as channel, store.queue("line ☃").wakes() as queue:
        await store.notify("chan ☃", 1)
        await store.queue("line ☃").enqueue(1)

        assert "chan ☃" == (await soon(channel.recv())).channel
        assert "line ☃" == (await soon(queue.recv())).channel


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_one_name_is_a_channel_a_queue_and_a_stream(store, path, where):
    """`listen("x")` does not fire for a queue, an outbox or a stream named `x`."""
    async with SqliteStore(path) as other, store.listen("x") as x, store.listen("fence") as fence:
        writer = store if where == "here" else other
        await writer.queue("x").enqueue(1)
        await writer.stream("x").publish(1)
        await writer.outbox("x").enqueue(1)
        await writer.notify("y", 1)
        await writer.notify("fence", 1)

        assert await nothing(x, fence)
        await writer.notify("x", 1)
        assert "x" == (await soon(x.recv())).channel


async def test_a_rollback_wakes_nobody(store):
    """Signals of a transaction that was rolled back are forgotten."""
    async with store.listen("x") as x, store.listen("fence") as fence:
        async with store.begin_tx() as tx:
            await tx.notify_tx("x", 1)
        await store.notify("fence", 1)

        assert await nothing(x, fence)


async def test_a_receiver_starts_from_now(store, path):
    """A notify that was committed before the receiver attached never reaches it."""
    async with SqliteStore(path) as other:
        await other.notify("x", 1)
        await store.notify("x", 1)
        async with store.listen("x") as x, store.listen("fence") as fence:
            await other.notify("fence", 1)

            assert await nothing(x, fence)


async def test_wakes_are_a_level_not_a_list(store):
    """However many notifies nobody read, they are one wake; a later one is another."""
    async with store.listen("x") as x, store.listen("fence") as fence:
        for number in range(100):
            await store.notify("x", number)
        await soon(x.recv())
        await store.notify("fence", 1)

        assert await nothing(x, fence)
        await store.notify("x", 1)
        await soon(x.recv())


async def test_a_delayed_job_wakes_when_it_comes_due(store, clock):
    """`queue.wakes` fires when the nearest delayed job is ready, not while it is delayed."""
    queue = store.queue("x")
    await queue.enqueue("later", EnqueueOpts(delay=500))
    await queue.enqueue("sooner", EnqueueOpts(delay=100))
    async with queue.wakes() as wakes, store.listen("fence") as fence:
        with contextlib.suppress(TimeoutError):  # the wake of the past enqueue, if there is one
            async with asyncio.timeout(0.05):
                await wakes.recv()
        await clock.advance(99)
        await store.notify("fence", 1)
        assert await nothing(wakes, fence)
        assert await queue.claim_one("me") is None

        await clock.advance(1)
        await soon(wakes.recv())
        assert b'"sooner"' == (await queue.claim_one("me")).job.payload


async def test_a_delayed_job_of_another_process_wakes_when_it_comes_due(store, path, clock):
    """Jobs that others enqueue with a delay wake a store that only waits."""
    async with SqliteStore(path, clock=clock) as other, store.queue("x").wakes() as wakes:
        await other.queue("x").enqueue("later", EnqueueOpts(delay=100))
        with contextlib.suppress(TimeoutError):  # the hint of the enqueue itself
            async with asyncio.timeout(0.1):
                await wakes.recv()

        await clock.advance(100)
        await soon(wakes.recv())
        assert b'"later"' == (await store.queue("x").claim_one("me")).job.payload


async def test_a_lapsing_claim_wakes(store, clock):
    """`queue.wakes` fires when a claim lapses whose worker has vanished."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    await queue.enqueue("tea")
    await queue.claim_one("vanished")
    async with queue.wakes() as wakes:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await wakes.recv()
        await clock.advance(61)
        await soon(wakes.recv())

        assert 2 == (await queue.claim_one("me")).job.attempts


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_retry_wakes(store, path, where):
    """A job given back by `retry` wakes those who wait for it."""
    async with SqliteStore(path, clock=None) as other:
        queue = store.queue("x")
        await queue.enqueue("tea")
        handle = await queue.claim_one("me")
        waiting = queue if where == "here" else other.queue("x")
        async with waiting.wakes() as wakes:
            assert await handle.retry("again", 0)

            await soon(wakes.recv())


@pytest.mark.parametrize("kind", ["listen", "subscribe", "wakes"])
@pytest.mark.parametrize("end", ["store", "receiver", "token", "delete", "replace"])
async def test_receivers_end(path, tmp_path, kind, end):
    """A waiting receiver ends with its store, its own close, its stop token or its file."""
    stop = StopToken()
    store = SqliteStore(path)
    await store.open()
    async with SqliteStore(tmp_path / "another.db") as another:
        await another.notify("x", 1)
    receiver = await {
        "listen": lambda: store.listen("x", stop=stop),
        "subscribe": lambda: store.stream("x").subscribe("me", stop=stop),
        "wakes": lambda: store.queue("x").wakes(stop=stop),
    }[kind]()

    async def iterate() -> list:
        return [item async for item in receiver]

    waiting = asyncio.create_task(iterate())
    await asyncio.wait([waiting], timeout=0.02)
    match end:
        case "store":
            await store.close()
        case "receiver":
            await receiver.close()
        case "token":
            threading.Thread(target=stop.stop).start()
        case "delete":
            path.unlink()
        case "replace":
            (tmp_path / "another.db").replace(path)

    assert [] == await soon(waiting)
    assert await soon(receiver.recv()) is None
    await receiver.close()
    await store.close()


@pytest.mark.parametrize("fate", ["delete", "replace"])
async def test_a_file_that_is_gone_takes_no_more_writes(store, path, tmp_path, ways, fate):
    """Once the path names another file or none, writes are refused instead of lost."""
    async with SqliteStore(tmp_path / "another.db") as another:
        await another.notify("x", 1)
    async with ways.owner_of("AsyncSession", path) as owner:
        if fate == "delete":
            path.unlink()
        else:
            (tmp_path / "another.db").replace(path)

        for call in (
            lambda: store.queue("x").enqueue(1),
            lambda: store.queue("x").claim_one("me"),
            lambda: store.with_tx(lambda tx: tx.publish_tx("x", 1)),
            lambda: store.join(owner).enqueue_tx("x", 1),
        ):
            with pytest.raises(DatabaseError):
                await soon(call())


async def test_a_subscription_misses_nothing_between_read_and_wait(store, path):
    """Events published while a subscriber reads are delivered, in order, without a gap."""
    async with SqliteStore(path) as other:

        async def publish() -> None:
            for number in range(300):
                await (store if number % 2 else other).stream("x").publish(number)

        publishing = asyncio.create_task(publish())
        received = []
        async with store.stream("x").subscribe("me") as events:
            while len(received) < 300:
                event = await soon(events.recv())
                received.append(event.payload_as(int))
        await publishing

    assert list(range(300)) == received


@pytest.mark.alone
async def test_an_idle_store_takes_no_lock_and_writes_nothing(store, path, spawn):
    """A hundred receivers of every kind leave lock and file to others, for seconds."""
    async with contextlib.AsyncExitStack() as stack:
        queue, stream = store.queue("x"), store.stream("x")
        await queue.enqueue("later", EnqueueOpts(delay=500))
        for number in range(34):
            await stack.enter_async_context(store.listen(f"channel-{number}"))
            await stack.enter_async_context(store.stream(f"stream-{number}").subscribe("me"))
            await stack.enter_async_context(store.queue(f"queue-{number}").wakes())
        receivers = [
            await stack.enter_async_context(queue.wakes()),
            await stack.enter_async_context(stream.subscribe("me")),
        ]
        waiting = [asyncio.ensure_future(receiver.recv()) for receiver in receivers]
        await asyncio.wait(waiting, timeout=0.3)
        child = spawn("lock_probe.py", path)
        await child.expect("probing")

        busy, changes, probes = map(int, (await child.expect("probed", 15)).split())

        assert 0 == busy
        assert 0 == changes
        assert probes > 100
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_receivers_come_and_go_without_a_trace(store, descriptors, receiver_for):
    """Subscribing and cancelling 300 times leaves threads, descriptors and memory as before."""

    async def churn(times) -> None:
        for number in range(times):
            name = f"x{number % 7}"
            receiver = await receiver_for(["notify", "publish", "enqueue"][number % 3], store, name)
            waiting = asyncio.create_task(receiver.recv())
            await asyncio.sleep(0)
            if number % 2:
                await store.notify(name, 1)
            waiting.cancel()
            await asyncio.wait([waiting])
            if number % 5:
                await receiver.close()  # the others are dropped
            del receiver, waiting

    async def weigh() -> tuple[int, int, int]:
        gc.collect()
        await asyncio.sleep(0.05)
        gc.collect()
        return threading.active_count(), descriptors(), len(gc.get_objects())

    await churn(60)
    threads, fds, objects = await weigh()
    await churn(300)
    threads_after, fds_after, objects_after = await weigh()

    assert threads_after <= threads
    assert fds_after <= fds
    assert objects_after - objects < 300  # fewer than one per round


@pytest.mark.alone
async def test_an_unread_receiver_costs_constant_memory(store, sql, scaled):
    """A receiver nobody reads, and the file, are no larger after very many notifies."""
    notifies = scaled(40_000, 200_000)

    async def flood(times) -> None:
        for _ in range(0, times, 200):
            await asyncio.gather(*(store.notify("x", "tea") for _ in range(200)))

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    async with store.listen("x") as unread, store.listen("x"):
        await flood(notifies // 10)
        before, objects = resident(), len(gc.get_objects())
        await flood(notifies)
        after, objects_after = resident(), len(gc.get_objects())
        assert await soon(unread.recv()) is not None

    assert after - before < 4_000_000
    assert objects_after - objects < 1000
    assert [(1,)] == sql("SELECT count(*) FROM __alkstore_channels")


@pytest.mark.alone
async def test_unread_receivers_do_not_slow_a_writer(path):
    """With a hundred receivers that nobody reads a writer keeps its order of magnitude."""

    async def pace(store) -> float:
        began = time.perf_counter()
        for _ in range(10):
            await asyncio.gather(*(store.notify("x", "tea") for _ in range(100)))
        return time.perf_counter() - began

    async with SqliteStore(path) as store, contextlib.AsyncExitStack() as stack:
        await pace(store)
        free = min([await pace(store) for _ in range(3)])
        for _ in range(100):
            await stack.enter_async_context(store.listen("x"))
        loaded = min([await pace(store) for _ in range(3)])

    assert loaded < 15 * free


@pytest.mark.alone
async def test_other_processes_commits_are_noticed_in_milliseconds(path, spawn):
    """At the default cadence half of all wakes come within 5 ms of another process's commit."""
    async with SqliteStore(path) as store, store.listen("x") as receiver:
        child = spawn("notifier.py", path)
        await child.expect("ready")
        delays = []
        for _ in range(60):
            child.tell("notify")
            await soon(receiver.recv())
            woken_at = time.monotonic()
            delays.append(woken_at - float(await child.expect("committed")))

    # `make bench` measures it; here a poll each 50 ms, or none, would show.
    assert statistics.median(delays) < 0.025


@pytest.mark.alone
@pytest.mark.parametrize(("receivers", "share"), [(100, 0.25), (0, 0.02)])
async def test_waiting_costs_little(path, spawn, receivers, share):
    """A hundred waiting receivers cost one look at a time, not a hundred; none cost nothing.

    `make bench` measures the few per cent; looks of each receiver's own would take a core.
    """
    child = spawn("idler.py", path, receivers)

    assert float(await child.expect("used")) < share
    assert [] == await child.succeed()


async def test_who_attaches_while_the_watcher_looks_misses_nothing(path, monkeypatch):
    """A look that was begun for others passes the signals of who came since, and tells them."""
    looking, go_on = threading.Event(), threading.Event()
    read = TableProbe._rows

    def held(probe, connection, statement, **given):
        if statement is CHANNELS_SINCE:
            looking.set()
            assert go_on.wait(10)
        return read(probe, connection, statement, **given)

    monkeypatch.setattr(TableProbe, "_rows", held)
    async with SqliteStore(path) as store, SqliteStore(path) as other, other.listen("early"):
        await store.notify("early")
        assert await asyncio.to_thread(looking.wait, 10)
        async with other.listen("late") as late:
            await store.notify("late")
            go_on.set()
            assert "late" == (await soon(late.recv())).channel


@pytest.mark.parametrize("which", ["monotonic", "time"])
@pytest.mark.parametrize("where", ["_nap", "_data_version", "_probe"])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
async def test_who_was_away_for_an_hour_misses_nothing(path, sql, monkeypatch, which, where, first):
    """The row of a channel may be gone by then: a process stood still, or a clock was set."""
    stopped, go_on = threading.Event(), threading.Event()
    passed = 0.0
    times = {name: getattr(time, name) for name in ("monotonic", "time", "sleep")}
    times[which] = lambda: getattr(time, which)() + passed
    clock = ManualClock(int(time.time()))
    async with SqliteStore(path) as store, SqliteStore(path, clock=clock) as other:
        watcher = store._runtime.engine.signals._watcher
        subject = watcher if hasattr(watcher, where) else watcher_module
        real = getattr(subject, where)

        def stand_still(*args):
            found = None if first else real(*args)
            stopped.set()
            assert go_on.wait(10)
            return real(*args) if first else found

        async with store.listen("news") as news, store.listen("weather") as weather:
            await other.notify("news")
            await soon(news.recv())
            monkeypatch.setattr(watcher_module, "time", SimpleNamespace(**times))
            monkeypatch.setattr(subject, where, stand_still)
            if where == "_probe":  # Which is asked when something has changed.
                await other.notify("news")
            assert await asyncio.to_thread(stopped.wait, 10)
            await other.notify("weather")
            await clock.advance(3_601)
            await other.notify("elsewhere")
            assert [("elsewhere",)] == sql("SELECT channel FROM __alkstore_channels")
            passed = 3_601.0
            go_on.set()

            assert "weather" == (await soon(weather.recv())).channel
