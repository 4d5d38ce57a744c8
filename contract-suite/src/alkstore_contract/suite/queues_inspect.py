"""Looking at queues: single jobs, lists, counts; and taking a job away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, job_of
from alkstore_core import DatabaseError, EnqueueOpts, JobState, QueueStats

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("queues.get.states", decided="Queues/Inspect")
async def get_states(case: Case) -> None:
    """`get_job` finds pending, processing and dead jobs of its queue and tells their state."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(3))
    handles = await queue.claim_batch("worker", 2)
    await handles[1].fail("broken")
    states = [(await job_of(queue, job_id)).state for job_id in ids]
    expect_equal(states, [JobState.PROCESSING, JobState.DEAD, JobState.PENDING], "the states")


@prop("queues.get.own", decided="Queues/Inspect")
async def get_own(case: Case) -> None:
    """`get_job` gives `None` for live and dead jobs of other queues and for unknown ids."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    dead, live = await queue.enqueue_many([1, 2])
    await (await claim(queue)).fail("broken")
    for job_id in (dead, live, live + 1000):
        expect_equal(await other.get_job(job_id), None, f"get_job({job_id}) of the other queue")
    async with store.transaction() as tx:
        for job_id in (dead, live, live + 1000):
            expect_equal(await tx.get_job_tx("other", job_id), None, f"get_job_tx({job_id})")


@prop("queues.get.tx", decided="Transactions/One transaction")
async def get_tx(case: Case) -> None:
    """`get_job_tx` sees live and dead jobs as `get_job` does."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(3), EnqueueOpts(headers={"h": "v"}))
    handles = await queue.claim_batch("worker", 2)
    await handles[1].fail("broken")
    outside = [await queue.get_job(job_id) for job_id in ids]
    async with store.transaction() as tx:
        inside = [await tx.get_job_tx("work", job_id) for job_id in ids]
    expect_equal(inside, outside, "the jobs")


@prop("queues.get.values", decided="Queues/Inspect")
async def get_values(case: Case) -> None:
    """What was read is a copy: equal when read again, unchanged by what happens later."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    first, second = await job_of(queue, job_id), await job_of(queue, job_id)
    expect_equal(first, second, "two reads")
    await claim(queue)
    expect_equal(first.state, JobState.PENDING, "state of the value read before the claim")


@prop("queues.cancel.live", decided="Queues/Inspect")
async def cancel_live(case: Case) -> None:
    """`cancel` deletes a job that is ready, delayed, claimed or lapsed, for good."""
    store = await case.store()
    queue = store.queue("work")
    lapsed = await queue.enqueue(None)
    await claim(queue, "crashed")
    await case.advance(LAPSE)
    claimed = await queue.enqueue(None, EnqueueOpts(priority=1))
    expect_equal((await claim(queue)).job.id, claimed, "the claimed id")
    ready = await queue.enqueue(None)
    delayed = await queue.enqueue(None, EnqueueOpts(delay=60))
    for job_id in (lapsed, claimed, ready, delayed):
        expect_equal(await queue.cancel(job_id), True, f"cancel({job_id})")
        expect_equal(await queue.cancel(job_id), False, f"cancel({job_id}) again")
        expect_equal(await queue.get_job(job_id), None, f"get_job({job_id})")
    await case.advance(10_000)
    expect_equal(await queue.claim_batch("worker", 9), [], "a claim long after")


@prop("queues.cancel.own", decided="Queues/Inspect")
async def cancel_own(case: Case) -> None:
    """`cancel` leaves dead jobs and jobs of other queues alone and says `False`."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    dead, live = await queue.enqueue_many([1, 2])
    await (await claim(queue)).fail("broken")
    expect_equal(await queue.cancel(dead), False, "cancel of a dead job")
    expect_equal(await other.cancel(live), False, "cancel of another queue's job")
    expect_equal(await queue.cancel(live + 1000), False, "cancel of an unknown id")
    expect_equal((await job_of(queue, dead)).state, JobState.DEAD, "state of the dead job")
    expect_equal((await claim(queue)).job.id, live, "the claimed id")


@prop("queues.stats.disjoint", decided="Queues/Inspect")
async def stats_disjoint(case: Case) -> None:
    """The counts are disjoint and add up to all rows, each state apart."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many(range(2))
    await queue.claim_batch("crashed", 2)
    await queue.enqueue_many(range(1), EnqueueOpts(expires=350))
    await queue.claim_batch("crashed", 1)
    await case.advance(200)
    await queue.enqueue_many(range(3), EnqueueOpts(expires=200))
    await queue.claim_batch("worker", 3)
    await queue.enqueue_many(range(4), EnqueueOpts(expires=200))
    await queue.enqueue_many(range(1), EnqueueOpts(expires=200, delay=1000))
    await queue.enqueue_many(range(1), EnqueueOpts(delay=150))
    await queue.enqueue_many(range(5), EnqueueOpts(delay=1000))
    for _ in range(2):
        await queue.enqueue(None, EnqueueOpts(priority=9))
        await (await claim(queue)).fail("broken")
    await case.advance(200)
    await queue.enqueue_many(range(6))
    expect_equal(
        await queue.stats(),
        QueueStats(
            ready=7, delayed=5, processing=3, lapsed=2, expired=6, dead=2, oldest_ready_age_s=50
        ),
        "stats",
    )


@prop("queues.stats.empty", decided="Queues/Inspect")
async def stats_empty(case: Case) -> None:
    """A queue without jobs counts zeros, and other queues' jobs are not among them."""
    store = await case.store()
    other = store.queue("other")
    await other.enqueue_many([1, 2])
    await (await claim(other)).fail("broken")
    expected = QueueStats(
        ready=0, delayed=0, processing=0, lapsed=0, expired=0, dead=0, oldest_ready_age_s=None
    )
    expect_equal(await store.queue("work").stats(), expected, "stats")


