"""A store's life: opened once, closed once, on one loop of one process."""

import asyncio
import gc
import multiprocessing
import threading
import weakref

import pytest
from dict_engine import DictEngine, until

from alkstore_core import Closed, DatabaseError, LockInfo, StopToken, Store


async def every_call(store):
    """One call of each kind, as coroutines not yet awaited."""
    queue, stream, outbox = store.queue("q"), store.stream("s"), store.outbox("o")

    async def enter(context):
        async with context:
            pass

    async def value(_):
        return None

    return [
        queue.enqueue(1),
        queue.enqueue_many([1]),
        queue.enqueue_many([]),
        queue.claim_one("w"),
        queue.claim_batch("w", 0),
        queue.ack_batch([], "w"),
        queue.release_batch([]),
        queue.heartbeat_batch([], 1),
        queue.cancel(1),
        queue.get_job(1),
        queue.sweep_expired(),
        queue.stats(),
        queue.jobs(),
        queue.jobs(limit=0),
        queue.dead_jobs(),
        queue.redrive(1),
        queue.purge_dead(),
        enter(queue.wakes()),
        stream.publish(1),
        stream.publish_with_key("k", 1),
        stream.publish_many([1]),
        stream.read_since(0, 0),
        stream.read_from_consumer("c", 1),
        stream.save_offset("c", 1),
        stream.get_offset("c"),
        stream.trim_to(1),
        stream.consumers(),
        stream.bounds(),
        enter(stream.subscribe("c")),
        outbox.enqueue(1),
        outbox.run_once("w", value),
        store.notify("c", 1),
        enter(store.listen("c")),
        store.try_lock("l", "o", 1),
        store.schedule("s", "@every 1s", "q", 1),
        store.unschedule("s"),
        store.run_schedules(StopToken()),
        store.schedules(),
        store.queues(),
        store.streams(),
        store.outboxes(),
        store.locks(),
        store.now(),
        store.diagnose(),
        enter(store.begin_tx()),
        enter(store.transaction()),
        store.with_tx(value),
    ]


async def test_every_call_before_open_is_closed(engine):
    """Calls before `open` raise `Closed` and say what to do; handles may be made."""
    for call in await every_call(Store(engine)):
        with pytest.raises(Closed, match=r"call open\(\) first; a worker.s handler gets"):
            await call


async def test_every_call_after_close_is_closed(engine):
    """Every call after `close` raises `Closed`, without reaching the engine."""
    store = Store(engine)
    async with store:
        pass
    engine.calls.clear()

    for call in await every_call(store):
        with pytest.raises(Closed, match="the store is closed"):
            await call

    assert [] == engine.calls


async def test_open_is_idempotent(engine):
    """`open` on an open store does nothing."""
    store = Store(engine)

    await asyncio.gather(store.open(), store.open())
    await store.open()
    await store.close()

    assert ["open", "close"] == engine.calls


async def test_failed_open_can_be_repeated(engine):
    """After a failed `open` the store is as new, so the next one may succeed."""
    engine.faults["open"].append(DatabaseError("no such directory"))
    store = Store(engine)
    with pytest.raises(DatabaseError):
        await store.open()

    async with store:
        assert 1 == await store.queue("q").enqueue(1)


async def test_close_is_idempotent_and_final(engine):
    """`close` may be called again, also at the same time; `open` after it is `Closed`."""
    store = Store(engine)
    await store.open()

    await asyncio.gather(store.close(), store.close())
    await store.close()

    assert 1 == engine.calls.count("close")
    with pytest.raises(Closed):
        await store.open()


async def test_close_of_a_new_store_touches_nothing(engine):
    """A store that was never opened closes without reaching the engine."""
    store = Store(engine)

    await store.close()

    assert [] == engine.calls


async def test_close_ends_open_receivers(store):
    """Receivers that wait end: `recv` gives `None` and iteration stops."""
    wakes = await store.listen("c")
    due = await store.queue("q").wakes()
    events = await store.stream("s").subscribe("c")
    waiting = [asyncio.ensure_future(r.recv()) for r in (wakes, due, events)]
    await asyncio.sleep(0)

    await store.close()

    assert [None, None, None] == await asyncio.gather(*waiting)
    assert [] == [event async for event in events]
    assert [] == [wake async for wake in wakes]


