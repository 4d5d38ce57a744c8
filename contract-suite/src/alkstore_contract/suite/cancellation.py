"""Cancelled calls: each is whole or absent, and nothing is lost or blocked by it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite.lifecycle import CALLS
from alkstore_contract.traces import EVERYTHING, NOTHING, traces, write_everything
from alkstore_core import StopToken

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from alkstore_contract.case import Case
    from alkstore_core import TxHandle

STARTED = (0, 1, 2, 3, 5, 8)
"""After so many turns of the loop the call is cancelled."""


async def _cancelled(call: Coroutine[Any, Any, object], started: int) -> bool:
    """Cancel a call after some turns; whether that ended it."""
    task = asyncio.ensure_future(call)
    for _ in range(started):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
    return task.cancelled()


@prop("cancellation.enqueue", decided="Store/Cancellation", cases=STARTED)
async def enqueue(case: Case, started: int) -> None:
    """A cancelled `enqueue_many` has stored all of its jobs or none."""
    store, other = await case.store(), await case.store()
    cancelled = await _cancelled(store.queue("work").enqueue_many([1, 2, 3]), started)
    count = len(await other.queue("work").jobs())
    legal = {0, 3} if cancelled else {3}
    expect(count in legal, f"{count} of 3 jobs are there, cancelled: {cancelled}")


@prop("cancellation.publish", decided="Store/Cancellation", cases=STARTED)
async def publish(case: Case, started: int) -> None:
    """A cancelled `publish_many` has stored all of its events or none."""
    other = await case.store()
    # Closed, so that nothing is under way: a reader may see a part of what is just committed.
    async with case.unopened() as store:
        cancelled = await _cancelled(store.stream("log").publish_many([1, 2, 3]), started)
    count = len(await other.stream("log").read_since(0, 10))
    legal = {0, 3} if cancelled else {3}
    expect(count in legal, f"{count} of 3 events are there, cancelled: {cancelled}")


@prop(
    "cancellation.transaction", decided="Store/Cancellation", cases=(*STARTED, 4, 6, 7, 9, 13, 21)
)
async def transaction(case: Case, started: int) -> None:
    """A transaction whose task is cancelled at whatever moment is committed whole, or absent."""
    store, other = await case.store(), await case.store()

    async def work(tx: TxHandle) -> None:
        await write_everything(tx)

    cancelled = await _cancelled(store.with_tx(work), started)
    left = await traces(other)
    legal = [EVERYTHING, NOTHING] if cancelled else [EVERYTHING]
    expect(left in legal, f"{left} is left of the transaction, cancelled: {cancelled}")
    async with asyncio.timeout(2):
        await other.queue("after").enqueue("a write")
        await store.queue("after").enqueue("a write")


@prop("cancellation.ack", decided="Queues/Handle", cases=STARTED)
async def ack(case: Case, started: int) -> None:
    """After a cancelled `ack` another one by the same handle leaves the job acked."""
    store, other = await case.store(), await case.store()
    number = await store.queue("work").enqueue(1)
    handle: Any = await store.queue("work").claim_one("worker")
    cancelled = await _cancelled(handle.ack(), started)
    if not cancelled:
        expect_equal(await handle.ack(), False, "a second ack after one that returned")
    await handle.ack()
    expect_equal(await other.queue("work").get_job(number), None, "the job in the end")


@prop("cancellation.retry", decided="Queues/Handle", cases=STARTED)
async def retry(case: Case, started: int) -> None:
    """After a cancelled `retry` another one by the same handle leaves the job retried once."""
    store, other = await case.store(), await case.store()
    number = await store.queue("work").enqueue(1)
    handle: Any = await store.queue("work").claim_one("worker")
    await _cancelled(handle.retry("later", 60), started)
    await handle.retry("later", 60)
    job: Any = await other.queue("work").get_job(number)
    seen = (str(job.state), job.attempts, job.last_error, job.run_at)
    expect_equal(seen, ("pending", 1, "later", 1_700_000_060), "the job in the end")


@prop("cancellation.save_offset", decided="Store/Cancellation", cases=STARTED)
async def save_offset(case: Case, started: int) -> None:
    """A cancelled `save_offset` has saved its offset, or left the earlier one."""
    store, other = await case.store(), await case.store()
    await store.stream("log").save_offset("reader", 3)
    cancelled = await _cancelled(store.stream("log").save_offset("reader", 7), started)
    offset = await other.stream("log").get_offset("reader")
    legal = {3, 7} if cancelled else {7}
    expect(offset in legal, f"the offset is {offset}, cancelled: {cancelled}")


@prop("cancellation.lock", decided="Locks", cases=STARTED)
async def lock(case: Case, started: int) -> None:
    """After a cancelled `try_lock` its owner can have the lock, whether or not it was taken."""
    store, other = await case.store(), await case.store()
    await _cancelled(store.try_lock("door", "owner", 30), started)
    mine: Any = await store.try_lock("door", "owner", 30)
    expect(mine is not None, "the owner cannot have its lock")
    expect_equal(await other.try_lock("door", "other", 30), None, "for somebody else")
    expect(await mine.release(), "the owner cannot release it")
    expect(await other.try_lock("door", "other", 30), "the released lock cannot be taken")


@prop("cancellation.neighbours", decided="Store/Cancellation", cases=(1, 2, 3, 5))
async def neighbours(case: Case, started: int) -> None:
    """A cancelled call does no harm to calls that run at the same moment."""
    store = await case.store()
    calls = [asyncio.ensure_future(store.queue("work").enqueue(number)) for number in range(12)]
    for _ in range(started):
        await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    await asyncio.wait(calls)
    jobs = {int(job.payload): job.id for job in await store.queue("work").jobs()}
    for number, call in enumerate(calls):
        if not call.cancelled():
            expect_equal(jobs.get(number), call.result(), f"the job of call {number}")


@prop("cancellation.leaks", decided="Store/Cancellation", cases=(1, 2, 4))
async def leaks(case: Case, started: int) -> None:
    """However many calls of whatever kind were cancelled, the store works as before."""
    store, other = await case.store(), await case.store()
    await store.queue("q").enqueue_many(list(range(5)))
    for _ in range(3):
        for call in CALLS.values():
            await _cancelled(_run(call(store)), started)
    async with asyncio.timeout(5):
        for name, call in CALLS.items():
            if name not in {"run_schedules", "transaction", "begin_tx"}:
                await call(store)
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", 1)
        async with other.transaction() as tx:
            await tx.enqueue_tx("work", 2)
        token = StopToken()
        token.stop()
        await store.run_schedules(token)
    expect_equal(len(await store.queue("work").jobs()), 2, "jobs of the two transactions")


async def _run(call: Any) -> object:
    return await call
