"""Dead jobs: what stays of them, and the ways back and out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of, job_of
from alkstore_core import EnqueueOpts, JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Queue

_OPTS = QueueOpts(visibility_timeout_s=45, backoff_base_s=11, dead_letter_retention_s=9000)
_ENQUEUE = EnqueueOpts(priority=4, max_attempts=1, expires=600, headers={"h": "v\0"})


async def _dead(queue: Queue, error: str = "broken") -> int:
    job_id = await queue.enqueue({"n": [1, None]}, _ENQUEUE)
    expect_equal(await (await claim(queue)).fail(error), True, "fail")
    return job_id


@prop("queues.dead.kept", decided="Queues/Dead jobs", cases=("fail", "retry", "claim", "sweep"))
async def kept(case: Case, how: str) -> None:
    """A dead job keeps id, payload, headers, stamps, attempts and times, however it died."""
    store = await case.store()
    queue = store.queue("work", _OPTS)
    job_id = await queue.enqueue({"b": 1, "a": [1.5, "\0"]}, _ENQUEUE)
    handle = await claim(queue)
    before = fields_of(handle.job)
    if how == "fail":
        await handle.fail("broken")
    elif how == "retry":
        await handle.retry("broken")
    else:
        await case.advance(46 if how == "claim" else 600)
        if how == "claim":
            expect_equal(await queue.claim_one("other"), None, "the claim that buries")
        else:
            expect_equal(await queue.sweep_expired(), 1, "the sweep")
    text = {"claim": "max attempts exceeded", "sweep": "expired"}.get(how, "broken")
    died_at = {"claim": 1_700_000_046, "sweep": 1_700_000_600}.get(how, 1_700_000_000)
    expected = {**before, "state": JobState.DEAD, "last_error": text, "died_at": died_at}
    for claim_field in ("worker_id", "claimed_at", "claim_expires_at"):
        del expected[claim_field]
    expect_job(await queue.get_job(job_id), expected, "get_job")
    (listed,) = await queue.dead_jobs()
    expect_job(listed, expected, "dead_jobs")


@prop("queues.dead.claim_told", decided="Queues/Dead jobs")
async def claim_told(case: Case) -> None:
    """A dead job still says who held it last."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    await case.advance(3)
    handle = await claim(queue, "culprit")
    await handle.fail("broken")
    expected = {"worker_id": "culprit", "claimed_at": 1_700_000_003}
    expect_job(await queue.get_job(handle.job.id), expected, "the dead job")


