"""Claims: who gets what in which order, and what a claim that has lapsed is worth."""

import pytest

from alkstore_core import EnqueueOpts, QueueOpts

FIRST = -(2**63)
LAST = 2**63 - 1
NOW = 1_000_000


async def test_batches_come_in_claim_order(store):
    """A batch is returned by priority, then ready time, then id, extremes included."""
    queue = store.queue("x")
    for name, opts in {
        "d": EnqueueOpts(run_at=5),
        "f": EnqueueOpts(priority=-1),
        "g": EnqueueOpts(priority=FIRST),
        "b": EnqueueOpts(priority=1, run_at=9),
        "c": EnqueueOpts(priority=1, run_at=9),
        "a": EnqueueOpts(priority=LAST),
        "e": EnqueueOpts(),
    }.items():
        await queue.enqueue(name, opts)

    batch = await queue.claim_batch("me", 5)
    rest = await queue.claim_batch("me", 5)
    assert ["a", "b", "c", "d", "e"] == [handle.job.payload_as(str) for handle in batch]
    assert ["f", "g"] == [handle.job.payload_as(str) for handle in rest]


async def test_a_lapsed_claim_is_not_acked_by_a_batch(store, clock):
    """In a batch each id is judged by itself: lapsed claims are not counted and stay."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    await queue.enqueue_many([1, 2, 3])
    handles = await queue.claim_batch("me", 3)
    await handles[1].heartbeat(120)
    await clock.advance(61)

    assert 1 == await queue.ack_batch(handles, "me")
    assert [b"1", b"3"] == [job.payload for job in await queue.jobs()]


async def test_exhausted_claims_are_buried_at_the_claim(store, clock):
    """A lapsed job without attempts left is dead at the next claim and never handed out."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60, max_attempts=2))
    job_id = await queue.enqueue("tea")
    for _ in range(2):
        assert job_id == (await queue.claim_one("me")).job.id
        await clock.advance(61)
    assert 1 == (await queue.stats()).lapsed

    assert await queue.claim_one("me") is None
    job = await queue.get_job(job_id)
    assert ("dead", 2, "max attempts exceeded") == (job.state, job.attempts, job.last_error)
    assert NOW + 122 == job.died_at
    assert 1 == (await queue.stats()).dead


async def test_a_lapsed_claim_past_its_expiry_is_only_swept(store, clock):
    """An expired job is never handed out again; the sweep, and only it, moves it."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    job_id = await queue.enqueue("tea", EnqueueOpts(expires=30))
    await queue.claim_one("me")
    await clock.advance(61)

    assert await queue.claim_one("me") is None
    assert (await queue.get_job(job_id)).state in {"processing", "pending"}
    assert 1 == (await queue.stats()).expired
    assert 1 == await queue.sweep_expired()
    job = await queue.get_job(job_id)
    assert ("dead", "expired", NOW + 30) == (job.state, job.last_error, job.expires_at)


async def test_a_live_claim_outlives_its_jobs_expiry(store, clock):
    """A claim that is live may still be acked after the job's expiry, unless it was swept."""
    queue = store.queue("x")
    for _ in range(2):
        await queue.enqueue("tea", EnqueueOpts(expires=30))
    first, second = await queue.claim_batch("me", 2)
    await clock.advance(30)

    assert await first.ack()
    assert 1 == await queue.sweep_expired()
    assert not await second.ack()


async def test_a_claim_lasts_the_seconds_it_was_given(store, clock):
    """A claim is live at its deadline and lapsed one second later."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    await queue.enqueue("tea")
    handle = await queue.claim_one("me")
    await clock.advance(60)
    assert await queue.claim_one("other") is None
    assert await handle.heartbeat(60)
    await clock.advance(61)

    assert not await handle.heartbeat(60)
    assert not await handle.ack()
    assert 2 == (await queue.claim_one("other")).job.attempts


@pytest.mark.parametrize("call", ["ack", "retry", "fail", "heartbeat", "release", "ack_batch"])
async def test_a_stale_handle_of_the_same_worker_does_nothing(store, clock, call):
    """A handle is of one claim: after the same worker claimed the job anew the old one fails."""
    queue = store.queue("x", QueueOpts(visibility_timeout_s=60))
    job_id = await queue.enqueue("tea")
    stale = await queue.claim_one("me")
    await clock.advance(61)
    fresh = await queue.claim_one("me")
    before = await queue.get_job(job_id)

    match call:
        case "heartbeat":
            assert await stale.heartbeat(600) is False
        case "ack_batch":
            assert 0 == await queue.ack_batch([stale], "me")
        case _:
            assert await getattr(stale, call)() is False

    assert before == await queue.get_job(job_id)
    assert await fresh.ack()


async def test_a_stale_lock_does_nothing(store, clock):
    """A lapsed lease of the same owner cannot renew or release the newer one."""
    stale = await store.try_lock("x", "me", 60)
    await clock.advance(61)
    fresh = await store.try_lock("x", "me", 60)

    assert fresh.token > stale.token
    assert await stale.renew(60) is False
    assert await stale.release() is False
    assert await store.try_lock("x", "other", 60) is None
    assert await fresh.release()
