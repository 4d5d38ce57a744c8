"""What a runner fires, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._running import Runner, fired, jobs
from alkstore_core import ScheduleOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case

START = 1_700_000_000
MAX = 2**63 - 1


@prop("scheduler.fire.boundary", decided="Scheduler/Running")
async def fire_boundary(case: Case) -> None:
    """Each boundary enqueues one job with the schedule's payload, and moves the next one on."""
    store = await case.store()
    await store.schedule("tick", "@every 10s", "work", {"n": 1})
    runner = Runner(store)
    for count in (1, 2, 3):
        await case.advance(10)
        await fired(store, count)
        (schedule,) = await store.schedules()
        boundary = START + 10 * (count + 1)
        expect_equal(schedule.next_fire_at, boundary, f"the boundary after {count}")
    await runner.stop()
    found = await store.queue("work").jobs()
    expect_equal([job.payload for job in found], [b'{"n":1}'] * 3, "the payloads")
    expect_equal([job.created_at - START for job in found], [10, 20, 30], "when they were fired")


@prop("scheduler.fire.not_before", decided="Scheduler/Running")
async def fire_not_before(case: Case) -> None:
    """Nothing fires before its boundary, also while a runner fires other schedules."""
    store = await case.store()
    await store.schedule("slow", "@every 16s", "slow", 1)
    await store.schedule("quick", "@every 5s", "quick", 1)
    runner = Runner(store)
    for count in (1, 2, 3):
        await case.advance(5)
        await fired(store, count, "quick")
        expect_equal(await jobs(store, "slow"), 0, f"jobs of the slow one after {5 * count} s")
    await case.advance(1)
    await fired(store, 1, "slow")
    await runner.stop()


@prop("scheduler.fire.stamps", decided="Queues/Stamps")
async def fire_stamps(case: Case) -> None:
    """A fired job has a plain queue's stamps, and the schedule's options resolved when it fires."""
    store = await case.store()
    opts = ScheduleOpts(priority=4, max_attempts=9, expires=30, headers={"a": "b"})
    await store.schedule("rich", "@every 10s", "rich", 1, opts)
    await store.schedule("plain", "@every 10s", "plain", 1)
    runner = Runner(store)
    await case.advance(10)
    seen = []
    for name in ("plain", "rich"):
        await fired(store, 1, name)
        (job,) = await store.queue(name).jobs()
        seen.append(
            (
                (job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s),
                (job.priority, job.max_attempts, job.expires_at, job.headers, job.run_at),
            )
        )
    await runner.stop()
    expected = [
        ((300, 5, None), (0, 3, None, None, START + 10)),
        ((300, 5, None), (4, 9, START + 40, {"a": "b"}, START + 10)),
    ]
    expect_equal(seen, expected, "stamps and options, of the plain and the rich one")


