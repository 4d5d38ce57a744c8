"""Outboxes: what goes in, and that only the outbox reaches it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import expect_waiting, turns
from alkstore_contract.properties import prop
from alkstore_core import EnqueueOpts, InvalidName, ReservedName

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Job, JobHandle, Store


async def _enqueue(store: Store, form: str, opts: EnqueueOpts | None = None) -> Job | None:
    if form == "enqueue":
        number = await store.outbox("letters").enqueue("letter", opts)
    else:
        async with store.transaction() as tx:
            number = await tx.outbox_enqueue_tx("letters", "letter", opts)
    return await store.outbox("letters").backing.get_job(number)


FORMS = ("enqueue", "outbox_enqueue_tx")


@prop("outbox.stamps", decided="Queues/Stamps", cases=FORMS)
async def stamps(case: Case, form: str) -> None:
    """A message is stamped with 60 s visibility, 5 attempts, backoff from 5 s and no retention."""
    job: Any = await _enqueue(await case.store(), form)
    seen = (
        job.visibility_timeout_s,
        job.max_attempts,
        job.backoff_base_s,
        job.dead_letter_retention_s,
    )
    expect_equal(seen, (60, 5, 5, None), "visibility, attempts, backoff, retention")
    expect_equal((job.payload, job.run_at), (b'"letter"', 1_700_000_000), "payload and ready time")


@prop("outbox.options", decided="Queues/Enqueue", cases=FORMS)
async def options(case: Case, form: str) -> None:
    """The options of an enqueue apply to messages as they do to jobs."""
    opts = EnqueueOpts(delay=5, priority=3, max_attempts=2, expires=90, headers={"a": "b"})
    job: Any = await _enqueue(await case.store(), form, opts)
    seen = (job.run_at, job.priority, job.max_attempts, job.expires_at, job.headers)
    expect_equal(seen, (1_700_000_005, 3, 2, 1_700_000_090, {"a": "b"}), "the resolved options")


@prop("outbox.tx.commit", decided="Outbox")
async def tx_commit(case: Case) -> None:
    """A message can be delivered once its transaction has committed, and not before."""
    store, other = await case.store(), await case.store()
    delivered: list[bytes] = []

    async def deliver(job: JobHandle) -> None:
        delivered.append(job.job.payload)

    async with store.begin_tx() as tx:
        await tx.outbox_enqueue_tx("letters", "letter")
        await tx.enqueue_tx("business", 1)
        if not case.facts.single_writer:
            found = await other.outbox("letters").run_once("worker", deliver)
            expect(not found, "a message was delivered before its transaction's commit")
        jobs = await other.outbox("letters").backing.jobs()
        expect_equal(jobs, [], "messages before the commit")
        await tx.commit()
    expect(await other.outbox("letters").run_once("worker", deliver), "there was no message")
    expect_equal(delivered, [b'"letter"'], "what was delivered")


@prop("outbox.tx.rollback", decided="Outbox")
async def tx_rollback(case: Case) -> None:
    """A message of a transaction that was rolled back is never delivered."""
    store = await case.store()

    async def deliver(_: JobHandle) -> None:
        expect(condition=False, what="a message was delivered that never was")

    async with store.begin_tx() as tx:
        await tx.outbox_enqueue_tx("letters", "letter")
    found = await store.outbox("letters").run_once("worker", deliver)
    expect_equal(found, False, "run_once after the rollback")
    expect_equal(await store.outboxes(), [], "outboxes that hold something")


@prop("outbox.tx.names", decided="Names", cases=("", " ", "a\0b", "__alkstore_x", "a" * 256))
async def tx_names(case: Case, name: str) -> None:
    """`outbox_enqueue_tx` refuses the names that `outbox` refuses, by the same errors."""
    store = await case.store()
    kind = ReservedName if name.startswith("__alkstore_") else InvalidName
    with expect_raises(kind, "outbox"):
        store.outbox(name)
    async with store.transaction() as tx:
        with expect_raises(kind, "outbox_enqueue_tx"):
            await tx.outbox_enqueue_tx(name, 1)
    expect_equal(await store.outboxes(), [], "outboxes after the refusals")


@prop("outbox.names", decided="Names", cases=("letters", "a", "a" * 255, "é" * 127, "почта", " x "))
async def names(case: Case, name: str) -> None:
    """Every legal name is an outbox's name, the longest included: what is put in comes out."""
    store = await case.store()
    await store.outbox(name).enqueue(1)
    async with store.transaction() as tx:
        await tx.outbox_enqueue_tx(name, 2)
    delivered = []

    async def deliver(job: JobHandle) -> None:
        delivered.append(job.job.payload)

    while await store.outbox(name).run_once("worker", deliver):
        pass
    expect_equal(delivered, [b"1", b"2"], "what was delivered")
    await store.outbox(name).enqueue(3)
    expect_equal(await store.outboxes(), [name], "the outboxes")


