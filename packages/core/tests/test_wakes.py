"""Wakes: channels, queues, and the timer that notices what comes due."""

import asyncio
import gc
import threading

import pytest
from dict_engine import until

from alkstore_core import DatabaseError, EnqueueOpts, QueueOpts, StopToken, Wake
from alkstore_core.spi import Fired

RECONNECTED = "__alkstore_listener_reconnected__"


def waiting(receiver):
    """A `recv` under way."""
    return asyncio.ensure_future(receiver.recv())


async def test_listener_hears_its_channel(store):
    """A wake names the channel that was listened to; other names of the same spelling are mute."""
    async with store.listen("x") as wakes:
        task = waiting(wakes)
        await store.queue("x").enqueue(1)
        await store.stream("x").publish(1)
        await store.notify("y", 1)
        await asyncio.sleep(0)
        assert not task.done()

        await store.notify("x", {"any": "payload"})

        assert Wake(channel="x") == await task


async def test_late_listener_hears_nothing(store):
    """A receiver that attached after a notify never hears of it."""
    await store.notify("x", 1)

    async with store.listen("x") as wakes:
        task = waiting(wakes)
        await asyncio.sleep(0)
        assert not task.done()


async def test_two_receivers_of_one_channel_both_wake(store):
    """Every receiver of a channel wakes."""
    async with store.listen("x") as one, store.listen("x") as two:
        await store.notify("x", 1)

        assert [Wake(channel="x")] * 2 == [await one.recv(), await two.recv()]


async def test_wakes_are_a_level(store):
    """However many notifies nobody read, they are one wake."""
    async with store.listen("x") as wakes:
        for _ in range(1_000):
            await store.notify("x", 1)

        assert Wake(channel="x") == await wakes.recv()
        task = waiting(wakes)
        await asyncio.sleep(0)
        assert not task.done()


