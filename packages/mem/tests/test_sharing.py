"""Several stores on one database: each other's writes, turns and wakes."""

import asyncio
import gc
import threading
import time

import pytest

import alkstore_mem.database as memory
from alkstore_core import DatabaseError
from alkstore_mem import MemDatabase, MemStore


async def turns(count=20):
    """Let everybody run as far as they can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def soon(awaitable):
    """What must come comes in time; the bound is for failures only."""
    async with asyncio.timeout(10):
        return await awaitable


async def test_stores_share_what_is_committed(store, other):
    """A job that one store enqueues is claimed, and acked, by another."""
    await store.queue("q").enqueue("tea")
    handle = await other.queue("q").claim_one("w")

    assert "tea" == handle.job.payload_as(str)
    assert await handle.ack()
    assert [] == await store.queue("q").jobs()


async def test_without_a_database_stores_share_nothing():
    """Each store has a database of its own then."""
    async with MemStore() as one, MemStore() as two:
        await one.queue("q").enqueue(1)

        assert [] == await two.queues()


async def test_a_commit_wakes_the_receivers_of_all_stores(store, other):
    """A notify, a job and an event wake after their commit, in every store; never before."""
    async with (
        other.listen("c") as channel,
        other.queue("q").wakes() as queue,
        other.stream("s").subscribe("me") as events,
    ):
        waiting = [asyncio.create_task(receiver.recv()) for receiver in (channel, queue, events)]
        async with store.begin_tx() as tx:
            await tx.notify_tx("c")
            await tx.enqueue_tx("q", 1)
            await tx.publish_tx("s", 2)
            await turns()
            assert [False] * 3 == [task.done() for task in waiting]
            await tx.commit()
        wake, job, event = await soon(asyncio.gather(*waiting))

    assert ("c", "q", b"2") == (wake.channel, job.channel, event.payload)


async def test_a_rollback_wakes_nobody(store, other):
    """What is not committed is not announced."""
    async with other.listen("c") as wakes:
        async with store.begin_tx() as tx:
            await tx.notify_tx("c")
        waiting = asyncio.create_task(wakes.recv())
        await turns()
        assert not waiting.done()
        await store.notify("c")
        assert "c" == (await soon(waiting)).channel


async def test_a_cancelled_notify_is_whole_or_absent(store, other):
    """A call that is cancelled before its turn has woken nobody."""
    async with other.listen("c") as wakes, store.queue("q").wakes() as work:
        cancelled = asyncio.create_task(store.queue("q").enqueue(1))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert [] == await store.queue("q").jobs()
        await store.notify("c")
        await soon(wakes.recv())
        waiting = asyncio.create_task(work.recv())
        await turns()
        assert not waiting.done()
        waiting.cancel()


async def test_writers_of_all_stores_take_turns(store, other):
    """While one store's transaction is open the others' writers wait, and go in their order."""
    order = []

    async def write(client, name):
        await client.queue("q").enqueue(name)
        order.append(name)

    async def transact(client, name):
        async with client.transaction() as tx:
            await tx.enqueue_tx("q", name)
            await turns()
            order.append(name)

    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", "open")
        waiting = []
        for start, client, name in (
            (write, other, "first"),
            (transact, other, "second"),
            (transact, store, "third"),
        ):
            waiting.append(asyncio.create_task(start(client, name)))
            await turns()
        assert [] == order
        await tx.commit()
    await soon(asyncio.gather(*waiting))

    assert ["first", "second", "third"] == order
    payloads = [job.payload_as(str) for job in await store.queue("q").jobs()]
    assert ["open", *order] == payloads


async def test_no_store_starves_another(store, other):
    """Two stores that begin transactions back to back get about as many turns."""
    counts = {store: 0, other: 0}

    async def hog(client):
        while min(counts.values()) < 20:
            async with client.transaction() as tx:
                await tx.enqueue_tx("q", 1)
            counts[client] += 1

    await soon(asyncio.gather(*(hog(client) for client in (store, store, store, other))))

    assert max(counts.values()) <= 25


WRITES = {
    "enqueue": lambda store: store.queue("q").enqueue(1),
    "claim": lambda store: store.queue("q").claim_one("w"),
    "begin": lambda store: store.with_tx(lambda tx: tx.enqueue_tx("q", 1)),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_writer_waits_no_longer_than_the_time_out(impatient, write):
    """A write that found another store's transaction open all the time says who had it."""
    database = MemDatabase()
    async with MemStore(database=database) as one, MemStore(database=database) as two:
        began = asyncio.create_task(one.begin_tx().__aenter__(), name="slow")
        tx = await began
        with pytest.raises(DatabaseError, match=r"locked.*'slow' has held a transaction open"):
            await soon(WRITES[write](two))
        await tx.commit()

        await soon(WRITES[write](two))


async def test_a_task_does_not_wait_for_itself_for_ever(impatient):
    """Who holds a transaction of one store and writes by another is told so in the end."""
    database = MemDatabase()
    async with MemStore(database=database) as one, MemStore(database=database) as two:
        async with one.begin_tx() as tx:
            await tx.enqueue_tx("q", 1)
            with pytest.raises(DatabaseError, match="locked"):
                await soon(two.queue("q").enqueue(2))
            with pytest.raises(DatabaseError, match="enqueue_tx"):
                await soon(one.queue("q").enqueue(3))
            await tx.commit()

        assert 1 == (await two.queue("q").stats()).ready


