"""Claims that hand nothing out: attempts used up, jobs expired, callers gone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of, job_of
from alkstore_core import EnqueueOpts, JobState

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store

_LAST = EnqueueOpts(max_attempts=1)


@prop("queues.claim.exhausted", decided="Queues/Claim")
async def exhausted(case: Case) -> None:
    """The claim that meets a lapsed job without attempts left makes it dead and says why."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(max_attempts=2))
    for _ in range(2):
        await claim(queue)
        await case.advance(LAPSE)
    expect_equal(await queue.claim_one("worker"), None, "the third claim")
    expected = {
        "id": job_id,
        "state": JobState.DEAD,
        "attempts": 2,
        "last_error": "max attempts exceeded",
        "died_at": 1_700_000_602,
    }
    expect_job(await queue.get_job(job_id), expected, "the exhausted job")


@prop("queues.claim.exhausted_passed", decided="Queues/Claim")
async def exhausted_passed(case: Case) -> None:
    """Jobs without attempts left do not use a claim up: it hands out those behind them."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2, 3], _LAST)
    await queue.claim_batch("crashed", 3)
    await case.advance(LAPSE)
    fresh = await queue.enqueue_many([4, 5])
    batch = [handle.job.id for handle in await queue.claim_batch("worker", 2)]
    expect_equal(batch, fresh, "the batch")
    expect_equal((await queue.stats()).dead, 3, "the dead jobs")


@prop("queues.claim.last_attempt", decided="Queues/Claim")
async def last_attempt(case: Case) -> None:
    """A job in its last attempt is alive while its claim is: only a claim after that ends it."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, _LAST)
    handle = await claim(queue)
    await case.advance(300)
    expect_equal(await queue.claim_one("other"), None, "a claim in the last second")
    expect_equal((await job_of(queue, job_id)).state, JobState.PROCESSING, "state")
    expect_equal(await handle.ack(), True, "ack of the last attempt")


@prop("queues.claim.expired", decided="Queues/Sweep")
async def expired(case: Case) -> None:
    """An expired job is never handed out, whether it was ready, delayed or lapsed."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(expires=400, priority=1))
    await claim(queue, "crashed")
    await queue.enqueue(None, EnqueueOpts(expires=400))
    await queue.enqueue(None, EnqueueOpts(expires=400, delay=350))
    await case.advance(400)
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim at the expiry")
    await case.advance(10_000)
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim long after")


@prop("queues.claim.expired_stays", decided="Queues/Sweep")
async def expired_stays(case: Case) -> None:
    """Nothing but the sweep moves an expired job: claims leave it, also without attempts left."""
    store = await case.store()
    queue = store.queue("work")
    lapsed = await queue.enqueue(None, EnqueueOpts(expires=400, max_attempts=1))
    await claim(queue, "crashed")
    pending = await queue.enqueue(None, EnqueueOpts(expires=400))
    await case.advance(500)
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim")
    expect_equal(await queue.dead_jobs(), [], "the dead jobs after the claim")
    for job_id in (lapsed, pending):
        expect((await job_of(queue, job_id)).state != JobState.DEAD, "the job died by a claim")
    expect_equal(await queue.sweep_expired(), 2, "the sweep")
    texts = [job.last_error for job in await queue.dead_jobs()]
    expect_equal(texts, ["expired", "expired"], "last_error after the sweep")


@prop("queues.claim.expires_claimed", decided="Queues/Sweep")
async def expires_claimed(case: Case) -> None:
    """A claim stays valid past its job's expiry until a sweep comes."""
    store = await case.store()
    queue = store.queue("work")
    first = await queue.enqueue(None, EnqueueOpts(expires=10))
    second = await queue.enqueue(None, EnqueueOpts(expires=10))
    handles = await queue.claim_batch("worker", 2)
    await case.advance(20)
    expect_equal((await job_of(queue, first)).state, JobState.PROCESSING, "state past the expiry")
    expect_equal(await handles[1].heartbeat(600), True, "heartbeat past the expiry")
    expect_equal(await handles[0].ack(), True, "ack past the expiry")
    expect_equal(await queue.sweep_expired(), 1, "the sweep")
    expect_equal((await job_of(queue, second)).state, JobState.DEAD, "state after the sweep")
    expect_equal(await handles[1].ack(), False, "ack after the sweep")


async def _cancelled_after(store: Store, turns: int, n: int) -> bool:
    """Cancel a claim after some turns of the loop; whether it was in time."""
    claiming = asyncio.create_task(store.queue("work").claim_batch("cancelled", n))
    for _ in range(turns):
        await asyncio.sleep(0)
    claiming.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        for handle in await claiming:
            await handle.release()
        return False
    return True


async def _cancelled_everywhere(case: Case, n: int) -> None:
    """Cancel claims at every turn they take: on a client that lives on, and on one that closes."""
    watcher = await case.store()
    queue = watcher.queue("work")
    ids = await queue.enqueue_many(range(n), EnqueueOpts(priority=3))
    before = [fields_of(job) for job in await queue.jobs()]
    in_time = 0
    for turns in range(8):
        async with case.unopened() as store:
            in_time += await _cancelled_after(store, turns, n)
            # Closing waits for the jobs that are on their way back.
        for job, expected in zip(await queue.jobs(), before, strict=True):
            expect_job(job, expected, f"after a cancellation at turn {turns}")
    expect(in_time > 0, "no cancellation met a claim that was still running")
    handles = await queue.claim_batch("worker", n)
    told = [(handle.job.id, handle.job.attempts) for handle in handles]
    expect_equal(told, [(job_id, 1) for job_id in ids], "ids and attempts of the next claim")


@prop("queues.claim.cancelled", decided="Queues/Claim")
async def cancelled(case: Case) -> None:
    """A cancelled claim strands no job and uses no attempt, whenever the cancellation comes."""
    await _cancelled_everywhere(case, 1)


@prop("queues.claim.cancelled_batch", decided="Queues/Claim")
async def cancelled_batch(case: Case) -> None:
    """A cancelled batch is given back whole, with every attempt restored."""
    await _cancelled_everywhere(case, 5)


@prop("queues.claim.cancelled_at_answer", decided="Queues/Claim")
async def cancelled_at_answer(case: Case) -> None:
    """A claim whose answer came, but whose task is cancelled before it resumes, is given back."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    async with queue.wakes() as wakes:
        for _ in range(10):
            claiming = asyncio.create_task(queue.claim_one("cancelled"))
            while (await job_of(queue, job_id)).worker_id is None:  # noqa: ASYNC110 - no wake tells.
                await asyncio.sleep(0)
            if claiming.cancel():
                await asyncio.wait([claiming])
                expect(claiming.cancelled(), "the cancelled claim ended with an answer")
                while (await job_of(queue, job_id)).worker_id is not None:
                    await wakes.recv()
            else:
                handle = claiming.result()
                expect(handle and await handle.release(), "the claim that was faster is released")
            expect_equal((await job_of(queue, job_id)).attempts, 0, "attempts after the give-back")
    expect_equal((await claim(queue)).job.attempts, 1, "attempts of the next claim")