async def test_cancelled_recv_loses_no_wake(store):
    """A wake that came with the cancellation is there for the next `recv`."""
    async with store.listen("x") as wakes:
        task = waiting(wakes)
        await asyncio.sleep(0)
        await store.notify("x", 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert Wake(channel="x") == await wakes.recv()


async def test_reconnect_wakes_everybody(engine, store):
    """After a reconnect every receiver gets the reserved channel once."""
    async with store.listen("x") as wakes, store.queue("q").wakes() as due:
        engine.signals.fire_all(Fired.RECONNECTED)

        assert Wake(channel=RECONNECTED) == await wakes.recv()
        assert Wake(channel=RECONNECTED) == await due.recv()


@pytest.mark.parametrize("kind", ["listen", "wakes", "subscribe"])
async def test_stop_token_ends_a_receiver(store, kind):
    """A token ends the receiver from any thread; it stays ended."""
    stop = StopToken()
    make = {
        "listen": lambda: store.listen("x", stop),
        "wakes": lambda: store.queue("q").wakes(stop),
        "subscribe": lambda: store.stream("s").subscribe("c", stop),
    }[kind]
    async with make() as receiver:
        task = waiting(receiver)
        await asyncio.sleep(0)
        threading.Thread(target=stop.stop).start()

        assert None is await task
        assert None is await receiver.recv()
    async with make() as late:
        assert None is await late.recv()


async def test_close_ends_a_receiver(store):
    """`close` ends a pending `recv`, twice is no harm, and leaving the block closes too."""
    wakes = await store.listen("x")
    task = waiting(wakes)
    await asyncio.sleep(0)

    await wakes.close()
    await wakes.close()

    assert None is await task
    async with store.listen("x") as left:
        pass
    assert None is await left.recv()


@pytest.mark.parametrize("way", ["close", "drop", "cancel"])
async def test_receivers_leave_nothing_behind(engine, store, way):
    """300 receivers with stop tokens, closed, dropped or cancelled, leave no task or topic."""
    before = asyncio.all_tasks()
    stop = StopToken()

    async def receive(make):
        receiver = await make()
        if way == "close":
            await receiver.close()
        elif way == "cancel":
            async with receiver:
                await receiver.recv()

    makers = (
        lambda: store.listen("x", stop),
        lambda: store.queue("q").wakes(stop),
        lambda: store.stream("s").subscribe("c", stop),
    )
    tasks = [asyncio.create_task(receive(makers[n % 3])) for n in range(300)]
    if way == "cancel":
        await until(lambda: len(engine.signals._topics) == 3)
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    del tasks
    gc.collect()

    await until(lambda: not engine.signals._topics)
    await until(lambda: asyncio.all_tasks() == before)
    assert {} == stop._waiters


async def test_queue_wakes_on_enqueue_and_retry(store):
    """A queue's receiver wakes on each commit that made a job claimable."""
    queue = store.queue("q")
    async with queue.wakes() as wakes:
        await queue.enqueue(1)
        assert Wake(channel="q") == await wakes.recv()
        handle = await queue.claim_one("w")
        await handle.retry(delay=0)
        assert Wake(channel="q") == await wakes.recv()
        handle = await queue.claim_one("w")
        await handle.release()
        assert Wake(channel="q") == await wakes.recv()
        handle = await queue.claim_one("w")
        await handle.fail()
        await queue.redrive(1)
        assert Wake(channel="q") == await wakes.recv()


async def test_delayed_job_wakes_when_due(clock, store):
    """The receiver wakes when the nearest delayed job comes due."""
    queue = store.queue("q")
    async with queue.wakes() as wakes:
        await queue.enqueue(1, EnqueueOpts(delay=30))
        await wakes.recv()
        task = waiting(wakes)
        await clock.advance(29)
        assert None is await queue.claim_one("w")
        await clock.advance(1)

        assert Wake(channel="q") == await task
        assert await queue.claim_one("w")


async def test_lapsed_claim_wakes(clock, store):
    """The receiver wakes when a claim lapses; nothing else says that its worker died."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=10))
    await queue.enqueue(1)
    await queue.claim_one("w")
    async with queue.wakes() as wakes:
        task = waiting(wakes)
        await clock.advance(11)

        assert Wake(channel="q") == await task
        assert 2 == (await queue.claim_one("w")).job.attempts


async def test_outbox_wakes_by_its_backing_queue(store):
    """Workers of an outbox wait on its backing queue."""
    outbox = store.outbox("o")
    async with outbox.backing.wakes() as wakes:
        await outbox.enqueue(1)

        assert Wake(channel="__alkstore_outbox:o") == await wakes.recv()


async def test_one_question_for_all_queues(engine, store):
    """The due timer asks once for all waited queues, and not at all without receivers."""
    await store.queue("a").enqueue(1)
    assert "next_due" not in engine.calls
    gate = engine.hold("before", "next_due")
    async with store.queue("a").wakes(), store.queue("b").wakes(), store.queue("b").wakes():
        await gate.reached.wait()
        assert 1 == engine.calls.count("next_due")
    gate.open()


async def test_burst_of_wakes_is_few_questions(engine, store):
    """A thousand enqueues do not make a thousand questions for due times."""
    queue = store.queue("q")
    async with queue.wakes() as wakes:
        for n in range(1_000):
            await queue.enqueue(n)
            await asyncio.sleep(0)
        await wakes.recv()

    assert engine.calls.count("next_due") < 50


async def test_whoever_was_woken_goes_first(engine, store, monkeypatch):
    """A wake leaves the database to those that claim on it; due times are asked for later."""
    monkeypatch.setattr("alkstore_core.wakes.ASK_AGAIN", 1e6)
    monkeypatch.setattr("alkstore_core.wakes.ASK_AT_MOST", 3600)
    queue, loop = store.queue("q"), asyncio.get_running_loop()
    async with queue.wakes() as wakes:
        await until(lambda: wakes._runtime.queue_wakes._nudge is not None)
        # Two hours after the last question.
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + 7200)
        await queue.enqueue(1)
        await wakes.recv()
        assert await queue.claim_one("w")
        assert 1 == engine.calls.count("next_due")


async def test_timer_survives_a_failing_database(clock, engine, store, caplog):
    """While due times cannot be asked for, receivers wait on; then the wake comes."""
    engine.faults["next_due"] += [DatabaseError("connection lost")] * 2
    queue = store.queue("q")
    await queue.enqueue(1, EnqueueOpts(delay=5))
    async with queue.wakes() as wakes:
        await until(lambda: not wakes._runtime.queue_wakes._nudged)
        await clock.advance(5)
        await queue.enqueue_many([2])
        await wakes.recv()
        await until(lambda: engine.calls.count("next_due") >= 1)

    assert 1 == caplog.text.count("connection lost")


async def test_timer_says_nothing_of_a_store_that_closes(engine, store, caplog):
    """A close between a queue's wakes and the first question for due times is no trouble to log."""
    async with store.queue("q").wakes():
        await store.close()
        for _ in range(5):
            await asyncio.sleep(0)

    assert "" == caplog.text
    assert 0 == engine.calls.count("next_due")


async def test_engine_that_closes_a_topic_ends_queue_receivers(engine, store):
    """When the engine's signals end, a queue's receivers end."""
    async with store.queue("q").wakes() as wakes:
        task = waiting(wakes)
        await asyncio.sleep(0)
        engine.signals.close_open()

        assert None is await task


@pytest.mark.parametrize("begun", [False, True])
async def test_queue_receivers_whose_tasks_are_cancelled_end(store, begun):
    """Whoever cancels all tasks cancels ours: receivers end, and those made then are woken."""
    before = asyncio.all_tasks()
    async with store.queue("x").wakes() as wakes, store.queue("y").wakes() as others:
        if begun:
            await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - before:
            task.cancel()

        assert await asyncio.wait_for(wakes.recv(), 5) is None
        assert await asyncio.wait_for(others.recv(), 5) is None
        async with store.queue("x").wakes() as later:
            await store.queue("x").enqueue(1)
            assert Wake(channel="x") == await asyncio.wait_for(later.recv(), 5)


async def test_queue_receivers_whose_timer_is_cancelled_end(store, clock):
    """Due jobs would be missed by them, so they end; those made then are told of what is due."""
    async with store.queue("x").wakes() as wakes:
        store._runtime.queue_wakes._timer.cancel()

        assert await asyncio.wait_for(wakes.recv(), 5) is None
    async with store.queue("x").wakes() as later:
        await store.queue("x").enqueue(1, EnqueueOpts(delay=10))
        assert Wake(channel="x") == await asyncio.wait_for(later.recv(), 5)
        task = waiting(later)
        await clock.advance(10)
        assert Wake(channel="x") == await asyncio.wait_for(task, 5)
