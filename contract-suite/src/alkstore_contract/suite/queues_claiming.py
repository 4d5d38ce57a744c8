"""Claiming: who gets which job, and what the claim leaves on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of, job_of
from alkstore_core import EnqueueOpts, JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("queues.claim.priority", decided="Queues/Claim")
async def priority(case: Case) -> None:
    """A higher priority is claimed first, whatever the ready times and ids."""
    store = await case.store()
    queue = store.queue("work")
    ids = {
        level: await queue.enqueue(None, EnqueueOpts(priority=level, run_at=1_600_000_000 + number))
        for number, level in enumerate((0, -(2**63), 7, -1, 2**63 - 1))
    }
    order = [(await claim(queue)).job.id for _ in ids]
    expect_equal(order, [ids[n] for n in (2**63 - 1, 7, 0, -1, -(2**63))], "the claimed ids")


@prop("queues.claim.ready_time", decided="Queues/Claim")
async def ready_time(case: Case) -> None:
    """Among equals of priority the one that was ready first is claimed first."""
    store = await case.store()
    queue = store.queue("work")
    late = await queue.enqueue(None)
    early = await queue.enqueue(None, EnqueueOpts(run_at=1_600_000_000))
    between = await queue.enqueue(None, EnqueueOpts(delay=-10))
    order = [(await claim(queue)).job.id for _ in range(3)]
    expect_equal(order, [early, between, late], "the claimed ids")


@prop("queues.claim.fifo", decided="Queues/Claim")
async def fifo(case: Case) -> None:
    """Jobs of one priority and ready time are claimed in the order they were enqueued."""
    store, other = await case.store(), await case.store()
    ids = []
    for _ in range(5):
        ids.append(await store.queue("work").enqueue(None))
        ids.append(await other.queue("work").enqueue(None))
    order = [(await claim(store.queue("work"))).job.id for _ in ids]
    expect_equal(order, ids, "the claimed ids")


@prop("queues.claim.order_due", decided="Queues/Claim")
async def order_due(case: Case) -> None:
    """A delayed job that came due stands among the ready ones as priority and ready time say."""
    store = await case.store()
    queue = store.queue("work")
    delayed = await queue.enqueue(None, EnqueueOpts(delay=5))
    urgent = await queue.enqueue(None, EnqueueOpts(delay=20, priority=1))
    before = await queue.enqueue(None)
    await case.advance(10)
    after = await queue.enqueue(None)
    await case.advance(10)
    order = [(await claim(queue)).job.id for _ in range(4)]
    expect_equal(order, [urgent, before, delayed, after], "the claimed ids")


@prop("queues.claim.order_lapsed", decided="Queues/Claim")
async def order_lapsed(case: Case) -> None:
    """A job whose claim lapsed stands where it stood: by priority, first ready time and id."""
    store = await case.store()
    queue = store.queue("work")
    first = await queue.enqueue(None)
    second = await queue.enqueue(None)
    expect_equal(len(await queue.claim_batch("crashed", 2)), 2, "the jobs the crashed worker had")
    await case.advance(LAPSE - 1)
    third = await queue.enqueue(None)
    await case.advance(1)
    urgent = await queue.enqueue(None, EnqueueOpts(priority=1))
    order = [(await claim(queue)).job.id for _ in range(4)]
    expect_equal(order, [urgent, first, second, third], "the claimed ids")


@prop("queues.claim.order_retried", decided="Queues/Claim")
async def order_retried(case: Case) -> None:
    """A retried job stands by its new ready time."""
    store = await case.store()
    queue = store.queue("work")
    retried = await queue.enqueue(None)
    await (await claim(queue)).retry("again", 5)
    before = await queue.enqueue(None)
    await case.advance(10)
    after = await queue.enqueue(None)
    order = [(await claim(queue)).job.id for _ in range(3)]
    expect_equal(order, [before, retried, after], "the claimed ids")


@prop("queues.claim.batch_order", decided="Queues/Claim")
async def batch_order(case: Case) -> None:
    """A batch is returned in claim order, and takes the best, not the first it meets."""
    store = await case.store()
    queue = store.queue("work")
    low = await queue.enqueue(None, EnqueueOpts(priority=-1))
    plain = await queue.enqueue_many([1, 2])
    late = await queue.enqueue(None, EnqueueOpts(priority=5))
    early = await queue.enqueue(None, EnqueueOpts(priority=5, run_at=1_600_000_000))
    due = await queue.enqueue(None, EnqueueOpts(priority=9, delay=1))
    await case.advance(1)
    first = [handle.job.id for handle in await queue.claim_batch("worker", 4)]
    expect_equal(first, [due, early, late, plain[0]], "the first batch")
    second = [handle.job.id for handle in await queue.claim_batch("worker", 4)]
    expect_equal(second, [plain[1], low], "the second batch")


@prop("queues.claim.batch_size", decided="Queues/Claim", cases=((3, 3), (7, 5)))
async def batch_size(case: Case, given: tuple[int, int]) -> None:
    """A batch holds as many jobs as asked for, or as many as there are."""
    asked, got = given
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many(range(5))
    expect_equal(len(await queue.claim_batch("worker", asked)), got, "the jobs of the batch")
    expect_equal((await queue.stats()).ready, 5 - got, "the jobs that stay ready")


@prop("queues.claim.limit", decided="Queues/Batches", group="process", seconds=120.0)
async def limit(case: Case) -> None:
    """One `claim_batch` takes at most 100,000 jobs, however many are asked for.

    Its group is the one of long properties, for a hundred thousand jobs take their time.
    """
    store = await case.store()
    queue = store.queue("work")
    for _ in range(10):
        await queue.enqueue_many([None] * 10_000)
    last = await queue.enqueue(None)
    expect_equal(len(await queue.claim_batch("worker", 2**63 - 1)), 100_000, "the first batch")
    rest = [handle.job.id for handle in await queue.claim_batch("worker", 2**63 - 1)]
    expect_equal(rest, [last], "the second batch")


@prop("queues.claim.nothing", decided="Queues/Claim")
async def nothing(case: Case) -> None:
    """No work is a value: `None` from `claim_one`, `[]` from `claim_batch`."""
    store = await case.store()
    queue = store.queue("work")
    expect_equal(await queue.claim_one("worker"), None, "claim_one of an unknown queue")
    expect_equal(await queue.claim_batch("worker", 5), [], "claim_batch of an unknown queue")
    await queue.enqueue(None)
    await claim(queue)
    expect_equal(await queue.claim_one("worker"), None, "claim_one when all are claimed")


@prop("queues.claim.due", decided="Queues/Claim")
async def due(case: Case) -> None:
    """A delayed job is claimable from its ready time on, and not a second sooner."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(delay=10))
    await case.advance(9)
    expect_equal(await queue.claim_one("worker"), None, "a claim one second early")
    await case.advance(1)
    expect_equal((await claim(queue)).job.id, job_id, "the id claimed in time")


