"""Ids of jobs, and one queue beside another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("queues.ids.fresh", decided="Queues/Enqueue")
async def ids_fresh(case: Case) -> None:
    """An id is never given twice, in whatever way its job left and from whichever queue."""
    store, other = await case.store(), await case.store()
    queue, second = store.queue("work"), other.queue("other")
    given = [await queue.enqueue(None) for _ in range(5)]
    await (await claim(queue)).ack()
    await (await claim(queue)).fail("broken")
    await queue.purge_dead()
    await queue.cancel(given[-1])
    given.append(await second.enqueue(None))
    await queue.cancel(given[-2])
    given += await queue.enqueue_many([1, 2])
    await (await claim(queue)).fail("again")
    dead = [job.id for job in await queue.dead_jobs()]
    given += [await queue.redrive(job_id) or 0 for job_id in dead]
    expect_equal(len(set(given)), len(given), f"the number of different ids among {given}")


@prop("queues.ids.emptied", decided="Queues/Enqueue")
async def ids_emptied(case: Case) -> None:
    """Emptying a queue lets no id be given again."""
    store = await case.store()
    queue = store.queue("work")
    before = await queue.enqueue_many([1, 2, 3])
    for handle in await queue.claim_batch("worker", 3):
        await handle.ack()
    expect_equal(await store.queues(), [], "the queues, all empty")
    after = await queue.enqueue_many([1, 2, 3])
    expect(not set(before) & set(after), f"ids {before} were given, then {after}")


@prop("queues.ids.reopened", decided="Queues/Enqueue")
async def ids_reopened(case: Case) -> None:
    """Ids are not given again after every job is gone and every store was closed."""
    async with case.unopened() as store:
        before = await store.queue("work").enqueue_many([1, 2, 3])
        for handle in await store.queue("work").claim_batch("worker", 2):
            await handle.ack()
        await store.queue("work").cancel(before[-1])
    async with case.unopened() as store:
        queue = store.queue("work")
        expect_equal(await queue.jobs(), [], "the jobs after the reopening")
        after = await queue.enqueue_many([1, 2, 3])
        expect(not set(before) & set(after), f"ids {before} were given, then {after}")


@prop("queues.apart", decided="Queues/Enqueue")
async def queues_apart(case: Case) -> None:
    """Queues share nothing: claims, batches, sweeps and purges stay within their own."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    kept = await other.enqueue_many([1, 2])
    dead = await claim(other)
    await dead.fail("broken")
    await other.enqueue(3, EnqueueOpts(expires=0))
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim")
    expect_equal(await queue.sweep_expired(), 0, "a sweep")
    expect_equal(await queue.purge_dead(), 0, "a purge")
    expect_equal(await queue.ack_batch(kept, "worker"), 0, "an ack_batch")
    stats = await other.stats()
    expect_equal((stats.ready, stats.expired, stats.dead), (1, 1, 1), "ready, expired, dead")