@prop("queues.dead.out", decided="Queues/Dead jobs")
async def out(case: Case) -> None:
    """A dead job is out of the queue: never claimed, listed as live, cancelled or swept again."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await _dead(queue)
    await case.advance(10_000)
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim")
    expect_equal(await queue.jobs(), [], "the live jobs")
    expect_equal(await queue.cancel(job_id), False, "cancel")
    expect_equal(await queue.sweep_expired(), 0, "a sweep")
    expect_equal((await job_of(queue, job_id)).last_error, "broken", "last_error")


@prop("queues.dead.atomic", decided="Queues/Dead jobs")
async def atomic(case: Case) -> None:
    """At no instant is a dying job in both places or in neither."""
    store, other = await case.store(), await case.store()
    queue, watched = store.queue("work"), other.queue("work")
    await queue.enqueue_many(range(12), EnqueueOpts(max_attempts=1, expires=1000))
    handles = await queue.claim_batch("worker", 12)

    async def die() -> None:
        for handle in handles[:3]:
            await handle.fail("broken")
        for handle in handles[3:6]:
            await handle.retry("broken")
        await case.advance(LAPSE)
        expect_equal(await queue.claim_one("other"), None, "the claim that buries")

    dying = asyncio.create_task(die())
    looks = 0
    while not dying.done():
        stats = await watched.stats()
        total = stats.ready + stats.processing + stats.lapsed + stats.dead
        expect_equal(total, 12, f"the jobs at one look, in {stats}")
        looks += 1
        await asyncio.sleep(0)
    await dying
    expect(looks > 0, "nobody looked")
    expect_equal((await watched.stats()).dead, 12, "the dead jobs at the end")


@prop("queues.redrive.fresh", decided="Queues/Dead jobs")
async def redrive_fresh(case: Case) -> None:
    """`redrive` replaces a dead job by a new one: same work and stamps, no attempts, due now."""
    store = await case.store()
    queue = store.queue("work", _OPTS)
    old = await _dead(queue)
    await case.advance(700)
    before = fields_of(await queue.get_job(old))
    new = await queue.redrive(old)
    expect(new is not None and new != old, f"redrive({old}) gave {new}, not a new id")
    expected = {
        **before,
        "id": new,
        "state": JobState.PENDING,
        "run_at": 1_700_000_700,
        "created_at": 1_700_000_700,
        "expires_at": None,
        "attempts": 0,
        "worker_id": None,
        "claimed_at": None,
        "claim_expires_at": None,
        "last_error": None,
        "died_at": None,
    }
    expect_job(await queue.get_job(new or 0), expected, "the redriven job")
    expect_equal(await queue.get_job(old), None, "the dead job, replaced")
    expect_job((await claim(queue)).job, {"id": new, "attempts": 1}, "the next claim")


@prop("queues.redrive.only_dead", decided="Queues/Dead jobs")
async def redrive_only_dead(case: Case) -> None:
    """`redrive` of a live job, of another queue's or of none gives `None` and changes nothing."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    dead = await _dead(other)
    live = await queue.enqueue(None)
    for job_id in (dead, live, live + 100):
        expect_equal(await queue.redrive(job_id), None, f"redrive({job_id})")
    expect_equal([job.id for job in await queue.jobs()], [live], "the live jobs")
    expect_equal((await job_of(other, dead)).state, JobState.DEAD, "the other queue's job")


@prop("queues.redrive.once", decided="Queues/Dead jobs")
async def redrive_once(case: Case) -> None:
    """Of many who redrive one dead job just one succeeds."""
    stores = [await case.store() for _ in range(2)]
    job_id = await _dead(stores[0].queue("work"))
    calls = [stores[number % 2].queue("work").redrive(job_id) for number in range(8)]
    given = [new for new in await asyncio.gather(*calls) if new is not None]
    expect_equal(len(given), 1, "the redrives that gave an id")
    expect_equal([job.id for job in await stores[0].queue("work").jobs()], given, "the live jobs")


@prop("queues.purge.all", decided="Queues/Dead jobs")
async def purge_all(case: Case) -> None:
    """`purge_dead()` deletes every dead job of the queue, no live one, and counts them."""
    store = await case.store()
    queue = store.queue("work")
    for _ in range(3):
        await _dead(queue)
    live = await queue.enqueue(None)
    expect_equal(await queue.purge_dead(), 3, "the jobs deleted")
    expect_equal(await queue.dead_jobs(), [], "the dead jobs left")
    expect_equal([job.id for job in await queue.jobs()], [live], "the live jobs")
    expect_equal(await queue.purge_dead(), 0, "the jobs deleted again")


@prop("queues.purge.before", decided="Queues/Dead jobs")
async def purge_before(case: Case) -> None:
    """`purge_dead(before)` deletes what died before that time, not what died in that second."""
    store = await case.store()
    queue = store.queue("work")
    await _dead(queue)
    kept_ = []
    for _ in range(2):
        await case.advance(10)
        kept_.append(await _dead(queue))
    expect_equal(await queue.purge_dead(1_700_000_000), 0, "the jobs deleted before the first")
    expect_equal(await queue.purge_dead(1_700_000_010), 1, "the jobs deleted before the second")
    expect_equal([job.id for job in await queue.dead_jobs()], kept_, "the dead jobs left")


@prop("queues.purge.large", decided="Queues/Batches")
async def purge_large(case: Case) -> None:
    """A purge deletes thousands and counts them all."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many(range(2200), EnqueueOpts(expires=0))
    expect_equal(await queue.sweep_expired(), 2200, "the sweep")
    expect_equal(await queue.purge_dead(), 2200, "the jobs deleted")
    expect_equal(await store.queues(), [], "the queues that hold a job")
