"""Wakes of a queue: whoever waits hears when there may be work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_silent
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import WakeReceiver

SECONDS = 10.0


async def _wakes(receiver: WakeReceiver, what: str) -> None:
    wake = await receiver.recv()
    expect(wake is not None, f"the receiver ended instead of waking on {what}")
    expect_equal(wake and wake.channel, "work", f"the channel of the wake on {what}")


@prop("queues.wakes.enqueue", decided="Queues/Wakes", seconds=SECONDS)
async def on_enqueue(case: Case) -> None:
    """An enqueue wakes once its job can be claimed, in its own store and in others."""
    store, other = await case.store(), await case.store()
    async with store.queue("work").wakes() as here, other.queue("work").wakes() as there:
        await store.queue("work").enqueue(None)
        await _wakes(here, "an enqueue of its own store")
        await _wakes(there, "an enqueue of another store")
        await claim(other.queue("work"))
        await store.queue("work").enqueue_many([1, 2])
        await _wakes(here, "an enqueue_many of its own store")
        await _wakes(there, "an enqueue_many of another store")
        await claim(other.queue("work"))


@prop("queues.wakes.commit", decided="Queues/Wakes", seconds=SECONDS)
async def on_commit(case: Case) -> None:
    """Jobs of a transaction wake at its commit, not before."""
    store, other = await case.store(), await case.store()
    async with other.queue("work").wakes() as wakes:
        waiting = asyncio.create_task(wakes.recv())
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("work", None)
            for _ in range(5):
                await asyncio.sleep(0)
            expect(not waiting.done(), "a wake came before the commit")
            await tx.commit()
        wake = await waiting
        expect_equal(wake and wake.channel, "work", "the channel of the wake")
        await claim(other.queue("work"))


@prop("queues.wakes.rollback", decided="Queues/Wakes", seconds=SECONDS)
async def on_rollback(case: Case) -> None:
    """A transaction that rolled back wakes nobody."""
    store = await case.store()
    async with store.queue("work").wakes() as wakes:
        waiting = asyncio.create_task(wakes.recv())
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("work", None)
            await tx.rollback()
        await expect_silent(store, waiting, "a rolled-back enqueue woke the queue")
        waiting.cancel()


@prop("queues.wakes.others", decided="Queues/Wakes", seconds=SECONDS)
async def on_others(case: Case) -> None:
    """Other queues, and a channel of the queue's name, do not wake it."""
    store = await case.store()
    async with store.queue("work").wakes() as wakes:
        waiting = asyncio.create_task(wakes.recv())
        await store.queue("other").enqueue(None)
        await store.queue("Work").enqueue(None)
        await store.notify("work", None)
        await store.stream("work").publish(None)
        await store.outbox("work").enqueue(None)
        await expect_silent(store, waiting, "something else than its jobs woke the queue")
        await store.queue("work").enqueue(None)
        wake = await waiting
        expect_equal(wake and wake.channel, "work", "the channel of the wake")


@prop("queues.wakes.retry", decided="Queues/Wakes", seconds=SECONDS)
async def on_retry(case: Case) -> None:
    """A retry that is due at once wakes."""
    store, other = await case.store(), await case.store()
    await store.queue("work").enqueue(None)
    handle = await claim(store.queue("work"))
    async with other.queue("work").wakes() as wakes:
        await handle.retry("again", 0)
        await _wakes(wakes, "a retry")
        await claim(other.queue("work"))


@prop("queues.wakes.release", decided="Queues/Wakes", seconds=SECONDS)
async def on_release(case: Case) -> None:
    """Jobs that are given back wake, single ones and batches."""
    store, other = await case.store(), await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2, 3])
    first, *rest = await queue.claim_batch("worker", 3)
    async with other.queue("work").wakes() as wakes:
        await first.release()
        await _wakes(wakes, "a release")
        await claim(other.queue("work"))
        await queue.release_batch(rest)
        await _wakes(wakes, "a release_batch")
        await claim(other.queue("work"))


