"""Enqueueing jobs: what a job looks like when it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import JOB_FIELDS, claim, expect_job, fields_of, job_of
from alkstore_core import CodecError, EnqueueOpts, JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("queues.enqueue.durable", decided="Queues/Enqueue")
async def durable(case: Case) -> None:
    """When `enqueue` returns, the job is committed: every other client sees and claims it."""
    store, other = await case.store(), await case.store()
    job_id = await store.queue("work").enqueue("payload")
    job = await job_of(other.queue("work"), job_id)
    expect_equal(job.payload, b'"payload"', "the payload another client reads")
    expect_equal((await claim(other.queue("work"))).job.id, job_id, "the id another client claims")


@prop("queues.enqueue.defaults", decided="Queues/Stamps")
async def defaults(case: Case) -> None:
    """Without options a job is ready now, of priority 0, for ever, with 300 s, 3 attempts, 5 s."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue({"n": 1})
    expected = {
        "id": job_id,
        "queue": "work",
        "payload": b'{"n":1}',
        "headers": None,
        "state": JobState.PENDING,
        "priority": 0,
        "run_at": 1_700_000_000,
        "created_at": 1_700_000_000,
        "expires_at": None,
        "attempts": 0,
        "max_attempts": 3,
        "visibility_timeout_s": 300,
        "backoff_base_s": 5,
        "dead_letter_retention_s": None,
        "worker_id": None,
        "claimed_at": None,
        "claim_expires_at": None,
        "last_error": None,
        "died_at": None,
    }
    job = await job_of(queue, job_id)
    expect_job(job, expected, "the job")
    expect_equal(set(expected), set(JOB_FIELDS), "the fields that were compared")


@prop("queues.enqueue.resolved", decided="Queues/Enqueue")
async def resolved(case: Case) -> None:
    """What `get_job` shows are the resolved values of every option, not the options."""
    store = await case.store()
    opts = QueueOpts(
        visibility_timeout_s=45, max_attempts=7, backoff_base_s=11, dead_letter_retention_s=86_400
    )
    queue = store.queue("work", opts)
    enqueue = EnqueueOpts(delay=30, priority=-4, max_attempts=2, expires=90, headers={"k": "v"})
    job = await job_of(queue, await queue.enqueue(None, enqueue))
    expected = {
        "state": JobState.PENDING,
        "run_at": 1_700_000_030,
        "created_at": 1_700_000_000,
        "expires_at": 1_700_000_090,
        "priority": -4,
        "max_attempts": 2,
        "visibility_timeout_s": 45,
        "backoff_base_s": 11,
        "dead_letter_retention_s": 86_400,
        "headers": {"k": "v"},
    }
    expect_job(job, expected, "the job")


@prop("queues.enqueue.run_at", decided="Queues/Enqueue", cases=(1_700_000_500, 1_600_000_000, 0))
async def run_at(case: Case, when: int) -> None:
    """`run_at` is the absolute ready time, kept as given, past or future."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(run_at=when))
    expect_equal((await job_of(queue, job_id)).run_at, when, "run_at")


@prop("queues.enqueue.delay_wins", decided="Queues/Enqueue", cases=(40, 0, -40))
async def delay_wins(case: Case, delay: int) -> None:
    """`delay` wins over `run_at`, also a delay of 0 or less."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(delay=delay, run_at=1_800_000_000))
    ready = {40: 1_700_000_040, 0: 1_700_000_000, -40: 1_699_999_960}[delay]
    expect_equal((await job_of(queue, job_id)).run_at, ready, "run_at")


@prop("queues.enqueue.attempts_clamped", decided="Queues/Enqueue", cases=(0, -1, -(2**63)))
async def attempts_clamped(case: Case, attempts: int) -> None:
    """A `max_attempts` below 1 counts as 1, whether it is the queue's or the job's own."""
    store = await case.store()
    by_queue = store.queue("work", QueueOpts(max_attempts=attempts))
    job_id = await by_queue.enqueue(None)
    expect_equal((await job_of(by_queue, job_id)).max_attempts, 1, "by QueueOpts")
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(max_attempts=attempts))
    expect_equal((await job_of(queue, job_id)).max_attempts, 1, "by EnqueueOpts")


