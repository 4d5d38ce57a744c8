"""What a handle's calls do while its claim is live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of, job_of
from alkstore_core import DatabaseError, EnqueueOpts, JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("queues.ack.deletes", decided="Queues/Handle")
async def ack_deletes(case: Case) -> None:
    """`ack` deletes the job, for every client and for good."""
    store, other = await case.store(), await case.store()
    job_id = await store.queue("work").enqueue(None)
    expect_equal(await (await claim(store.queue("work"))).ack(), True, "ack")
    queue = other.queue("work")
    expect_equal(await queue.get_job(job_id), None, "get_job by another client")
    await case.advance(LAPSE)
    expect_equal(await queue.claim_one("other"), None, "a claim after the lapse")
    expect_equal(await queue.dead_jobs(), [], "the dead jobs")


@prop("queues.ack.own", decided="Queues/Handle")
async def ack_own(case: Case) -> None:
    """`ack` settles its own job and no other of the same worker."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many([1, 2, 3])
    handles = await queue.claim_batch("worker", 3)
    expect_equal(await handles[1].ack(), True, "ack")
    expect_equal([job.id for job in await queue.jobs()], [ids[0], ids[2]], "the jobs left")


@prop("queues.ack.race", decided="Queues/Handle")
async def ack_race(case: Case) -> None:
    """Of an ack and a claim at the same time just one gets the job, before and after the lapse."""
    stores = [await case.store(), await case.store()]
    queue, other = stores[0].queue("work"), stores[1].queue("work")
    await queue.enqueue(None)
    handle = await claim(queue)
    await case.advance(300)
    acked, claimed = await asyncio.gather(handle.ack(), other.claim_one("other"))
    expect_equal(acked, True, "the ack in the last second")
    expect_equal(claimed, None, "the claim in the last second")
    await queue.enqueue(None)
    handle = await claim(queue)
    await case.advance(301)
    acked, claimed = await asyncio.gather(handle.ack(), other.claim_one("other"))
    expect_equal(acked, False, "the ack after the lapse")
    expect_equal(claimed and claimed.job.attempts, 2, "the claim's attempt after the lapse")


@prop("queues.heartbeat.extends", decided="Queues/Handle")
async def heartbeat_extends(case: Case) -> None:
    """`heartbeat(extend)` lets the claim live through `extend` seconds from now."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    await case.advance(200)
    expect_equal(await handle.heartbeat(1000), True, "heartbeat")
    expect_equal((await job_of(queue, job_id)).claim_expires_at, 1_700_001_200, "claim_expires_at")
    await case.advance(1000)
    expect_equal(await queue.claim_one("other"), None, "a claim in the last second")
    await case.advance(1)
    expect_equal((await claim(queue, "other")).job.id, job_id, "the id claimed after the lapse")


@prop("queues.heartbeat.resets", decided="Queues/Handle")
async def heartbeat_resets(case: Case) -> None:
    """A heartbeat sets the deadline anew: what was left is not added, and less is legal."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    expect_equal(await handle.heartbeat(10), True, "heartbeat")
    expect_equal((await job_of(queue, job_id)).claim_expires_at, 1_700_000_010, "claim_expires_at")
    await case.advance(11)
    expect_equal(await handle.ack(), False, "ack after the shorter deadline")


@prop("queues.heartbeat.repeats", decided="Queues/Handle")
async def heartbeat_repeats(case: Case) -> None:
    """A heartbeat can be given again and again, and keeps a claim for ever."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    handle = await claim(queue)
    for _ in range(10):
        await case.advance(300)
        expect_equal(await handle.heartbeat(300), True, "heartbeat in the last second")
        expect_equal(await queue.claim_one("other"), None, "a claim by another worker")
    expect_equal(await handle.ack(), True, "ack after fifty minutes")


@prop("queues.heartbeat.only_deadline", decided="Queues/Handle")
async def heartbeat_only(case: Case) -> None:
    """A heartbeat changes the deadline and nothing else; it uses no attempt."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(expires=900))
    handle = await claim(queue)
    await case.advance(5)
    await handle.heartbeat(60)
    expected = {**fields_of(handle.job), "claim_expires_at": 1_700_000_065}
    expect_job(await queue.get_job(job_id), expected, "after the heartbeat")


@prop("queues.retry.pending", decided="Queues/Handle")
async def retry_pending(case: Case) -> None:
    """`retry` with attempts left makes the job pending, due after the delay, with the error."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue({"k": 1}, EnqueueOpts(priority=2, expires=900, headers={"h": "v"}))
    handle = await claim(queue)
    await case.advance(4)
    expect_equal(await handle.retry("not yet", 60), True, "retry")
    expected = {
        **fields_of(handle.job),
        "state": JobState.PENDING,
        "run_at": 1_700_000_064,
        "last_error": "not yet",
    }
    for claim_field in ("worker_id", "claimed_at", "claim_expires_at"):
        del expected[claim_field]
    expect_job(await queue.get_job(job_id), expected, "the retried job")


@prop("queues.retry.delay", decided="Queues/Handle", cases=(1, 60, 86_400))
async def retry_delay(case: Case, delay: int) -> None:
    """A retried job is claimable after its delay, not a second sooner, as the next attempt."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    await (await claim(queue)).retry(None, delay)
    await case.advance(delay - 1)
    expect_equal(await queue.claim_one("other"), None, "a claim one second early")
    await case.advance(1)
    expect_job((await claim(queue, "other")).job, {"id": job_id, "attempts": 2}, "the next claim")