async def test_close_rolls_open_transactions_back(engine, store):
    """A transaction open at `close` is undone, and its handle says that the store closed."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)

    await store.close()

    assert {} == engine.data.jobs
    assert set() == engine.open_transactions
    with pytest.raises(Closed):
        await tx.commit()
    with pytest.raises(Closed):
        await tx.enqueue_tx("q", 1)


async def test_close_leaves_no_task(engine):
    """After `close` no task of the store is left."""
    before = asyncio.all_tasks()
    async with Store(engine) as store:
        stop = StopToken()
        receivers = [await store.queue("q").wakes(stop), await store.listen("c", stop)]
        await store.queue("q").enqueue(1)
    del receivers

    await until(lambda: asyncio.all_tasks() == before)


async def test_close_waits_for_a_begin_under_way(engine, store):
    """A begin that is under way at `close` ends in `Closed`, with its transaction undone."""
    gate = engine.hold("after", "begin")
    beginning = asyncio.ensure_future(enter_tx(store))
    await gate.reached.wait()
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    gate.open()

    await closing
    with pytest.raises(Closed):
        await beginning
    assert set() == engine.open_transactions
    assert "close" == engine.calls[-1]


async def enter_tx(store):
    """A transaction, as a coroutine."""
    return await store.begin_tx()


async def test_lost_store_is_collected(engine):
    """A store that is dropped, open or not, is not kept alive by its own tasks."""
    store = Store(engine)
    await store.open()
    reference = weakref.ref(store)
    del store
    gc.collect()

    assert reference() is None


async def test_foreign_loop_is_refused(store):
    """Every call from another event loop is refused, and the store is unharmed."""
    tx = await store.begin_tx()
    wakes = await store.listen("c")
    errors = []

    def elsewhere():
        async def call():
            calls = (
                store.queue("q").get_job(1),
                store.open(),
                store.close(),
                tx.get_job_tx("q", 1),
                tx.commit(),
                tx.rollback(),
                wakes.recv(),
                wakes.close(),
            )
            for awaitable in calls:
                try:
                    await awaitable
                except DatabaseError as error:
                    errors.append(str(error))

        asyncio.run(call())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join)

    assert 8 == len(errors)
    assert all("another event loop" in error for error in errors)
    assert 1 == await tx.enqueue_tx("q", 1)
    await tx.commit()
    assert 1 == (await store.queue("q").get_job(1)).id


def refusal_in_child(store, tx, pipe):
    """What a forked child is told."""
    told = []

    async def call():
        calls = (store.queue("q").enqueue(1), store.open(), store.close(), tx.commit())
        for awaitable in calls:
            try:
                await awaitable
            except DatabaseError as error:
                told.append("forked" in str(error))

    asyncio.run(call())
    pipe.send(told)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
async def test_fork_is_refused(store):
    """A child that was forked is refused, and the parent's store is unharmed."""
    tx = await store.begin_tx()
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    # The child must not think that it stands inside the parent's running loop.
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    child = fork.Process(target=refusal_in_child, args=(store, tx, theirs))
    child.start()
    asyncio._set_running_loop(loop)
    told = await asyncio.to_thread(ours.recv)
    await asyncio.to_thread(child.join)

    assert [True, True, True, True] == told
    await tx.enqueue_tx("q", 1)
    await tx.commit()
    assert 1 == (await store.queue("q").stats()).ready


async def test_what_is_there(engine, store):
    """Operators see queues, outboxes, streams, locks and findings; outboxes are no queues."""
    await store.queue("b").enqueue(1)
    await store.queue("a").enqueue(1)
    await store.outbox("mail").enqueue(1)
    await store.stream("s").publish(1)
    await store.try_lock("l", "me", 10)

    assert ["a", "b"] == await store.queues()
    assert ["mail"] == await store.outboxes()
    assert ["s"] == await store.streams()
    expected = LockInfo(name="l", owner="me", token=1, expires_at=1_010)
    assert [expected] == await store.locks()
    assert [] == await store.diagnose()


async def test_two_stores_in_one_loop_are_independent(clock):
    """Closing one store leaves another open."""
    async with Store(DictEngine(clock)) as one:
        async with Store(DictEngine(clock)) as two:
            await two.queue("q").enqueue(1)
        assert 1 == await one.queue("q").enqueue(1)


async def test_check_raises_what_calls_would(engine):
    """Nothing on an open store; `Closed` before and after; `DatabaseError` on another loop."""
    store = Store(engine)
    with pytest.raises(Closed, match="not open"):
        store.check()
    async with store:
        store.check()

        async def elsewhere():
            store.check()

        with pytest.raises(DatabaseError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())
    with pytest.raises(Closed, match="is closed"):
        store.check()


async def test_marks_move_with_the_injected_clock(store, clock):
    """`sleep_until` returns when the store's time has come to a mark, and not before."""
    mark = store.mark()
    sleeping = asyncio.create_task(store.sleep_until(mark + 10))
    await until(lambda: clock._sleepers)
    await clock.advance(9)
    early = sleeping.done()
    await clock.advance(1)
    await sleeping

    assert not early
    assert mark + 10 == store.mark()
    await store.sleep_until(mark)


async def test_now_is_the_time_that_stamps(store, clock):
    """Not the host's: it moves with the injected clock, and nothing else moves it."""
    await clock.advance(7)
    job = await store.queue("q").get_job(await store.queue("q").enqueue(1))

    assert clock.now() == await store.now() == job.created_at


async def test_marks_are_real_time_without_a_clock():
    """To the fraction of a second."""
    async with Store(DictEngine(None)) as store:
        mark = store.mark()
        await store.sleep_until(mark + 0.01)

        assert store.mark() >= mark + 0.01
        await store.sleep_until(mark - 1)