@prop("scheduler.fire.ordinary", decided="Scheduler/Running")
async def fire_ordinary(case: Case) -> None:
    """A fired job is an ordinary one: it wakes its queue, is claimed, and is gone when acked."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", "payload")
    async with other.queue("work").wakes() as wakes:
        runner = Runner(store)
        await case.advance(10)
        await wakes.recv()
        handle: Any = await other.queue("work").claim_one("worker")
        expect(handle is not None, "the job that the wake announced cannot be claimed")
        expect_equal((handle.job.payload, handle.job.attempts), (b'"payload"', 1), "the job")
        expect(await handle.ack(), "its ack was refused")
        await runner.stop()
    expect_equal(await jobs(store), 0, "jobs after the ack")


@prop("scheduler.fire.replaced", decided="Scheduler/Schedules")
async def fire_replaced(case: Case) -> None:
    """What a schedule was updated to is what its next boundary fires, under a running leader."""
    store = await case.store()
    await store.schedule("tick", "@every 10s", "work", "old")
    runner = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    await store.schedule("tick", "@every 10s", "other", "new")
    await case.advance(10)
    await fired(store, 1, "other")
    await runner.stop()
    (job,) = await store.queue("other").jobs()
    expect_equal((job.payload, await jobs(store)), (b'"new"', 1), "payload, and jobs of the old")


@prop("scheduler.fire.unscheduled", decided="Scheduler/Schedules")
async def fire_unscheduled(case: Case) -> None:
    """After `unschedule` nothing is fired any more, and what was fired before stays."""
    store = await case.store()
    await store.schedule("gone", "@every 10s", "work", 1)
    await store.schedule("tick", "@every 10s", "other", 1)
    runner = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    await store.unschedule("gone")
    for count in (2, 3):
        await case.advance(10)
        await fired(store, count, "other")
    await runner.stop()
    expect_equal(await jobs(store), 1, "jobs of the schedule that is gone")


@prop("scheduler.catch_up", decided="Scheduler/Running")
async def catch_up(case: Case) -> None:
    """Boundaries that passed without a runner each fire once, and the rhythm is kept."""
    store = await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    await case.advance(57)
    runner = Runner(store)
    await fired(store, 5)
    await runner.stop()
    (schedule,) = await store.schedules()
    expect_equal((await jobs(store), schedule.next_fire_at), (5, START + 60), "jobs and boundary")


@prop("scheduler.catch_up.cap", decided="Scheduler/Running", cases=((63, 63), (64, 64), (65, 64)))
async def catch_up_cap(case: Case, given: tuple[int, int]) -> None:
    """Of many missed boundaries the 64 earliest fire; the rest is skipped, the rhythm kept."""
    missed, expected = given
    store = await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    await case.advance(10 * missed + 9)
    runner = Runner(store)
    await fired(store, expected)
    (schedule,) = await store.schedules()
    expect_equal(schedule.next_fire_at, START + 10 * (missed + 1), "the next boundary")
    await case.advance(1)
    await fired(store, expected + 1)
    await runner.stop()
    expect_equal(await jobs(store), expected + 1, "jobs after the next boundary")


@prop("scheduler.catch_up.each", decided="Scheduler/Running")
async def catch_up_each(case: Case) -> None:
    """Every schedule catches up by itself: the 64 are counted for each one."""
    store = await case.store()
    await store.schedule("often", "@every 1s", "often", 1)
    await store.schedule("seldom", "@every 1m", "seldom", 1)
    await case.advance(1_000)
    runner = Runner(store)
    await fired(store, 64, "often")
    await fired(store, 16, "seldom")
    await runner.stop()
    counts = [await jobs(store, name) for name in ("often", "seldom")]
    expect_equal(counts, [64, 16], "jobs of each")


@prop("scheduler.once.consumed", decided="Scheduler/Running")
async def once_consumed(case: Case) -> None:
    """A boundary does not fire again, however fast its job was done and whoever runs next."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    done = 0
    for first, second in ((store, other), (other, store), (store, store)):
        marker = f"marker {done}"
        await case.advance(10)
        runner = Runner(first)
        await fired(store, 1)
        for handle in await store.queue("work").claim_batch("worker", 10):
            done += await handle.ack()
        await runner.stop()
        runner = Runner(second)
        await case.advance(1)
        await store.schedule(marker, "@every 1s", marker, 1)
        await case.advance(1)
        await fired(store, 1, marker)
        await runner.stop()
        await store.unschedule(marker)
        done += len(await store.queue("work").claim_batch("worker", 10))
    expect_equal(done, 3, "jobs of three boundaries")


@prop("scheduler.isolation", decided="Scheduler/Running")
async def isolation(case: Case) -> None:
    """Schedules at the edge of what is legal do not keep the others from firing."""
    store = await case.store()
    far = await store.schedule("a", "@every 9223372036854775807s", "a", 1)
    odd = ScheduleOpts(priority=-(2**63), max_attempts=-(2**63), expires=MAX)
    await store.schedule("b", "@every 10s", "b", 1, odd)
    await store.schedule("c", "@every 10s", "c", 1, ScheduleOpts(expires=-(2**63)))
    await store.schedule("d" * 255, "@every 10s", "d" * 255, "x" * 100_000)
    await store.schedule("e", "@every 10s", "e", 1)
    runner = Runner(store)
    await case.advance(10)
    await fired(store, 1, "e")
    await fired(store, 1, "d" * 255)
    await runner.stop()
    counts = [await jobs(store, name) for name in ("a", "b", "c")]
    expect_equal(counts, [0, 1, 1], "jobs of the odd ones")
    expect_equal((await store.schedules())[0], far, "the one that never comes due")


@prop("scheduler.many", decided="Scheduler/Running")
async def many(case: Case) -> None:
    """A hundred schedules that come due at the same moment all fire, once each."""
    store = await case.store()
    for number in range(100):
        await store.schedule(f"tick {number}", "@every 10s", "work", number)
    await case.advance(10)
    runner = Runner(store)
    await fired(store, 100)
    await runner.stop()
    found = sorted(int(job.payload) for job in await store.queue("work").jobs(limit=1_000))
    expect_equal(found, list(range(100)), "what was fired")