@prop("queues.retry.at_once", decided="Queues/Handle", cases=(0, -1, -(2**63)))
async def retry_at_once(case: Case, delay: int) -> None:
    """A retry with a delay of 0 or less is claimable at once."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    await (await claim(queue)).retry(None, delay)
    job = (await claim(queue)).job
    expect_equal((job.attempts, job.run_at), (2, 1_700_000_000), "attempts and run_at")


@prop("queues.retry.error", decided="Queues/Handle")
async def retry_error(case: Case) -> None:
    """`last_error` is the error of the latest retry, `None` when that gave none."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(max_attempts=9))
    job_id = await queue.enqueue(None)
    for error in ("first", "second", "", None):
        await (await claim(queue)).retry(error, 0)
        expect_equal((await job_of(queue, job_id)).last_error, error, "last_error")


@prop("queues.retry.exhausted", decided="Queues/Handle")
async def retry_exhausted(case: Case) -> None:
    """`retry` without attempts left makes the job dead at once, with its error."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(max_attempts=2))
    await (await claim(queue)).retry("first", 0)
    await case.advance(3)
    expect_equal(await (await claim(queue)).retry("second", 60), True, "the last retry")
    expected = {
        "state": JobState.DEAD,
        "attempts": 2,
        "last_error": "second",
        "died_at": 1_700_000_003,
    }
    expect_job(await queue.get_job(job_id), expected, "the exhausted job")


@prop("queues.retry.exhausted_text", decided="Queues/Handle")
async def retry_exhausted_text(case: Case) -> None:
    """A last retry without an error says `"max attempts exceeded"`; an empty one stays empty."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(max_attempts=1))
    for error, text in ((None, "max attempts exceeded"), ("", "")):
        job_id = await queue.enqueue(None)
        await (await claim(queue)).retry(error)
        expect_equal((await job_of(queue, job_id)).last_error, text, "last_error")


@prop("queues.retry.expiry", decided="Queues/Handle")
async def retry_expiry(case: Case) -> None:
    """A retry keeps the expiry: a job that is due again only after it is never handed out."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(expires=100))
    await (await claim(queue)).retry(None, 200)
    expect_equal((await job_of(queue, job_id)).expires_at, 1_700_000_100, "expires_at")
    await case.advance(200)
    expect_equal(await queue.claim_one("worker"), None, "a claim when it is due")
    expect_equal(await queue.sweep_expired(), 1, "the sweep")


@prop("queues.fail.dead", decided="Queues/Handle")
async def fail_dead(case: Case) -> None:
    """`fail` makes the job dead at once, with its error, whatever attempts are left."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    await case.advance(4)
    expect_equal(await handle.fail("beyond repair"), True, "fail")
    expected = {
        "state": JobState.DEAD,
        "attempts": 1,
        "last_error": "beyond repair",
        "died_at": 1_700_000_004,
    }
    expect_job(await queue.get_job(job_id), expected, "the failed job")
    await case.advance(10_000)
    expect_equal(await queue.claim_one("worker"), None, "a claim long after")


@prop("queues.fail.text", decided="Queues/Handle")
async def fail_text(case: Case) -> None:
    """`fail` without an error says `"failed"`; an empty one stays empty."""
    store = await case.store()
    queue = store.queue("work")
    for error, text in ((None, "failed"), ("", "")):
        job_id = await queue.enqueue(None)
        await (await claim(queue)).fail(error)
        expect_equal((await job_of(queue, job_id)).last_error, text, "last_error")


@prop("queues.release.restores", decided="Queues/Handle")
async def release_restores(case: Case) -> None:
    """`release` gives a job back as if it had not been claimed, attempt and place included."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(priority=2, expires=900))
    await (await claim(queue)).retry("earlier", 0)
    await queue.enqueue(None, EnqueueOpts(priority=2))
    await case.advance(3)
    before = fields_of(await queue.get_job(job_id))
    expect_equal(await (await claim(queue)).release(), True, "release")
    expect_job(await queue.get_job(job_id), before, "the released job")
    expect_job((await claim(queue)).job, {"id": job_id, "attempts": 2}, "the next claim")


@prop("queues.release.unlimited", decided="Queues/Handle")
async def release_unlimited(case: Case) -> None:
    """A job can be released any number of times: releasing uses no attempts up."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(max_attempts=1))
    for _ in range(5):
        expect_equal(await (await claim(queue)).release(), True, "release")
    expect_equal(await (await claim(queue)).ack(), True, "ack of the sixth claim")


@prop("queues.handle.raised", decided="Queues/Handle")
async def raised(case: Case) -> None:
    """A call that raised leaves the claim as it was, and the handle usable."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    with expect_raises(DatabaseError, "retry after 2**63 seconds"):
        await handle.retry("late", 2**63)
    with expect_raises(DatabaseError, "heartbeat(0)"):
        await handle.heartbeat(0)
    expect_job(await queue.get_job(job_id), fields_of(handle.job), "after both refusals")
    expect_equal(await handle.retry("late", 5), True, "retry")


@prop("queues.handle.snapshot", decided="Queues/Handle")
async def snapshot(case: Case) -> None:
    """`handle.job` is the job as it was claimed, whatever becomes of it."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue({"a": 1}, EnqueueOpts(headers={"h": "v"}))
    handle = await claim(queue)
    before = fields_of(handle.job)
    await case.advance(5)
    await handle.heartbeat(1000)
    await handle.fail("over")
    expect_job(handle.job, before, "the handle's job afterwards")
