"""Numbers at the ends of the range, and boundaries of any value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, job_of, lock
from alkstore_core import EnqueueOpts, QueueOpts, ScheduleOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case

_GREATEST = 9_223_372_036_854_775_807
_LEAST = -9_223_372_036_854_775_808
_CENTURY = 3_155_760_000


@prop("numbers.exact", decided="Numbers", cases=(_GREATEST, _LEAST, 2**53 + 1, -(2**53) - 1, 0))
async def exact(case: Case, number: int) -> None:
    """Every 64-bit integer is stored exactly: no float, no wrapping, no rounding."""
    store = await case.store()
    opts = QueueOpts(backoff_base_s=number, dead_letter_retention_s=number)
    queue = store.queue("work", opts)
    job_id = await queue.enqueue(None, EnqueueOpts(priority=number, run_at=number))
    job = await job_of(queue, job_id)
    expect_equal(job.priority, number, "priority")
    expect_equal(job.run_at, number, "run_at")
    expect_equal(job.backoff_base_s, number, "backoff_base_s")
    expect_equal(job.dead_letter_retention_s, number, "dead_letter_retention_s")
    plan = ScheduleOpts(priority=number, expires=number)
    await store.schedule("tick", "@every 1s", "work", None, plan)
    (told,) = await store.schedules()
    expect_equal(told.priority, number, "the schedule's priority")
    expect_equal(told.expires, number, "the schedule's expires")


@prop("numbers.greatest_stamps", decided="Numbers")
async def greatest_stamps(case: Case) -> None:
    """Attempts and visibility timeouts of 2**63-1 are stored and work."""
    store = await case.store()
    opts = QueueOpts(max_attempts=_GREATEST, visibility_timeout_s=_GREATEST)
    queue = store.queue("work", opts)
    await queue.enqueue(None)
    job = (await claim(queue)).job
    expect_equal(job.max_attempts, _GREATEST, "max_attempts")
    expect_equal(job.visibility_timeout_s, _GREATEST, "visibility_timeout_s")


@prop("numbers.unlikely_ids", decided="Numbers", cases=(_GREATEST, _LEAST, -1, 0))
async def unlikely_ids(case: Case, number: int) -> None:
    """Any 64-bit integer may be asked for as an id; one that was never given is nobody's."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    expect_equal(await queue.get_job(number), None, "get_job")
    expect_equal(await queue.cancel(number), False, "cancel")
    expect_equal(await queue.redrive(number), None, "redrive")
    expect_equal(await queue.ack_batch([number], "worker"), 0, "ack_batch")


@prop("numbers.saturate_delay", decided="Numbers")
async def saturate_delay(case: Case) -> None:
    """A delay of 2**63-1 means never: the ready time is the greatest integer."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(delay=_GREATEST))
    many = await queue.enqueue_many([1, 2], EnqueueOpts(delay=_GREATEST))
    for each in (job_id, *many):
        expect_equal((await job_of(queue, each)).run_at, _GREATEST, "run_at")
    await case.advance(_CENTURY)
    expect_equal(await queue.claim_one("worker"), None, "a claim a century later")


@prop("numbers.saturate_expires", decided="Numbers")
async def saturate_expires(case: Case) -> None:
    """An expiry in 2**63-1 seconds is the greatest integer, and the job never expires."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(expires=_GREATEST))
    expect_equal((await job_of(queue, job_id)).expires_at, _GREATEST, "expires_at")
    await case.advance(_CENTURY)
    expect_equal(await queue.sweep_expired(), 0, "a sweep a century later")
    await claim(queue)


@prop("numbers.saturate_claim", decided="Numbers")
async def saturate_claim(case: Case) -> None:
    """A claim for 2**63-1 seconds ends at the greatest integer and never lapses."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(visibility_timeout_s=_GREATEST))
    await queue.enqueue(None)
    handle = await claim(queue)
    expect_equal(handle.job.claim_expires_at, _GREATEST, "claim_expires_at")
    await case.advance(_CENTURY)
    expect_equal(await queue.claim_one("other"), None, "a claim a century later")
    expect_equal(await handle.ack(), True, "ack a century later")


@prop("numbers.saturate_heartbeat", decided="Numbers")
async def saturate_heartbeat(case: Case) -> None:
    """A heartbeat of 2**63-1 seconds lets the claim end at the greatest integer."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    expect_equal(await handle.heartbeat(_GREATEST), True, "heartbeat")
    expect_equal((await job_of(queue, job_id)).claim_expires_at, _GREATEST, "claim_expires_at")
    await case.advance(_CENTURY)
    expect_equal(await handle.ack(), True, "ack a century later")