@prop("queues.wakes.redrive", decided="Queues/Wakes", seconds=SECONDS)
async def on_redrive(case: Case) -> None:
    """A redriven job wakes: it is work like any other."""
    store, other = await case.store(), await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    await (await claim(queue)).fail("broken")
    async with other.queue("work").wakes() as wakes:
        await queue.redrive(job_id)
        await _wakes(wakes, "a redrive")
        await claim(other.queue("work"))


@prop("queues.wakes.due", decided="Queues/Wakes", seconds=SECONDS)
async def on_due(case: Case) -> None:
    """When a delayed job comes due its queue wakes, and not before."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(delay=3600))
    async with queue.wakes() as wakes:
        waiting = asyncio.create_task(wakes.recv())
        await case.advance(3599)
        await expect_silent(store, waiting, "a delayed job woke its queue before it was due")
        await case.advance(1)
        wake = await waiting
        expect_equal(wake and wake.channel, "work", "the channel of the wake")
        await claim(queue)


@prop("queues.wakes.nearer", decided="Queues/Wakes", seconds=SECONDS)
async def on_nearer(case: Case) -> None:
    """A job enqueued later but due sooner wakes when it is due, also from another client."""
    store, other = await case.store(), await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(delay=3600))
    async with queue.wakes() as wakes:
        nearer = await other.queue("work").enqueue(None, EnqueueOpts(delay=60))
        async with store.listen("marker") as marker:
            await other.notify("marker")
            await marker.recv()
        waiting = asyncio.create_task(wakes.recv())
        for _ in range(5):
            await asyncio.sleep(0)
        if waiting.done():  # That was the enqueue.
            waiting = asyncio.create_task(wakes.recv())
        await case.advance(60)
        wake = await waiting
        expect_equal(wake and wake.channel, "work", "the channel of the wake")
        expect_equal((await claim(queue)).job.id, nearer, "the claimed id")


@prop("queues.wakes.lapse", decided="Queues/Wakes", seconds=SECONDS)
async def on_lapse(case: Case) -> None:
    """When a claim lapses the queue wakes, whoever held it."""
    store, other = await case.store(), await case.store()
    await store.queue("work").enqueue(None)
    await claim(store.queue("work"), "crashed")
    async with other.queue("work").wakes() as wakes:
        waiting = asyncio.create_task(wakes.recv())
        await case.advance(LAPSE - 1)
        await expect_silent(other, waiting, "a live claim woke its queue")
        await case.advance(1)
        wake = await waiting
        expect_equal(wake and wake.channel, "work", "the channel of the wake")
        await claim(other.queue("work"))


@prop("queues.wakes.overdue", decided="Queues/Wakes", seconds=SECONDS)
async def on_overdue(case: Case) -> None:
    """Who attaches when a delayed job is long due, and nobody claimed it, is woken for it."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(delay=10))
    await case.advance(100)
    async with queue.wakes() as wakes:
        await _wakes(wakes, "a job that was due before")


@prop("queues.wakes.worker", decided="Queues/Wakes", seconds=SECONDS)
async def worker_loop(case: Case) -> None:
    """A worker that claims until nothing comes, then waits for a wake, misses no job."""
    store, other = await case.store(), await case.store()

    async def work() -> list[int]:
        done: list[int] = []
        queue = store.queue("work")
        async with queue.wakes() as wakes:
            while len(done) < len(ids):
                while handle := await queue.claim_one("worker"):
                    await handle.ack()
                    done.append(handle.job.payload_as(int))
                if len(done) < len(ids):
                    await wakes.recv()
        return done

    ids = range(25)
    working = asyncio.create_task(work())
    for number in ids:
        await other.queue("work").enqueue(number)
        for _ in range(number):
            await asyncio.sleep(0)
    expect_equal(sorted(await working), list(ids), "the jobs the worker did")