@prop("queues.stats.age", decided="Queues/Inspect")
async def stats_age(case: Case) -> None:
    """`oldest_ready_age_s` is how long the longest waiting ready job has been ready."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(delay=100))
    expect_equal((await queue.stats()).oldest_ready_age_s, None, "the age when none is ready")
    await case.advance(50)
    await queue.enqueue(None, EnqueueOpts(priority=-5))
    await case.advance(10)
    await queue.enqueue(None, EnqueueOpts(priority=5))
    expect_equal((await queue.stats()).oldest_ready_age_s, 10, "the age")
    await queue.claim_batch("worker", 2)
    expect_equal((await queue.stats()).oldest_ready_age_s, None, "the age when all are claimed")
    await case.advance(60)
    expect_equal((await queue.stats()).oldest_ready_age_s, 20, "the age of one that came due")


@prop("queues.stats.live_claim", decided="Queues/Inspect")
async def stats_live_claim(case: Case) -> None:
    """A job under a live claim counts as processing, also past its expiry, and lapsed after."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2])
    await queue.enqueue(None, EnqueueOpts(expires=100))
    await queue.claim_batch("worker", 3)
    await case.advance(300)
    stats = await queue.stats()
    seen = (stats.processing, stats.lapsed, stats.expired)
    expect_equal(seen, (3, 0, 0), "processing, lapsed, expired in the last second")
    await case.advance(1)
    stats = await queue.stats()
    seen = (stats.processing, stats.lapsed, stats.expired)
    expect_equal(seen, (0, 2, 1), "processing, lapsed, expired after it")


@prop("queues.jobs.states", decided="Queues/Inspect")
async def jobs_states(case: Case) -> None:
    """`jobs` lists live jobs by id, of all states or of one; `"dead"` lists the dead ones."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(5))
    delayed = await queue.enqueue(None, EnqueueOpts(delay=60, priority=9))
    handles = await queue.claim_batch("worker", 3)
    await handles[1].fail("broken")
    await store.queue("other").enqueue(None)
    listed = {
        None: [ids[0], ids[2], ids[3], ids[4], delayed],
        JobState.PENDING: [ids[3], ids[4], delayed],
        JobState.PROCESSING: [ids[0], ids[2]],
        JobState.DEAD: [ids[1]],
        "pending": [ids[3], ids[4], delayed],
        "processing": [ids[0], ids[2]],
        "dead": [ids[1]],
    }
    for state, expected in listed.items():
        jobs = await queue.jobs(state)
        expect_equal([job.id for job in jobs], expected, f"jobs({state!r})")
        for job in jobs:
            expect_equal(job, await queue.get_job(job.id), f"a job of jobs({state!r})")
    with expect_raises(DatabaseError, "jobs('ready')"):
        await queue.jobs("ready")


@prop("queues.jobs.pages", decided="Queues/Inspect")
async def jobs_pages(case: Case) -> None:
    """`jobs` gives pages: at most `limit`, 100 by default, above `after_id`, none left out."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(130))
    expect_equal([job.id for job in await queue.jobs()], ids[:100], "the first page by default")
    paged: list[int] = []
    while page := await queue.jobs("pending", 40, paged[-1] if paged else 0):
        expect_equal(len(page), min(40, 130 - len(paged)), "the length of a page")
        paged += [job.id for job in page]
    expect_equal(paged, ids, "the ids of all pages")


@prop("queues.dead_jobs.pages", decided="Queues/Inspect")
async def dead_pages(case: Case) -> None:
    """`dead_jobs` gives pages by id: at most `limit`, 100 by default, above `after_id`."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(130), EnqueueOpts(expires=0))
    await queue.sweep_expired()
    await store.queue("other").enqueue(None, EnqueueOpts(expires=0))
    await store.queue("other").sweep_expired()
    expect_equal([job.id for job in await queue.dead_jobs()], ids[:100], "the first page")
    paged: list[int] = []
    while page := await queue.dead_jobs(40, paged[-1] if paged else 0):
        expect_equal(len(page), min(40, 130 - len(paged)), "the length of a page")
        paged += [job.id for job in page]
    expect_equal(paged, ids, "the ids of all pages")


@prop("queues.nothing_alone", decided="Store/Shape", seconds=10.0)
async def nothing_alone(case: Case) -> None:
    """With nobody claiming or sweeping nothing changes: lapsed, expired and retired jobs stay."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2, 3], EnqueueOpts(expires=100, max_attempts=1))
    handles = await queue.claim_batch("crashed", 2)
    await handles[1].fail("broken")
    await queue.enqueue(None, EnqueueOpts(delay=50_000))
    before = [*await queue.jobs(), *await queue.dead_jobs()]
    async with queue.wakes() as wakes:
        await case.advance(100_000)
        expect(await wakes.recv(), "the receiver ended instead of waking on the delayed job")
    await queue.stats()
    after = [*await queue.jobs(), *await queue.dead_jobs()]
    expect_equal(after, before, "the jobs a day later")
