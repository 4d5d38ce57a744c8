"""What rides in a transaction, and who sees it when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.traces import (
    expect_everything,
    expect_nothing,
    write_everything,
)
from alkstore_core import EnqueueOpts, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store


@prop("transactions.commit.everything", decided="Transactions/One transaction")
async def commit_everything(case: Case) -> None:
    """After a commit another client sees every job, event, message and offset that was in it."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    await tx.enqueue_many_tx("bulk", [1, 2])
    await tx.publish_many_tx("bulk", [1, 2])
    await tx.commit()
    await expect_everything(other, "after commit() returned")
    expect_equal(len(await other.queue("bulk").jobs()), 2, "jobs of the bulk form")
    expect_equal(len(await other.stream("bulk").read_since(0, 10)), 2, "events of the bulk form")


@prop("transactions.commit.at_once", decided="Transactions/One transaction")
async def commit_at_once(case: Case) -> None:
    """Whoever sees one write of a commit sees the others of the same commit as well."""
    store, other = await case.store(), await case.store()

    async def write() -> None:
        for round_ in range(6):
            async with store.transaction() as tx:
                await tx.enqueue_tx("work", round_)
                await tx.publish_tx("log", round_)
                await tx.outbox_enqueue_tx("letters", round_)

    writing = asyncio.ensure_future(write())
    while not writing.done():
        for names in (("jobs", "events", "messages"), ("messages", "events", "jobs")):
            # What is asked for later can only show more of the same commits.
            counts = [await _count(other, name) for name in names]
            expect_equal(counts, sorted(counts), f"a torn commit: {names}")
        await asyncio.sleep(0)
    await writing


async def _count(store: Store, what: str) -> int:
    if what == "events":
        return len(await store.stream("log").read_since(0, 100))
    source = store.queue("work") if what == "jobs" else store.outbox("letters").backing
    return len(await source.jobs())


@prop("transactions.invisible", decided="Transactions/One transaction")
async def invisible(case: Case) -> None:
    """Before its commit nobody outside sees anything of a transaction, its own client included."""
    store, other = await case.store(), await case.store()
    async with store.begin_tx() as tx:
        await write_everything(tx)
        await expect_nothing(other, "another client, before the commit")
        await expect_nothing(store, "the same client outside of the handle, before the commit")
        await tx.commit()
    await expect_everything(other, "after the commit")


@prop("transactions.own.job", decided="Transactions/One transaction")
async def own_job(case: Case) -> None:
    """`get_job_tx` sees the job that the transaction enqueued, in its queue only."""
    store = await case.store()
    async with store.begin_tx() as tx:
        job_id = await tx.enqueue_tx("work", {"n": 1})
        job = await tx.get_job_tx("work", job_id)
        expect(job is not None, "get_job_tx does not see the transaction's own job")
        expect_equal(job and (job.id, job.payload), (job_id, b'{"n":1}'))
        expect_equal(await tx.get_job_tx("other", job_id), None, "a job of another queue")


@prop("transactions.own.dead", decided="Transactions/One transaction")
async def own_committed(case: Case) -> None:
    """`get_job_tx` sees what was committed before as well, live and dead jobs alike."""
    store = await case.store()
    queue = store.queue("work")
    dead, live = await queue.enqueue_many([1, 2])
    handle = await queue.claim_one("worker")
    expect(handle is not None and await handle.fail("broken"), "the first job was not buried")
    async with store.begin_tx() as tx:
        found = [await tx.get_job_tx("work", number) for number in (dead, live)]
    states = [job and str(job.state) for job in found]
    expect_equal(states, ["dead", "pending"], "what get_job_tx sees")


@prop("transactions.own.offset", decided="Transactions/One transaction")
async def own_offset(case: Case) -> None:
    """`get_offset_tx` sees the offset that the transaction saved."""
    store = await case.store()
    await store.stream("log").save_offset("reader", 3)
    async with store.begin_tx() as tx:
        expect_equal(await tx.get_offset_tx("log", "reader"), 3, "what was committed before")
        await tx.save_offset_tx("log", "reader", 5)
        expect_equal(await tx.get_offset_tx("log", "reader"), 5, "the transaction's own save")
        expect_equal(await tx.get_offset_tx("log", "nobody"), 0, "an unknown consumer")


