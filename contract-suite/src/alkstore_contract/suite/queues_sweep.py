"""The sweep: expired jobs die, dead ones past their retention go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of, job_of
from alkstore_core import EnqueueOpts, JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case

_SHORT = EnqueueOpts(expires=400)


@prop("queues.sweep.states", decided="Queues/Sweep")
async def states(case: Case) -> None:
    """Every job past its expiry dies of `"expired"`, whatever its state, and is counted."""
    store = await case.store()
    queue = store.queue("work")
    lapsed = await queue.enqueue(None, _SHORT)
    await claim(queue, "crashed")
    await case.advance(LAPSE)
    ready = await queue.enqueue(None, EnqueueOpts(expires=50, priority=-1))
    delayed = await queue.enqueue(None, EnqueueOpts(expires=50, delay=1000))
    due = await queue.enqueue(None, EnqueueOpts(expires=50, delay=20))
    held = await queue.enqueue(None, EnqueueOpts(expires=50, priority=9))
    expect_equal((await claim(queue)).job.id, held, "the id under a live claim")
    await case.advance(99)
    expect_equal(await queue.sweep_expired(), 5, "the jobs moved")
    for job_id in (lapsed, ready, delayed, due, held):
        expected = {"state": JobState.DEAD, "last_error": "expired", "died_at": 1_700_000_400}
        expect_job(await queue.get_job(job_id), expected, f"job {job_id}")
    expect_equal(await queue.jobs(), [], "the live jobs")


@prop("queues.sweep.passed_over", decided="Queues/Sweep")
async def passed_over(case: Case) -> None:
    """Expired jobs that claims and statistics have passed over are swept like all others."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many([1, 2], EnqueueOpts(expires=10))
    ids += await queue.enqueue_many([3, 4], EnqueueOpts(expires=10, delay=5))
    await case.advance(10)
    expect_equal(await queue.claim_batch("worker", 9), [], "a claim")
    expect_equal((await queue.stats()).expired, 4, "the expired jobs")
    expect_equal(await queue.sweep_expired(), 4, "the jobs moved")
    expect_equal([job.id for job in await queue.dead_jobs()], ids, "the dead jobs")


@prop("queues.sweep.in_time", decided="Time")
async def in_time(case: Case) -> None:
    """A job is expired from the second of its expiry on, and not a second sooner."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(expires=10))
    await case.advance(9)
    expect_equal(await queue.sweep_expired(), 0, "the jobs moved one second early")
    expect_equal((await job_of(queue, job_id)).state, JobState.PENDING, "state")
    await case.advance(1)
    expect_equal(await queue.sweep_expired(), 1, "the jobs moved at the expiry")


@prop("queues.sweep.others", decided="Queues/Sweep")
async def others(case: Case) -> None:
    """A sweep leaves jobs alone that have no expiry or a later one, lapsed claims included."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(max_attempts=1))
    await claim(queue, "crashed")
    await queue.enqueue(None, EnqueueOpts(expires=1000))
    await queue.enqueue(None, EnqueueOpts(delay=5))
    await case.advance(LAPSE)
    before = [fields_of(job) for job in await queue.jobs()]
    expect_equal(await queue.sweep_expired(), 0, "the jobs moved")
    for expected in before:
        expect_job(await queue.get_job(expected["id"]), expected, "after the sweep")


@prop("queues.sweep.twice", decided="Queues/Sweep")
async def twice(case: Case) -> None:
    """A second sweep moves nothing, and a dead job keeps the time of its first death."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(expires=0))
    expect_equal(await queue.sweep_expired(), 1, "the jobs moved first")
    await case.advance(60)
    expect_equal(await queue.sweep_expired(), 0, "the jobs moved then")
    expect_job(await queue.get_job(job_id), {"died_at": 1_700_000_000}, "the dead job")


@prop("queues.sweep.large", decided="Queues/Batches")
async def large(case: Case) -> None:
    """A sweep moves thousands and counts each once."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many(range(2200), EnqueueOpts(expires=10))
    kept = await queue.enqueue(None)
    await case.advance(10)
    expect_equal(await queue.sweep_expired(), 2200, "the jobs moved")
    stats = await queue.stats()
    expect_equal((stats.ready, stats.dead), (1, 2200), "ready and dead jobs")
    expect_equal((await claim(queue)).job.id, kept, "the id that is claimed")


@prop("queues.retention.over", decided="Queues/Sweep")
async def retention_over(case: Case) -> None:
    """A sweep deletes dead jobs older than their retention, uncounted, and no sooner."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(dead_letter_retention_s=100))
    job_id = await queue.enqueue(None)
    await case.advance(50)
    await (await claim(queue)).fail("broken")
    await case.advance(100)
    expect_equal(await queue.sweep_expired(), 0, "the jobs moved in the last second")
    expect_equal((await job_of(queue, job_id)).state, JobState.DEAD, "state in the last second")
    await case.advance(1)
    expect_equal(await queue.sweep_expired(), 0, "the jobs moved after it")
    expect_equal(await queue.get_job(job_id), None, "get_job after it")


@prop("queues.retention.own", decided="Queues/Stamps")
async def retention_own(case: Case) -> None:
    """Each job's own retention counts; without one it is kept for ever."""
    store = await case.store()
    ids = [
        await store.queue("work", QueueOpts(dead_letter_retention_s=retention)).enqueue(None)
        for retention in (100, 5000, None)
    ]
    queue = store.queue("work", QueueOpts(dead_letter_retention_s=1))
    for handle in await queue.claim_batch("worker", 3):
        await handle.fail("broken")
    await case.advance(101)
    await queue.sweep_expired()
    expect_equal([job.id for job in await queue.dead_jobs()], ids[1:], "the dead jobs, first")
    await case.advance(10**9)
    await queue.sweep_expired()
    expect_equal([job.id for job in await queue.dead_jobs()], ids[2:], "the dead jobs, later")


@prop("queues.retention.just_dead", decided="Queues/Sweep")
async def retention_just_dead(case: Case) -> None:
    """A job that dies in a sweep is kept for its retention from then on, if only for a second."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(dead_letter_retention_s=0))
    job_id = await queue.enqueue(None, EnqueueOpts(expires=10))
    await case.advance(5000)
    expect_equal(await queue.sweep_expired(), 1, "the jobs moved")
    expect_equal((await job_of(queue, job_id)).state, JobState.DEAD, "state after the sweep")
    await case.advance(1)
    await queue.sweep_expired()
    expect_equal(await queue.get_job(job_id), None, "get_job after the next sweep")


@prop("queues.retention.only_sweep", decided="Store/Shape")
async def only_sweep(case: Case) -> None:
    """Nothing but a sweep deletes dead jobs for their age, and only its own queue's."""
    store = await case.store()
    opts = QueueOpts(dead_letter_retention_s=10)
    queue, other = store.queue("work", opts), store.queue("other", opts)
    job_id = await queue.enqueue(None)
    await (await claim(queue)).fail("broken")
    await case.advance(1000)
    await other.sweep_expired()
    await queue.claim_batch("worker", 5)
    await queue.stats()
    expect_equal([job.id for job in await queue.dead_jobs()], [job_id], "the dead jobs")