@prop("queues.enqueue.refused", decided="Payloads")
async def refused(case: Case) -> None:
    """A payload that is not JSON leaves no job behind, alone or among others."""
    store = await case.store()
    queue = store.queue("work")
    with expect_raises(CodecError, "enqueue"):
        await queue.enqueue({1, 2})
    with expect_raises(CodecError, "enqueue_many"):
        await queue.enqueue_many([1, 2, float("nan"), 4])
    expect_equal(await queue.jobs(), [], "the jobs")


@prop("queues.stamps.by_handle", decided="Queues/Stamps")
async def by_handle(case: Case) -> None:
    """Each job gets the options of the handle that enqueued it: a queue owns none."""
    store = await case.store()
    slow = store.queue("work", QueueOpts(visibility_timeout_s=1000, max_attempts=9))
    fast = store.queue("work", QueueOpts(visibility_timeout_s=10, backoff_base_s=1))
    plain = store.queue("work")
    ids = [await slow.enqueue(None), await fast.enqueue(None), await plain.enqueue(None)]
    seen = [await job_of(plain, job_id) for job_id in ids]
    stamps = [(job.visibility_timeout_s, job.max_attempts, job.backoff_base_s) for job in seen]
    expect_equal(stamps, [(1000, 9, 5), (10, 3, 1), (300, 3, 5)], "timeout, attempts, backoff")


@prop("queues.stamps.kept", decided="Queues/Stamps")
async def stamps_kept(case: Case) -> None:
    """The job's own stamps count, whatever the options of the handle that claims it."""
    store = await case.store()
    await store.queue("work", QueueOpts(visibility_timeout_s=20, max_attempts=1)).enqueue(None)
    claimer = store.queue("work", QueueOpts(visibility_timeout_s=999, max_attempts=9))
    handle = await claim(claimer)
    expect_equal(handle.job.claim_expires_at, 1_700_000_020, "claim_expires_at")
    expect_equal(await handle.retry("no"), True, "retry")
    expect_equal((await job_of(claimer, handle.job.id)).state, JobState.DEAD, "state at attempt 1")


@prop("queues.stamps.tx", decided="Queues/Stamps")
async def stamps_tx(case: Case) -> None:
    """`enqueue_tx` stamps the plain defaults, 300 s, 3, 5 s and none, and takes its options."""
    store = await case.store()
    store.queue("work", QueueOpts(visibility_timeout_s=1, max_attempts=1, backoff_base_s=1))
    opts = EnqueueOpts(delay=5, priority=2, max_attempts=8, expires=60, headers={"a": "b"})
    async with store.transaction() as tx:
        ids = [
            await tx.enqueue_tx("work", None),
            *await tx.enqueue_many_tx("work", [1, 2]),
            await tx.enqueue_tx("work", None, opts),
        ]
    queue = store.queue("work")
    seen = [await job_of(queue, job_id) for job_id in ids]
    for job in seen:
        expect_equal(job.visibility_timeout_s, 300, "visibility_timeout_s")
        expect_equal(job.backoff_base_s, 5, "backoff_base_s")
        expect_equal(job.dead_letter_retention_s, None, "dead_letter_retention_s")
    expect_equal([job.max_attempts for job in seen], [3, 3, 3, 8], "max_attempts")
    expect_equal([job.priority for job in seen], [0, 0, 0, 2], "priority")
    expect_equal(seen[3].run_at, 1_700_000_005, "run_at")
    expect_equal(seen[3].expires_at, 1_700_000_060, "expires_at")
    expect_equal(seen[3].headers, {"a": "b"}, "headers")