@prop("transactions.own.events", decided="Transactions/One transaction")
async def own_events(case: Case) -> None:
    """`read_since_tx` sees committed events and the transaction's own, in order."""
    store = await case.store()
    before = await store.stream("log").publish("before")
    async with store.begin_tx() as tx:
        own = await tx.publish_tx("log", "own")
        keyed = await tx.publish_with_key_tx("log", "key", "keyed")
        await tx.publish_tx("other", "elsewhere")
        seen = [(e.offset, e.key) for e in await tx.read_since_tx("log", 0, 10)]
        expect_equal(seen, [(before, None), (own, None), (keyed, "key")], "from the start")
        seen = [(e.offset, e.key) for e in await tx.read_since_tx("log", own, 10)]
        expect_equal(seen, [(keyed, "key")], "after an own event")


@prop("transactions.own.consumer", decided="Transactions/One transaction")
async def own_consumer(case: Case) -> None:
    """`read_from_consumer_tx` starts at the offset that the transaction saved."""
    store = await case.store()
    first, second = await store.stream("log").publish_many([1, 2])
    async with store.begin_tx() as tx:
        third = await tx.publish_tx("log", 3)
        seen = [e.offset for e in await tx.read_from_consumer_tx("log", "reader", 10)]
        expect_equal(seen, [first, second, third], "an unknown consumer stands at 0")
        await tx.save_offset_tx("log", "reader", second)
        seen = [e.offset for e in await tx.read_from_consumer_tx("log", "reader", 10)]
        expect_equal(seen, [third], "after the transaction's own save")


@prop("transactions.reads.limit", decided="Numbers")
async def reads_limit(case: Case) -> None:
    """Reads in a transaction give at most `limit` events, and none for 0 or less."""
    store = await case.store()
    async with store.begin_tx() as tx:
        offsets = await tx.publish_many_tx("log", [1, 2, 3])
        for limit, count in ((2, 2), (3, 3), (0, 0), (-1, 0), (-(2**63), 0), (2**63 - 1, 3)):
            since = [e.offset for e in await tx.read_since_tx("log", 0, limit)]
            expect_equal(since, offsets[:count], f"read_since_tx with limit {limit}")
            saved = [e.offset for e in await tx.read_from_consumer_tx("log", "reader", limit)]
            expect_equal(saved, offsets[:count], f"read_from_consumer_tx with limit {limit}")


@prop("transactions.batches", decided="Store/Shape")
async def batches(case: Case) -> None:
    """`enqueue_many_tx` and `publish_many_tx` give ids and offsets in input order."""
    store = await case.store()
    payloads = [f"payload {n}" for n in range(20)]
    async with store.transaction() as tx:
        ids = await tx.enqueue_many_tx("work", payloads)
        offsets = await tx.publish_many_tx("log", payloads)
        expect_equal(await tx.enqueue_many_tx("work", []), [], "no jobs")
        expect_equal(await tx.publish_many_tx("log", []), [], "no events")
    jobs = [await store.queue("work").get_job(number) for number in ids]
    expect_equal([job and job.payload_as(str) for job in jobs], payloads, "jobs by their ids")
    events = {e.offset: e.payload_as(str) for e in await store.stream("log").read_since(0, 100)}
    expect_equal([events.get(offset) for offset in offsets], payloads, "events by their offsets")


@prop("transactions.enqueue.stamps", decided="Queues/Stamps")
async def enqueue_stamps(case: Case) -> None:
    """`enqueue_tx` stamps the plain defaults, whatever options some queue handle has."""
    store = await case.store()
    store.queue("work", QueueOpts(visibility_timeout_s=7, max_attempts=9, backoff_base_s=1))
    async with store.transaction() as tx:
        ids = [await tx.enqueue_tx("work", 1), *await tx.enqueue_many_tx("work", [2])]
    for number in ids:
        job = await store.queue("work").get_job(number)
        stamps = job and (
            job.visibility_timeout_s,
            job.max_attempts,
            job.backoff_base_s,
            job.dead_letter_retention_s,
        )
        expect_equal(stamps, (300, 3, 5, None), "visibility, attempts, backoff, retention")


