"""Time: which clock, in which unit, read when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, expect_job, job_of, lock
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("time.injected", decided="Time")
async def injected(case: Case) -> None:
    """An injected clock stamps everything, and time moves by it alone."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await case.advance(12_345)
    first = await queue.enqueue(None)
    await stream.publish(None)
    await lock(store, "lock", "owner", 10)
    plan = await store.schedule("tick", "@every 10s", "work", None)
    expect_job(
        await queue.get_job(first),
        {"created_at": 1_700_012_345, "run_at": 1_700_012_345},
        "the job",
    )
    expect_equal((await stream.read_since(0, 1))[0].created_at, 1_700_012_345, "the event's time")
    expect_equal((await store.locks())[0].expires_at, 1_700_012_355, "the lock's deadline")
    expect_equal(plan.next_fire_at, 1_700_012_355, "the schedule's boundary")


@prop("time.real", decided="Time")
async def real(case: Case) -> None:
    """Without a clock a store stamps real unix time, in whole seconds."""
    store = await case.store(wall_clock=True)
    queue = store.queue("work")
    before = time.time()
    job = await job_of(queue, await queue.enqueue(None, EnqueueOpts(delay=0)))
    expect_equal(type(job.created_at), int, "the type of created_at")
    # Another host's clock may stamp; a wrong unit or epoch is far off.
    expect(
        before - 3600 < job.created_at < before + 3600,
        f"created_at is {job.created_at}, the time {before:.0f}",
    )
    handle = await claim(queue)
    expect_equal(handle.job.claim_expires_at, (handle.job.claimed_at or 0) + 300, "the deadline")


@prop("time.now", decided="Time")
async def now(case: Case) -> None:
    """`now()` is the time that stamps jobs: an injected clock's, or else the engine's."""
    store = await case.store()
    expect_equal(await store.now(), 1_700_000_000, "now()")
    await case.advance(12_345)
    job = await job_of(store.queue("work"), await store.queue("work").enqueue(None))
    expect_equal(await store.now(), job.created_at, "now() when the clock has moved")
    engines = await case.store(wall_clock=True)
    queue = engines.queue("real")
    before = await engines.now()
    job = await job_of(queue, await queue.enqueue(None))
    after = await engines.now()
    expect_equal(type(before), int, "the type of now()")
    expect(
        before <= job.created_at <= after,
        f"now() is {before} before a job is stamped with {job.created_at}, and {after} after it",
    )


@prop("time.per_call", decided="Time")
async def per_call(case: Case) -> None:
    """In a transaction each call reads the time anew: not the one at which it began."""
    store = await case.store()
    async with store.begin_tx() as tx:
        await case.advance(10)
        first = await tx.enqueue_tx("work", None, EnqueueOpts(delay=5, expires=100))
        await tx.publish_tx("log", None)
        await case.advance(10)
        second = await tx.enqueue_tx("work", None)
        await case.advance(10)
        await tx.commit()
    queue = store.queue("work")
    expected = {
        "created_at": 1_700_000_010,
        "run_at": 1_700_000_015,
        "expires_at": 1_700_000_110,
    }
    expect_job(await queue.get_job(first), expected, "the job after ten seconds")
    expected = {"created_at": 1_700_000_020, "run_at": 1_700_000_020}
    expect_job(await queue.get_job(second), expected, "the job after twenty")
    event = (await store.stream("log").read_since(0, 1))[0]
    expect_equal(event.created_at, 1_700_000_010, "the event after ten seconds")


@prop("time.tx_judges", decided="Time")
async def tx_judges(case: Case) -> None:
    """A deadline is judged when the call runs, also while a transaction is open."""
    store, other = await case.store(), await case.store()
    await other.queue("work").enqueue(None)
    handle = await claim(other.queue("work"))
    async with store.transaction() as tx:
        await tx.get_job_tx("work", handle.job.id)
        await case.advance(301)
    expect_equal(await handle.ack(), False, "ack after the transaction, after the lapse")


@prop("time.clients", decided="Time")
async def clients(case: Case) -> None:
    """All clients judge by one time: what lapsed for one has lapsed for all."""
    stores = [await case.store() for _ in range(2)]
    queue, other = (store.queue("work") for store in stores)
    await queue.enqueue(None, EnqueueOpts(delay=60))
    expect_equal(await other.claim_one("worker"), None, "another client's claim before it is due")
    await case.advance(60)
    handle = await claim(other)
    await case.advance(300)
    expect_equal(await queue.claim_one("worker"), None, "a claim in the last second")
    await case.advance(1)
    expect_equal((await claim(queue)).job.id, handle.job.id, "the id claimed after the lapse")
    expect_equal(await handle.ack(), False, "the other client's ack after the lapse")


@prop("time.at_least", decided="Time")
async def at_least(case: Case) -> None:
    """A claim and a lock of one second live through the whole next second."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    handle, held = await claim(queue), await lock(store, "lock", "owner", 1)
    await handle.heartbeat(1)
    await case.advance(1)
    expect_equal(await queue.claim_one("other"), None, "a claim after one second")
    expect_equal(await store.try_lock("lock", "other", 1), None, "try_lock after one second")
    await case.advance(1)
    expect_equal(await held.release(), False, "release after two seconds")
    expect_equal(await handle.ack(), False, "ack after two seconds")


@prop("time.expiry", decided="Time")
async def expiry(case: Case) -> None:
    """A job can be claimed until the second before its expiry, and no later."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2], EnqueueOpts(expires=10))
    await case.advance(9)
    await claim(queue)
    await case.advance(1)
    expect_equal(await queue.claim_one("worker"), None, "a claim at the expiry")


@prop("time.far", decided="Time")
async def far(case: Case) -> None:
    """Deadlines hold over decades and to the second."""
    store = await case.store()
    queue = store.queue("work")
    decades = 2_000_000_000
    job_id = await queue.enqueue(None, EnqueueOpts(delay=decades))
    held = await lock(store, "lock", "owner", decades)
    await case.advance(decades - 1)
    expect_equal(await queue.claim_one("worker"), None, "a claim one second early")
    await case.advance(1)
    expect_equal((await claim(queue)).job.id, job_id, "the claimed id")
    expect_equal(await held.renew(1), True, "renew in the last second")