@prop("queues.claim.stamps", decided="Queues/Claim")
async def stamps(case: Case) -> None:
    """A claim counts an attempt and says who claimed, when, and until when; all else stays."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(visibility_timeout_s=45))
    await queue.enqueue({"k": [1]}, EnqueueOpts(priority=3, expires=900, headers={"h": "v"}))
    before = (await queue.jobs())[0]
    await case.advance(7)
    handle = await claim(queue, "worker-1")
    expected = {
        **fields_of(before),
        "state": JobState.PROCESSING,
        "attempts": 1,
        "worker_id": "worker-1",
        "claimed_at": 1_700_000_007,
        "claim_expires_at": 1_700_000_052,
    }
    expect_job(handle.job, expected, "the handle's job")
    expect_job(await queue.get_job(before.id), expected, "get_job")


@prop("queues.claim.batch_stamps", decided="Queues/Claim")
async def batch_stamps(case: Case) -> None:
    """Each job of a batch is stamped as a single claim would, by its own options."""
    store = await case.store()
    queue = store.queue("work")
    await store.queue("work", QueueOpts(visibility_timeout_s=10)).enqueue(None)
    await store.queue("work", QueueOpts(visibility_timeout_s=20)).enqueue(None)
    handles = await queue.claim_batch("worker-2", 2)
    ends = [handle.job.claim_expires_at for handle in handles]
    expect_equal(ends, [1_700_000_010, 1_700_000_020], "claim_expires_at")
    for handle in handles:
        expected = {
            "state": JobState.PROCESSING,
            "attempts": 1,
            "worker_id": "worker-2",
            "claimed_at": 1_700_000_000,
        }
        expect_job(handle.job, expected, "the handle's job")
        stored = await job_of(queue, handle.job.id)
        expect_job(stored, fields_of(handle.job), "get_job")


@prop("queues.claim.exclusive", decided="Queues/Claim")
async def exclusive(case: Case) -> None:
    """Each job goes to exactly one caller, however many tasks and clients claim at once."""
    stores = [await case.store() for _ in range(3)]
    ids = await stores[0].queue("work").enqueue_many(range(30))
    claims = [
        stores[number % 3].queue("work").claim_one(f"worker {number}") for number in range(40)
    ]
    handles = [handle for handle in await asyncio.gather(*claims) if handle is not None]
    expect_equal(sorted(handle.job.id for handle in handles), ids, "the ids, each handed out once")


@prop("queues.claim.exclusive_batch", decided="Queues/Claim")
async def exclusive_batch(case: Case) -> None:
    """Batches that are claimed at once share no job and leave none out."""
    stores = [await case.store() for _ in range(2)]
    ids = await stores[0].queue("work").enqueue_many(range(60))
    claims = [
        stores[number % 2].queue("work").claim_batch(f"worker {number}", 7) for number in range(12)
    ]
    batches = await asyncio.gather(*claims)
    handed = sorted(handle.job.id for batch in batches for handle in batch)
    expect_equal(handed, ids, "the ids, each handed out once")


@prop("queues.claim.live", decided="Queues/Claim")
async def live(case: Case) -> None:
    """A job under a live claim is handed to nobody, not even to the same worker again."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    handle = await claim(queue)
    await case.advance(300)
    expect_equal(await queue.claim_one("worker"), None, "a claim by the same worker")
    expect_equal(await queue.claim_one("other"), None, "a claim by another worker")
    expect_equal(await handle.ack(), True, "ack in the claim's last second")


