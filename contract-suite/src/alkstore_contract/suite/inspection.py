"""What is there, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim
from alkstore_core import EnqueueOpts, Schedule, ScheduleOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("inspection.fresh", decided="Store/Inspection")
async def fresh(case: Case) -> None:
    """An empty database has nothing in it, and nothing to diagnose."""
    store = await case.store()
    store.queue("asked for only")
    store.stream("asked for only")
    store.outbox("asked for only")
    expect_equal(await store.queues(), [], "queues")
    expect_equal(await store.streams(), [], "streams")
    expect_equal(await store.outboxes(), [], "outboxes")
    expect_equal(await store.locks(), [], "locks")
    expect_equal(await store.schedules(), [], "schedules")
    expect_equal(await store.diagnose(), [], "diagnose")


@prop("inspection.queues", decided="Store/Inspection")
async def queues(case: Case) -> None:
    """`queues()` names, sorted, each queue that holds a job in whatever state, dead ones too."""
    store = await case.store()
    for name in ("dead", "claimed"):
        await store.queue(name).enqueue(None)
        handle = await claim(store.queue(name))
        if name == "dead":
            await handle.fail("broken")
    await store.queue("delayed").enqueue(None, EnqueueOpts(delay=60))
    await store.queue("expired").enqueue(None, EnqueueOpts(expires=0))
    await store.queue("passed over").enqueue(None, EnqueueOpts(expires=0))
    await store.queue("passed over").claim_one("worker")
    await store.queue("Ready").enqueue_many([1, 2])
    names = ["Ready", "claimed", "dead", "delayed", "expired", "passed over"]
    expect_equal(await store.queues(), names, "queues")


@prop("inspection.queues_emptied", decided="Store/Inspection")
async def queues_emptied(case: Case) -> None:
    """A queue whose last job is gone is no longer named."""
    store = await case.store()
    queue = store.queue("work")
    acked, cancelled, purged = await queue.enqueue_many(range(3))
    handles = await queue.claim_batch("worker", 2)
    expect_equal([handle.job.id for handle in handles], [acked, cancelled], "the claimed ids")
    await handles[0].ack()
    await queue.cancel(cancelled)
    handle = await claim(queue)
    expect_equal(handle.job.id, purged, "the id that dies")
    await handle.fail("broken")
    expect_equal(await store.queues(), ["work"], "queues before the purge")
    await queue.purge_dead()
    expect_equal(await store.queues(), [], "queues after it")


@prop("inspection.outboxes", decided="Store/Inspection")
async def outboxes(case: Case) -> None:
    """`outboxes()` names the outboxes that hold a message by their own names, apart from queues."""
    store = await case.store()
    await store.outbox("mail").enqueue(None)
    await store.outbox("sms:eu").enqueue(None)
    await (await claim(store.outbox("sms:eu").backing)).fail("broken")
    async with store.transaction() as tx:
        await tx.outbox_enqueue_tx("audit", None)
    await store.queue("work").enqueue(None)
    expect_equal(await store.outboxes(), ["audit", "mail", "sms:eu"], "outboxes")
    expect_equal(await store.queues(), ["work"], "queues")


@prop("inspection.streams", decided="Store/Inspection")
async def streams(case: Case) -> None:
    """`streams()` names, sorted, the streams that hold an event or a consumer's offset."""
    store = await case.store()
    await store.stream("orders").publish(None)
    await store.stream("Audit").publish(None)
    await store.stream("read").save_offset("consumer", 7)
    trimmed = store.stream("trimmed")
    await trimmed.trim_to(await trimmed.publish(None))
    expect_equal(await store.streams(), ["Audit", "orders", "read"], "streams")


@prop("inspection.schedules", decided="Store/Inspection")
async def schedules(case: Case) -> None:
    """`schedules()` lists every schedule by name with all its values."""
    store = await case.store()
    opts = ScheduleOpts(priority=3, max_attempts=2, expires=50, headers={"h": "v"})
    second = await store.schedule("b", "@every 2m", "work", {"k": 1}, opts)
    first = await store.schedule("a", "@every 1s", "other", None)
    expected = [
        Schedule(
            name="a",
            spec="@every 1s",
            queue="other",
            payload=b"null",
            priority=0,
            max_attempts=None,
            expires=None,
            headers=None,
            next_fire_at=1_700_000_001,
        ),
        Schedule(
            name="b",
            spec="@every 2m",
            queue="work",
            payload=b'{"k":1}',
            priority=3,
            max_attempts=2,
            expires=50,
            headers={"h": "v"},
            next_fire_at=1_700_000_120,
        ),
    ]
    expect_equal([first, second], expected, "what schedule() returned")
    expect_equal(await store.schedules(), expected, "schedules")


@prop("inspection.clients", decided="Store/Inspection")
async def clients(case: Case) -> None:
    """Every client sees the same."""
    store, other = await case.store(), await case.store()
    await store.queue("work").enqueue(None)
    await store.outbox("mail").enqueue(None)
    await store.stream("log").publish(None)
    await store.try_lock("lock", "owner", 60)
    await store.schedule("tick", "@every 1s", "work", None)
    expect_equal(await other.queues(), ["work"], "queues")
    expect_equal(await other.outboxes(), ["mail"], "outboxes")
    expect_equal(await other.streams(), ["log"], "streams")
    expect_equal(await store.streams(), ["log"], "streams of the client that wrote")
    expect_equal(await other.locks(), await store.locks(), "locks")
    expect_equal(await other.schedules(), await store.schedules(), "schedules")