@prop("numbers.saturate_retry", decided="Numbers")
async def saturate_retry(case: Case) -> None:
    """A retry after 2**63-1 seconds is due at the greatest integer: never."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    expect_equal(await (await claim(queue)).retry("later", _GREATEST), True, "retry")
    expect_equal((await job_of(queue, job_id)).run_at, _GREATEST, "run_at")
    await case.advance(_CENTURY)
    expect_equal(await queue.claim_one("worker"), None, "a claim a century later")


@prop("numbers.saturate_lock", decided="Numbers")
async def saturate_lock(case: Case) -> None:
    """A lock for 2**63-1 seconds ends at the greatest integer and never lapses."""
    store = await case.store()
    held = await lock(store, "lock", "owner", _GREATEST)
    expect_equal([told.expires_at for told in await store.locks()], [_GREATEST], "expires_at")
    await case.advance(_CENTURY)
    expect_equal(await store.try_lock("lock", "other", 1), None, "try_lock a century later")
    expect_equal(await held.release(), True, "release a century later")


@prop("numbers.saturate_renew", decided="Numbers")
async def saturate_renew(case: Case) -> None:
    """A renewal for 2**63-1 seconds lets the lock end at the greatest integer."""
    store = await case.store()
    held = await lock(store, "lock", "owner")
    expect_equal(await held.renew(_GREATEST), True, "renew")
    expect_equal([told.expires_at for told in await store.locks()], [_GREATEST], "expires_at")


@prop("numbers.saturate_retention", decided="Numbers")
async def saturate_retention(case: Case) -> None:
    """Dead jobs with a retention of 2**63-1 seconds are never deleted by a sweep."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(dead_letter_retention_s=_GREATEST))
    job_id = await queue.enqueue(None)
    await (await claim(queue)).fail("broken")
    await case.advance(_CENTURY)
    await queue.sweep_expired()
    expect_equal([job.id for job in await queue.dead_jobs()], [job_id], "the dead jobs")


@prop("numbers.saturate_schedule", decided="Numbers")
async def saturate_schedule(case: Case) -> None:
    """The first boundary of a schedule every 2**63-1 seconds is the greatest integer."""
    store = await case.store()
    plan = await store.schedule("tick", "@every 9223372036854775807s", "work", None)
    expect_equal(plan.next_fire_at, _GREATEST, "next_fire_at")


@prop("numbers.past_delay", decided="Numbers", cases=((-5, 1_699_999_995), (_LEAST, None)))
async def past_delay(case: Case, given: tuple[int, int | None]) -> None:
    """A negative delay is ready now."""
    delay, run_at = given
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(delay=delay))
    if run_at is not None:
        expect_equal((await job_of(queue, job_id)).run_at, run_at, "run_at")
    expect_equal((await claim(queue)).job.id, job_id, "the claimed id")


@prop("numbers.past_expiry", decided="Numbers", cases=(0, -1, _LEAST))
async def past_expiry(case: Case, expires: int) -> None:
    """A job that expires in 0 seconds or less is expired at once: never claimed, but swept."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(expires=expires))
    expect_equal(await queue.claim_one("worker"), None, "a claim")
    expect_equal((await queue.stats()).expired, 1, "the expired jobs")
    expect_equal(await queue.sweep_expired(), 1, "a sweep")


@prop("numbers.any_boundary", decided="Numbers", cases=(-1, _LEAST))
async def any_boundary(case: Case, boundary: int) -> None:
    """A negative horizon deletes nothing, a negative offset reads from the start."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue(None)
    await (await claim(queue)).fail("broken")
    offset = await stream.publish(None)
    expect_equal(await stream.trim_to(boundary), 0, "trim_to")
    expect_equal(await queue.purge_dead(boundary), 0, "purge_dead")
    await stream.save_offset("consumer", boundary)
    expect_equal(await stream.get_offset("consumer"), 0, "the offset after save_offset")
    events = await stream.read_since(boundary, 10)
    expect_equal([event.offset for event in events], [offset], "read_since")
    dead = await queue.dead_jobs(10, boundary)
    expect_equal(len(dead), 1, "dead_jobs after a negative id")


@prop("numbers.greatest_boundary", decided="Numbers")
async def greatest_boundary(case: Case) -> None:
    """A horizon of 2**63-1 covers everything, and nothing lies above it."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue(None)
    await (await claim(queue)).fail("broken")
    await stream.publish(None)
    expect_equal(await stream.read_since(_GREATEST, 10), [], "read_since")
    expect_equal(await queue.dead_jobs(10, _GREATEST), [], "dead_jobs")
    await stream.save_offset("consumer", _GREATEST)
    expect_equal(await stream.read_from_consumer("consumer", 10), [], "read_from_consumer")
    expect_equal(await stream.trim_to(_GREATEST), 1, "trim_to")
    expect_equal(await queue.purge_dead(_GREATEST), 1, "purge_dead")
