"""What is still there after every store of a database was closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._elsewhere import elsewhere, in_a_process
from alkstore_contract.traces import write_everything
from alkstore_core import EnqueueOpts, JobState, QueueOpts, ScheduleOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_contract.suite._elsewhere import Talk
    from alkstore_core import Store


@prop("durability.jobs", decided="Guarantees in one table")
async def jobs(case: Case) -> None:
    """Jobs survive the closing of every store as they are: waiting, delayed, claimed and dead."""
    opts = QueueOpts(visibility_timeout_s=77, max_attempts=2, backoff_base_s=1)
    async with case.unopened() as store:
        queue = store.queue("work", opts)
        await queue.enqueue("dead", EnqueueOpts(priority=2, headers={"a": "b"}))
        await queue.enqueue("claimed", EnqueueOpts(priority=1, expires=500))
        await queue.enqueue_many(["ready", "ready as well"])
        await queue.enqueue("delayed", EnqueueOpts(delay=60))
        handle: Any = await queue.claim_one("worker")
        await handle.fail("broken")
        await queue.claim_one("worker")
        before = [await queue.jobs(), await queue.dead_jobs(), await queue.stats()]
    async with case.unopened() as store:
        queue = store.queue("work")
        after = [await queue.jobs(), await queue.dead_jobs(), await queue.stats()]
        for kind, was, found in zip(("live", "dead", "stats"), before, after, strict=True):
            expect_equal(found, was, kind)
        states = [str(job.state) for job in await queue.jobs()]
        expect_equal(states, ["processing", "pending", "pending", "pending"], "states")


@prop("durability.claims", decided="Queues/Claim")
async def claims(case: Case) -> None:
    """A claim outlives its client: nobody else gets the job before the claim has lapsed."""
    async with case.unopened() as store:
        await store.queue("work", QueueOpts(visibility_timeout_s=10)).enqueue(1)
        await store.queue("work").claim_one("worker")
    async with case.unopened() as store:
        await case.advance(10)
        expect_equal(await store.queue("work").claim_one("other"), None, "within the claim")
        await case.advance(1)
        handle: Any = await store.queue("work").claim_one("other")
        expect(handle is not None, "the lapsed job was not handed out")
        expect_equal(handle.job.attempts, 2, "attempts")


@prop("durability.streams", decided="Guarantees in one table")
async def streams(case: Case) -> None:
    """Events, saved offsets and gaps survive the closing of every store."""
    async with case.unopened() as store:
        stream = store.stream("log")
        first = await stream.publish_with_key("key", 1, {"a": "b"})
        await stream.publish(2)
        await stream.save_offset("reader", first)
        before = [await stream.read_since(0, 10), await stream.consumers(), await stream.bounds()]
    async with case.unopened() as store:
        stream = store.stream("log")
        after = [await stream.read_since(0, 10), await stream.consumers(), await stream.bounds()]
        for kind, was, found in zip(("events", "consumers", "bounds"), before, after, strict=True):
            expect_equal(found, was, kind)
        async with stream.subscribe("reader") as events:
            event = await events.recv()
        expect_equal(event and event.payload, b"2", "what the consumer goes on with")


@prop("durability.schedules", decided="Guarantees in one table")
async def schedules(case: Case) -> None:
    """Schedules survive the closing of every store, and their rhythm with them."""
    async with case.unopened() as store:
        opts = ScheduleOpts(priority=1, max_attempts=2, expires=3, headers={"a": "b"})
        await store.schedule("tick", "@every 60s", "work", {"n": 1}, opts)
        before = await store.schedules()
    await case.advance(20)
    async with case.unopened() as store:
        expect_equal(await store.schedules(), before, "the schedules")
        kept = await store.schedule("tick", "@every 60s", "work", {"n": 1})
        expect_equal(kept.next_fire_at, 1_700_000_060, "the boundary after registering it again")


@prop("durability.locks", decided="Guarantees in one table")
async def locks(case: Case) -> None:
    """A lease outlives its client, until its deadline; later leases have higher tokens."""
    async with case.unopened() as store:
        lock: Any = await store.try_lock("door", "owner", 10)
        before = await store.locks()
    async with case.unopened() as store:
        expect_equal(await store.locks(), before, "the locks")
        expect_equal(await store.try_lock("door", "other", 10), None, "within the lease")
        await case.advance(11)
        later: Any = await store.try_lock("door", "other", 10)
        expect(later is not None, "the lapsed lock cannot be taken")
        expect(later.token > lock.token, f"token {later.token} came after {lock.token}")


@prop("durability.outbox", decided="Guarantees in one table")
async def outbox(case: Case) -> None:
    """Messages survive the closing of every store and are delivered by the next one."""
    async with case.unopened() as store, store.transaction() as tx:
        await tx.outbox_enqueue_tx("letters", "letter")
    delivered = []

    async def deliver(handle: Any) -> None:
        delivered.append((handle.job.payload, handle.job.visibility_timeout_s))

    async with case.unopened() as store:
        await store.outbox("letters").run_once("worker", deliver)
    expect_equal(delivered, [(b'"letter"', 60)], "what was delivered")


@prop("durability.ids", decided="Queues/Enqueue")
async def ids(case: Case) -> None:
    """An id is not given twice, not even when its queue was emptied and every store closed."""
    given: list[int] = []
    for _ in range(3):
        async with case.unopened() as store:
            queue = store.queue("work")
            given += await queue.enqueue_many([1, 2])
            for handle in await queue.claim_batch("worker", 2):
                await handle.ack()
            given.append(await store.queue("other").enqueue(1))
            await store.queue("other").cancel(given[-1])
    expect_equal(len(set(given)), 9, "different ids among nine")


@prop("durability.new", decided="Store/Lifecycle")
async def new(case: Case) -> None:
    """A new database is empty, whatever was written to another one."""
    async with case.unopened() as store:
        async with store.transaction() as tx:
            await write_everything(tx)
        await store.schedule("tick", "@every 1s", "work", 1)
        await store.try_lock("door", "owner", 10)
    async with case.harness.home() as address, case.harness.store(address, case.clock) as fresh:
        found = [
            await fresh.queues(),
            await fresh.streams(),
            await fresh.outboxes(),
            await fresh.schedules(),
            await fresh.locks(),
        ]
    expect_equal(found, [[], [], [], [], []], "what is in the new one")


async def commit_for_ever(store: Store, line: Talk) -> None:
    """Commit one transaction after the other, and say so after each."""
    number = 0
    while True:
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", number)
            await tx.publish_tx("log", number)
            await tx.outbox_enqueue_tx("letters", number)
        number += 1
        line.say(number)
        await asyncio.sleep(0)


@prop("durability.killed", decided="Transactions/One transaction", group="process")
async def killed(case: Case) -> None:
    """Whoever dies in the midst of its commits leaves each of them whole, or nothing of it.

    What it had been told was committed is there: where the database outlives the process, after
    a kill; otherwise after the client was closed.
    """
    outlives = case.facts.durability == "durable" or case.facts.reach != "process"
    for rounds in (2, 9):
        # While it writes no store is open here: so an engine of one process can be tried as well.
        writer = await (in_a_process if outlives else elsewhere)(case, commit_for_ever)
        acknowledged = 0
        for _ in range(rounds):
            acknowledged = await writer.hear()
        await writer.kill()
        async with case.unopened(wall_clock=outlives) as store:
            counts = [
                len(await store.queue("work").jobs(JobState.PENDING, 100_000)),
                len(await store.stream("log").read_since(0, 100_000)),
                len(await store.outbox("letters").backing.jobs(JobState.PENDING, 100_000)),
            ]
            expect_equal(len(set(counts)), 1, f"a torn commit: {counts} jobs, events, messages")
            there = counts[0]
            expect(there >= acknowledged, f"{acknowledged} commits were told, {there} are there")
            for job in await store.queue("work").jobs(limit=100_000):
                await store.queue("work").cancel(job.id)
            await store.stream("log").trim_to(2**63 - 1)
            for job in await store.outbox("letters").backing.jobs(limit=100_000):
                await store.outbox("letters").backing.cancel(job.id)