@prop("transactions.enqueue.handle", decided="Queues/Stamps")
async def enqueue_handle(case: Case) -> None:
    """`enqueue_tx` of a queue's handle stamps the options of that handle."""
    store = await case.store()
    queue = store.queue(
        "work",
        QueueOpts(
            visibility_timeout_s=7, max_attempts=9, backoff_base_s=1, dead_letter_retention_s=90
        ),
    )
    async with store.transaction() as tx:
        ids = [
            await tx.enqueue_tx(queue, 1),
            *await tx.enqueue_many_tx(queue, [2, 3]),
            await tx.enqueue_tx(queue, 4, EnqueueOpts(max_attempts=2)),
        ]
    found = [await queue.get_job(number) for number in ids]
    stamps = [
        job
        and (
            job.payload,
            job.visibility_timeout_s,
            job.max_attempts,
            job.backoff_base_s,
            job.dead_letter_retention_s,
        )
        for job in found
    ]
    expected = [(b"1", 7, 9, 1, 90), (b"2", 7, 9, 1, 90), (b"3", 7, 9, 1, 90), (b"4", 7, 2, 1, 90)]
    expect_equal(stamps, expected, "payload, visibility, attempts, backoff, retention")


@prop("transactions.enqueue.options", decided="Queues/Enqueue")
async def enqueue_options(case: Case) -> None:
    """The options of `enqueue_tx` are resolved as those of `enqueue` are."""
    store = await case.store()
    opts = EnqueueOpts(
        delay=5, run_at=1, priority=-2, max_attempts=9, expires=60, headers={"trace": "abc"}
    )
    async with store.transaction() as tx:
        number = await tx.enqueue_tx("work", 1, opts)
    job = await store.queue("work").get_job(number)
    seen = job and (job.run_at, job.priority, job.max_attempts, job.expires_at, job.headers)
    expect_equal(seen, (1_700_000_005, -2, 9, 1_700_000_060, {"trace": "abc"}))


@prop("transactions.publish.headers", decided="Payloads")
async def publish_headers(case: Case) -> None:
    """Events that were published in a transaction carry their key and their headers."""
    store = await case.store()
    async with store.transaction() as tx:
        await tx.publish_tx("log", 1, {"trace": "abc"})
        await tx.publish_with_key_tx("log", "key", 2, {"trace": "def"})
    seen = [(e.key, e.headers, e.payload) for e in await store.stream("log").read_since(0, 10)]
    expect_equal(seen, [(None, {"trace": "abc"}, b"1"), ("key", {"trace": "def"}, b"2")])


@prop("transactions.time", decided="Time")
async def time(case: Case) -> None:
    """Time is read when a call in a transaction runs, not when the transaction began."""
    store = await case.store()
    async with store.transaction() as tx:
        await case.advance(100)
        number = await tx.enqueue_tx("work", 1, EnqueueOpts(delay=1))
        await tx.publish_tx("log", 1)
        await case.advance(100)
    job: Any = await store.queue("work").get_job(number)
    expect_equal((job.created_at, job.run_at), (1_700_000_100, 1_700_000_101), "of the job")
    (event,) = await store.stream("log").read_since(0, 10)
    expect_equal(event.created_at, 1_700_000_100, "of the event")


@prop("transactions.shared_handle", decided="Transactions/Our own")
async def shared_handle(case: Case) -> None:
    """Several tasks may call one handle at the same time: their calls take turns."""
    store = await case.store()
    async with store.transaction() as tx:
        ids = await asyncio.gather(*(tx.enqueue_tx("work", n) for n in range(20)))
    jobs = await store.queue("work").jobs()
    expect_equal(sorted(ids), [job.id for job in jobs], "the ids that were given")
    expect_equal(sorted(int(job.payload) for job in jobs), list(range(20)), "the payloads")