async def test_heartbeats_go_before_transactions_that_wait(store, other, database, clock):
    """Behind an open transaction of another store, a heartbeat passes those that want one too."""
    done = []
    async with MemStore(clock=clock, database=database) as third:
        await store.queue("q").enqueue(1)
        handle = await third.queue("q").claim_one("w")
        async with store.begin_tx():
            transaction = asyncio.create_task(other.with_tx(lambda tx: tx.enqueue_tx("q", 2)))
            transaction.add_done_callback(lambda _: done.append("transaction"))
            await turns()
            beat = asyncio.create_task(handle.heartbeat(600))
            beat.add_done_callback(lambda _: done.append("heartbeat"))
            await turns()
        await soon(asyncio.gather(transaction, beat))

    assert ["heartbeat", "transaction"] == done


async def test_a_lost_handle_frees_the_database(store, other):
    """A transaction whose handle is dropped is rolled back, and the next store writes."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", 1)
    del tx
    gc.collect()

    await soon(other.queue("q").enqueue(2))
    assert [b"2"] == [job.payload for job in await other.queue("q").jobs()]


async def test_closing_one_store_leaves_the_others_alone(database, store):
    """Its transaction is rolled back and its receivers end; another store's go on."""
    another = MemStore(database=database)
    await another.open()
    tx = await another.begin_tx()
    await tx.enqueue_tx("q", 1)
    theirs = await another.listen("c")
    async with store.listen("c") as ours:
        await another.close()

        assert await soon(theirs.recv()) is None
        assert [] == await store.queue("q").jobs()
        await store.notify("c")
        assert "c" == (await soon(ours.recv())).channel


async def test_a_call_that_waits_when_its_store_closes_does_nothing(database, store):
    """A write behind another store's transaction is refused once its own store is closed."""
    another = MemStore(database=database)
    await another.open()
    async with store.begin_tx():
        waiting = asyncio.create_task(another.queue("q").enqueue(1))
        await turns()
        await another.close()
    with pytest.raises(Exception, match="closed"):
        await soon(waiting)

    assert [] == await store.queue("q").jobs()


async def test_a_loop_of_calls_lets_others_run(store):
    """Nothing is waited for in memory, and still each call gives the other tasks a turn."""
    ran = []

    async def background():
        while True:
            ran.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(background())
    for _ in range(50):
        await store.queue("q").get_job(1)
    task.cancel()

    assert len(ran) >= 50


def test_two_loops_do_not_share_a_database():
    """While stores of one loop are open, a store of another loop is refused, whatever thread."""
    database = MemDatabase()
    refusals = []

    async def intrude():
        with pytest.raises(DatabaseError, match="another event loop") as refused:
            await MemStore(database=database).open()
        refusals.append(refused.value)

    async def main():
        async with MemStore(database=database) as store:
            thread = threading.Thread(target=asyncio.run, args=(intrude(),))
            thread.start()
            await asyncio.to_thread(thread.join)
            await store.queue("q").enqueue(1)

    asyncio.run(main())
    assert 1 == len(refusals)


def test_of_two_loops_that_come_at_once_one_is_refused(monkeypatch):
    """A new database belongs to one of two threads' loops, however close together they come."""
    connect = memory._connect
    begun = threading.Event()

    def slowly():
        begun.set()
        time.sleep(0.1)
        return connect()

    monkeypatch.setattr(memory, "_connect", slowly)
    database = MemDatabase()
    opened, refused = [], []
    over = threading.Barrier(2, timeout=10)

    async def come():
        store = MemStore(database=database)
        try:
            await store.open()
            opened.append(store)
        except DatabaseError as error:
            refused.append(error)
        over.wait()
        await store.close()

    first = threading.Thread(target=asyncio.run, args=(come(),))
    second = threading.Thread(target=asyncio.run, args=(come(),))
    first.start()
    assert begun.wait(10)
    second.start()
    first.join()
    second.join()
    assert (1, 1) == (len(opened), len(refused))


def test_a_database_goes_on_with_the_next_loop():
    """Once the stores of one loop are closed, another loop finds what they committed."""
    database = MemDatabase()

    async def count():
        async with MemStore(database=database) as store:
            return await store.queue("q").enqueue(1)

    assert [1, 2, 3] == [asyncio.run(count()) for _ in range(3)]


def test_what_a_dead_loop_left_open_is_undone():
    """A store that was not closed before its loop ended holds nobody up and commits nothing."""
    database = MemDatabase()

    async def leave():
        store = MemStore(database=database)
        await store.open()
        await store.queue("q").enqueue("committed")
        tx = await store.begin_tx()
        await tx.enqueue_tx("q", "not committed")
        return store, tx

    async def look():
        async with MemStore(database=database) as store:
            await soon(store.queue("q").enqueue("next"))
            return [job.payload_as(str) for job in await store.queue("q").jobs()]

    left = asyncio.run(leave())
    assert ["committed", "next"] == asyncio.run(look())
    del left
    assert ["committed", "next", "next"] == asyncio.run(look())