@prop("queues.enqueue_many.order", decided="Store/Shape")
async def many_order(case: Case) -> None:
    """`enqueue_many` gives the ids in the order of its payloads, which is claim order."""
    store = await case.store()
    queue = store.queue("work")
    payloads = [{"n": number} for number in range(50)]
    ids = await queue.enqueue_many(payloads)
    expect_equal(ids, sorted(set(ids)), "the ids, ascending and different")
    stored = {job.id: job.payload_as(dict) for job in await queue.jobs()}
    expect_equal([stored[job_id] for job_id in ids], payloads, "the payloads by id")
    claimed = [handle.job.id for handle in await queue.claim_batch("worker", 50)]
    expect_equal(claimed, ids, "the claim order")


@prop("queues.enqueue_many.alike", decided="Store/Shape")
async def many_alike(case: Case) -> None:
    """Jobs of one `enqueue_many` differ from those of `enqueue` in id and payload only."""
    store = await case.store()
    opts = QueueOpts(visibility_timeout_s=45, backoff_base_s=11, dead_letter_retention_s=9)
    queue = store.queue("work", opts)
    for enqueue in (
        None,
        EnqueueOpts(delay=30, priority=4, max_attempts=2, expires=90, headers={"k": "ü\0"}),
        EnqueueOpts(run_at=1_600_000_000),
        EnqueueOpts(run_at=1_800_000_000),
    ):
        single = await job_of(queue, await queue.enqueue("same", enqueue))
        for job_id in await queue.enqueue_many(["same", "same"], enqueue):
            expected = {**fields_of(single), "id": job_id}
            expect_job(await queue.get_job(job_id), expected, f"of several with {enqueue}")


@prop("queues.enqueue_many.empty", decided="Store/Shape")
async def many_empty(case: Case) -> None:
    """`enqueue_many` of nothing gives no ids and stores nothing."""
    store = await case.store()
    expect_equal(await store.queue("work").enqueue_many([]), [], "the ids")
    async with store.transaction() as tx:
        expect_equal(await tx.enqueue_many_tx("work", []), [], "the ids in a transaction")
    expect_equal(await store.queues(), [], "the queues")


@prop("queues.enqueue_many.large", decided="Store/Shape")
async def many_large(case: Case) -> None:
    """Thousands of jobs go in by one call, each once and in order."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many(range(3000))
    expect_equal(len(set(ids)), 3000, "the number of ids")
    expect_equal((await queue.stats()).ready, 3000, "the ready jobs")
    last = await job_of(queue, ids[-1])
    expect_equal(last.payload, b"2999", "the last payload")


@prop("queues.enqueue_tx.commit", decided="Transactions/One transaction")
async def tx_commit(case: Case) -> None:
    """Jobs of a transaction are there at its commit, not before, and under the ids it gave."""
    store, other = await case.store(), await case.store()
    queue = other.queue("work")
    async with store.begin_tx() as tx:
        ids = [await tx.enqueue_tx("work", 1), *await tx.enqueue_many_tx("work", [2, 3])]
        for job_id in ids:
            expect(await tx.get_job_tx("work", job_id), "the transaction sees its own job")
        expect_equal(await queue.jobs(), [], "the jobs another client sees before the commit")
        await tx.commit()
    expect_equal([job.id for job in await queue.jobs()], ids, "the ids after the commit")


@prop("queues.enqueue_tx.rollback", decided="Transactions/One transaction")
async def tx_rollback(case: Case) -> None:
    """Jobs of a transaction that rolled back never were."""
    store = await case.store()
    async with store.begin_tx() as tx:
        job_id = await tx.enqueue_tx("work", 1)
        await tx.enqueue_many_tx("work", [2, 3])
        await tx.rollback()
    queue = store.queue("work")
    expect_equal(await queue.get_job(job_id), None, "get_job after the rollback")
    expect_equal(await queue.claim_batch("worker", 10), [], "a claim after the rollback")
    expect_equal(await store.queues(), [], "the queues after the rollback")
