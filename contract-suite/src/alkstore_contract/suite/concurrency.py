"""Many tasks and many clients at once: nothing is done twice, nothing is lost, nobody is stuck."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store

PRODUCERS = 4
EACH = 12


async def _produce(store: Store, who: int) -> None:
    for number in range(EACH):
        await store.queue("work").enqueue([who, number])


async def _work(store: Store, who: int, done: list[str], wanted: int) -> None:
    queue = store.queue("work")
    async with queue.wakes() as wakes:
        while len(done) < wanted:
            handles = await queue.claim_batch(f"worker {who}", 3)
            for handle in handles:
                if await handle.ack():
                    done.append(handle.job.payload.decode())
                    if len(done) == wanted:
                        # Whoever still waits for a wake is told by this one.
                        await store.queue("work").enqueue("over", EnqueueOpts(priority=-1))
            if not handles and len(done) < wanted:
                await wakes.recv()


async def _share_the_work(clients: list[Store]) -> None:
    wanted = PRODUCERS * EACH
    done: list[str] = []
    workers = [
        asyncio.ensure_future(_work(clients[who % len(clients)], who, done, wanted))
        for who in range(4)
    ]
    await asyncio.gather(*(_produce(clients[w % len(clients)], w) for w in range(PRODUCERS)))
    await asyncio.gather(*workers)
    jobs = [payload for payload in done if payload != '"over"']
    expected = sorted(f"[{who},{number}]" for who in range(PRODUCERS) for number in range(EACH))
    expect_equal(sorted(jobs), expected, "the jobs that were done")


@prop("concurrency.tasks", decided="Queues/Claim")
async def tasks(case: Case) -> None:
    """Many producers and workers of one client: each job is done once."""
    await _share_the_work([await case.store()])


@prop("concurrency.clients", decided="Queues/Claim")
async def clients(case: Case) -> None:
    """Producers and workers of several clients: each job is done once."""
    await _share_the_work([await case.store() for _ in range(4)])


@prop("concurrency.everything", decided="Store/Shape")
async def everything(case: Case) -> None:
    """Calls of every kind at the same time neither fail nor block one another."""
    stores = [await case.store() for _ in range(2)]

    async def busy(who: int) -> None:
        store = stores[who % 2]
        queue, stream = store.queue("work"), store.stream("log")
        for number in range(4):
            await queue.enqueue_many([number, number])
            async with store.transaction() as tx:
                offset = await tx.publish_tx("log", number)
                await tx.enqueue_tx("work", number)
                await tx.save_offset_tx("log", f"reader {who}", offset)
            handles = await queue.claim_batch(f"worker {who}", 2)
            await queue.ack_batch(handles[:1], f"worker {who}")
            for handle in handles[1:]:
                await handle.release()
            await queue.sweep_expired()
            await stream.trim_to(offset - 5)
            lock = await store.try_lock("door", f"owner {who}", 10)
            if lock is not None:
                await lock.release()
            await store.notify("news", number)
            await store.schedule(f"tick {who}", "@every 1h", "work", number)
            await queue.stats()

    await asyncio.gather(*(busy(who) for who in range(6)))
    stats = await stores[0].queue("work").stats()
    expect_equal((stats.processing, stats.dead), (0, 0), "claimed and dead jobs in the end")
    expect_equal(await stores[1].locks(), [], "locks in the end")
    expect_equal(len(await stores[1].schedules()), 6, "schedules in the end")
    expect_equal(len(await stores[0].stream("log").consumers()), 6, "consumers in the end")


@prop("concurrency.conservation", decided="Queues/Dead jobs")
async def conservation(case: Case) -> None:
    """Whatever becomes of jobs at the same time, each of them is somewhere exactly once."""
    stores = [await case.store() for _ in range(2)]
    ids = await stores[0].queue("work").enqueue_many(list(range(60)))
    gone: list[int] = []

    async def work(who: int) -> None:
        queue = stores[who % 2].queue("work")
        while handles := await queue.claim_batch(f"worker {who}", 2):
            for handle in handles:
                number = int(handle.job.payload)
                if number % 3 == 0:
                    if await handle.ack():
                        gone.append(handle.job.id)
                elif number % 3 == 1:
                    await handle.fail("no")
                else:
                    await handle.retry("later", 1_000)

    await asyncio.gather(*(work(who) for who in range(5)))
    queue = stores[1].queue("work")
    live = [job.id for job in await queue.jobs()]
    dead = [job.id for job in await queue.dead_jobs()]
    expect_equal(sorted(gone + live + dead), ids, "acked, live and dead jobs together")
    expect_equal((len(gone), len(live), len(dead)), (20, 20, 20), "acked, live and dead jobs")
