"""The writer's turn: fair, bounded, and never a wait for oneself."""

import asyncio
import re

import pytest
from dict_engine import DictEngine, until

from alkstore_core import DatabaseError, Store
from alkstore_core.slot import Thread, WriterSlot, act_for


@pytest.fixture
def slot(store):
    """The slot of the open store."""
    return store._runtime.slot


def waiting(slot):
    """How many tickets wait."""
    return len(slot._queue)


async def in_order(store, slot, names, log):
    """Start writers one after the other, each once its predecessor waits; the tasks."""
    tasks = []

    async def transaction(name):
        async with store.begin_tx() as tx:
            log.append(name)
            await tx.commit()

    async def write(name):
        await store.queue("q").enqueue(name)
        log.append(name)

    for name in names:
        kind = transaction if name.startswith("tx") else write
        before = sum(len(t.waiters) for t in slot._queue)
        tasks.append(asyncio.create_task(kind(name), name=name))
        await until(lambda before=before: sum(len(t.waiters) for t in slot._queue) > before)
    return tasks


async def test_transactions_go_in_order(store, slot):
    """Transactions that wait get their turn in the order in which they came."""
    log = []
    tx = await store.begin_tx()
    tasks = await in_order(store, slot, ["tx1", "tx2", "tx3"], log)

    await tx.commit()
    await asyncio.gather(*tasks)

    assert ["tx1", "tx2", "tx3"] == log


async def test_writes_that_came_together_share_a_ticket(store, slot):
    """Auto-commit writes between two transactions go together, in their place in the queue."""
    log = []
    tx = await store.begin_tx()
    tasks = await in_order(store, slot, ["a", "b", "tx1", "c", "tx2"], log)
    assert 4 == waiting(slot)

    await tx.rollback()
    await asyncio.gather(*tasks)

    assert ["a", "b", "tx1", "c", "tx2"] == log
    assert not slot.taken


async def test_writes_do_not_queue_while_nobody_holds(engine, store, slot):
    """Without an open transaction auto-commit writes go side by side, unqueued."""
    gate = engine.hold("before", "insert_jobs")
    tasks = [asyncio.create_task(store.queue("q").enqueue(n)) for n in range(3)]
    await until(lambda: engine.calls.count("insert_jobs") == 3)

    assert not slot.taken
    gate.open()
    assert [1, 2, 3] == sorted(await asyncio.gather(*tasks))


async def test_reads_do_not_wait(store):
    """A read needs no turn, also beside the reader's own transaction."""
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", 1)

        assert 0 == (await store.queue("q").stats()).ready


async def test_own_transaction_in_the_way_of_a_write(store):
    """A write beside the task's own transaction is refused at once and names the tx method."""
    async with store.begin_tx():
        with pytest.raises(DatabaseError, match=re.escape("use enqueue_tx() on the handle")):
            await store.queue("q").enqueue(1)
        with pytest.raises(DatabaseError, match=re.escape("use publish_tx()")):
            await store.stream("s").publish(1)
        with pytest.raises(DatabaseError, match=re.escape("use notify_tx()")):
            await store.notify("c", 1)
        with pytest.raises(DatabaseError, match=re.escape("use outbox_enqueue_tx()")):
            await store.outbox("o").enqueue(1)
        with pytest.raises(DatabaseError, match="after the transaction has ended"):
            await store.queue("q").claim_one("w")
        with pytest.raises(DatabaseError, match="after the transaction has ended"):
            await store.try_lock("l", "o", 1)


async def test_own_transaction_in_the_way_of_another(store):
    """A second transaction by the task that holds one is refused at once."""
    async with store.begin_tx():
        with pytest.raises(DatabaseError, match="one transaction at a time"):
            await store.begin_tx()


async def test_child_tasks_are_other_tasks(store, slot):
    """A child of the holder waits for its turn like everybody."""
    async with store.begin_tx() as tx:
        child = asyncio.create_task(store.queue("q").enqueue(1))
        await until(lambda: slot._queue)
        await tx.commit()

    assert 1 == await child


async def test_waiting_is_bounded_and_names_the_holder(clock):
    """Who gets no turn within the busy timeout is told whose transaction was in the way."""
    async with Store(DictEngine(clock, busy_timeout=0.01)) as store:

        async def hold(begun, let_go):
            async with store.begin_tx():
                begun.set()
                await let_go.wait()

        begun, let_go = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(hold(begun, let_go), name="billing")
        await begun.wait()

        with pytest.raises(DatabaseError, match=r"within 0.01 s: task 'billing' has held"):
            await store.queue("q").enqueue(1)
        with pytest.raises(DatabaseError, match="task 'billing'"):
            await store.begin_tx()

        let_go.set()
        await holder
        assert 1 == await store.queue("q").enqueue(1)
        assert not store._runtime.slot.taken


async def test_cancelled_waiters_leave_the_queue(store, slot):
    """A cancelled wait leaves no ticket that would hold the others up."""
    log = []
    tx = await store.begin_tx()
    tasks = await in_order(store, slot, ["tx1", "a", "tx2"], log)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert 1 == waiting(slot)

    await tx.commit()
    await tasks[2]

    assert ["tx2"] == log


async def test_turn_that_comes_with_the_cancellation_is_passed_on():
    """A turn that came in the moment of its cancellation goes to the next one."""
    slot = WriterSlot(5.0)
    log = []

    async def acquire(name):
        lease = await slot.acquire()
        log.append(name)
        lease.release()

    lease = await slot.acquire()
    tasks = [asyncio.create_task(acquire(name)) for name in ("first", "second")]
    await until(lambda: waiting(slot) == 2)
    lease.release()
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert ["second"] == log
    assert tasks[0].cancelled()
    assert not slot.taken


async def test_many_writers_need_no_slot(clock):
    """On an engine with many writers a task may hold two transactions and write beside them."""
    engine = DictEngine(clock, single_writer=False)
    async with Store(engine) as store, store.begin_tx(), store.begin_tx():
        assert 1 == await store.queue("q").enqueue(1)


async def test_heartbeats_go_before_all_who_wait(store, slot):
    """A heartbeat waits for the holder only, not for the transactions that wait already."""
    log = []
    await store.queue("q").enqueue(1)
    handle = await store.queue("q").claim_one("w")
    tx = await store.begin_tx()
    tasks = await in_order(store, slot, ["tx1", "a"], log)

    async def beat():
        assert await handle.heartbeat(60)
        log.append("beat")

    tasks += [asyncio.create_task(beat()) for _ in range(2)]
    await until(lambda: waiting(slot) == 3 and len(slot._queue[0].waiters) == 2)

    await tx.rollback()
    await asyncio.gather(*tasks)

    assert ["beat", "beat", "tx1", "a"] == log


async def test_tasks_that_act_for_one_thread_are_one_caller(store):
    """What a thread would wait for is refused, whichever of its tasks asks; others wait."""
    thread = Thread("billing")

    async def acting(work):
        act_for(thread)
        return await work()

    tx = await asyncio.create_task(acting(store.begin_tx().__aenter__))
    with pytest.raises(DatabaseError, match="this thread holds an open transaction"):
        await asyncio.create_task(acting(lambda: store.queue("q").enqueue(1)))
    other = asyncio.create_task(store.queue("q").enqueue(2))
    await until(lambda: waiting(store._runtime.slot))

    await asyncio.create_task(acting(tx.commit))
    assert 1 == await other