@prop("outbox.unreachable", decided="Outbox")
async def unreachable(case: Case) -> None:
    """The backing queue is reached through its outbox alone: its name is refused everywhere."""
    store = await case.store()
    await store.outbox("letters").enqueue("letter")
    name = store.outbox("letters").backing.name
    with expect_raises(ReservedName, f"queue({name!r})"):
        store.queue(name)
    async with store.transaction() as tx:
        with expect_raises(ReservedName, "enqueue_tx"):
            await tx.enqueue_tx(name, 1)
        with expect_raises(ReservedName, "enqueue_many_tx"):
            await tx.enqueue_many_tx(name, [1])
        with expect_raises(ReservedName, "get_job_tx"):
            await tx.get_job_tx(name, 1)
    with expect_raises(ReservedName, "schedule"):
        await store.schedule("tick", "@every 1s", name, 1)
    expect(not hasattr(store.outbox("letters").backing, "enqueue"), "the backing has an enqueue")
    expect_equal(len(await store.outbox("letters").backing.jobs()), 1, "messages")


@prop("outbox.apart", decided="Names")
async def apart(case: Case) -> None:
    """A queue of the outbox's name is another thing, and so is every other outbox."""
    store = await case.store()
    await store.outbox("letters").enqueue("letter")
    await store.queue("letters").enqueue("job")
    await store.outbox("parcels").enqueue("parcel")
    expect_equal([j.payload for j in await store.queue("letters").jobs()], [b'"job"'], "the queue")
    seen = [j.payload for j in await store.outbox("letters").backing.jobs()]
    expect_equal(seen, [b'"letter"'], "the outbox")
    expect_equal(await store.queues(), ["letters"], "the queues")
    expect_equal(await store.outboxes(), ["letters", "parcels"], "the outboxes")


@prop("outbox.backing.wakes", decided="Outbox")
async def backing_wakes(case: Case) -> None:
    """The backing's wakes come when a message may be delivered, and not for other outboxes."""
    store, other = await case.store(), await case.store()
    async with other.outbox("letters").backing.wakes() as wakes:
        waiting = asyncio.ensure_future(wakes.recv())
        await store.outbox("parcels").enqueue(1)
        await store.queue("letters").enqueue(1)
        async with other.listen("marker") as marker:
            await store.notify("marker")
            await marker.recv()
        await expect_waiting(waiting, "a wake came for something else")
        async with store.transaction() as tx:
            await tx.outbox_enqueue_tx("letters", 1)
            await turns()
        expect(await waiting is not None, "the receiver ended")


@prop("outbox.backing.inspect", decided="Outbox")
async def backing_inspect(case: Case) -> None:
    """The backing tells how messages stand: waiting, delayed and dead ones."""
    store = await case.store()
    outbox = store.outbox("letters")
    await outbox.enqueue("now")
    await outbox.enqueue("later", EnqueueOpts(delay=60))
    dead = await outbox.enqueue("bad", EnqueueOpts(priority=1))

    async def bury(handle: JobHandle) -> None:
        await handle.fail("no such address")

    await outbox.run_once("worker", bury)
    stats = await outbox.backing.stats()
    expect_equal((stats.ready, stats.delayed, stats.dead), (1, 1, 1), "ready, delayed, dead")
    (job,) = await outbox.backing.dead_jobs()
    expect_equal((job.id, job.last_error), (dead, "no such address"), "the dead message")


@prop("outbox.backing.redrive", decided="Outbox")
async def backing_redrive(case: Case) -> None:
    """A dead message that is redriven is delivered, with an outbox's stamps."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    delivered: list[Job] = []

    async def bury(handle: JobHandle) -> None:
        await handle.fail()

    async def deliver(handle: JobHandle) -> None:
        delivered.append(handle.job)

    await outbox.run_once("worker", bury)
    again = await outbox.backing.redrive(number)
    expect(again is not None, "the dead message was not redriven")
    expect(await outbox.run_once("worker", deliver), "the redriven message was not found")
    seen = [(j.id, j.payload, j.visibility_timeout_s, j.max_attempts) for j in delivered]
    expect_equal(seen, [(again, b'"letter"', 60, 5)], "what was delivered")


@prop("outbox.backing.sweep", decided="Outbox")
async def backing_sweep(case: Case) -> None:
    """A message past its expiry is not delivered, and the backing's sweep makes it dead."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter", EnqueueOpts(expires=10))

    async def deliver(_: JobHandle) -> None:
        expect(condition=False, what="an expired message was delivered")

    await case.advance(10)
    expect_equal(await outbox.run_once("worker", deliver), False, "run_once after the expiry")
    expect_equal(await outbox.backing.sweep_expired(), 1, "swept")
    job = await outbox.backing.get_job(number)
    expect_equal(job and (str(job.state), job.last_error), ("dead", "expired"), "the message")