@prop("queues.claim.lapsed", decided="Queues/Claim")
async def lapsed(case: Case) -> None:
    """A job whose claim lapsed is handed out again, to whoever claims, as another attempt."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    await claim(queue, "crashed")
    await case.advance(LAPSE)
    handle = await claim(queue, "other")
    expected = {
        "id": job_id,
        "state": JobState.PROCESSING,
        "attempts": 2,
        "worker_id": "other",
        "claimed_at": 1_700_000_301,
        "claim_expires_at": 1_700_000_601,
        "run_at": 1_700_000_000,
        "last_error": None,
    }
    expect_job(handle.job, expected, "the reclaimed job")
    expect_job(await queue.get_job(job_id), expected, "get_job")


@prop("queues.claim.backlog", decided="Queues/Claim")
async def backlog(case: Case) -> None:
    """Any number of jobs that may not be claimed never keeps one that may from being found."""
    store = await case.store()
    queue = store.queue("work")
    top = EnqueueOpts(priority=100, delay=3600)
    await queue.enqueue_many(range(300), top)
    await queue.enqueue_many(range(300), EnqueueOpts(priority=100, expires=0))
    await store.queue("other").enqueue_many(range(300), EnqueueOpts(priority=100))
    await queue.enqueue_many(range(50), EnqueueOpts(priority=50))
    expect_equal(len(await queue.claim_batch("busy", 50)), 50, "the jobs under live claims")
    wanted = await queue.enqueue("wanted", EnqueueOpts(priority=-1))
    expect_equal((await claim(queue)).job.id, wanted, "the claimed id")
    expect_equal(await queue.claim_one("worker"), None, "a second claim")
