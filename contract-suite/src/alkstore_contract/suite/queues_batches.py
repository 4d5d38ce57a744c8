"""Acking and releasing many jobs at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import JobHandle, Queue


async def _claimed(queue: Queue, n: int, worker: str = "worker") -> list[JobHandle]:
    await queue.enqueue_many(range(n))
    handles = await queue.claim_batch(worker, n)
    expect_equal(len(handles), n, "the claimed jobs")
    return handles


async def _of_two_attempts(queue: Queue, n: int) -> list[JobHandle]:
    """Claims by id, in turn of a first and of a second attempt."""
    handles = await _claimed(queue, n)
    for handle in handles[1::2]:
        await handle.retry(None, 0)
    handles[1::2] = await queue.claim_batch("worker", n)
    expect_equal([h.job.attempts for h in handles], [1, 2, 1, 2, 1][:n], "the attempts")
    return handles


async def _left(queue: Queue) -> list[int]:
    return [job.id for job in await queue.jobs(None, 10_000)]


@prop("queues.ack_batch.handles", decided="Queues/Batches")
async def by_handle(case: Case) -> None:
    """`ack_batch` deletes the jobs of the handles it is given and counts them."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _of_two_attempts(queue, 5)
    expect_equal(await queue.ack_batch(handles[:3], "worker"), 3, "the jobs deleted")
    expect_equal(await _left(queue), [handle.job.id for handle in handles[3:]], "the jobs left")


@prop("queues.ack_batch.ids", decided="Queues/Batches")
async def by_id(case: Case) -> None:
    """`ack_batch` deletes jobs by bare id while that worker holds a live claim on them."""
    store, other = await case.store(), await case.store()
    ids = [handle.job.id for handle in await _claimed(store.queue("work"), 5)]
    queue = other.queue("work")
    expect_equal(await queue.ack_batch(ids[:3], "worker"), 3, "the jobs deleted")
    expect_equal(await queue.ack_batch(iter(ids[3:4]), "worker"), 1, "the jobs of an iterator")
    expect_equal([job.id for job in await queue.jobs()], ids[4:], "the jobs left")


@prop("queues.ack_batch.mixed", decided="Queues/Batches")
async def mixed(case: Case) -> None:
    """Handles and ids may be mixed, in any order."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 6)
    items: list[JobHandle | int] = [
        handles[5].job.id,
        handles[0],
        handles[3].job.id,
        handles[2],
        handles[1].job.id,
    ]
    expect_equal(await queue.ack_batch(items, "worker"), 5, "the jobs deleted")
    expect_equal(await _left(queue), [handles[4].job.id], "the jobs left")


@prop("queues.ack_batch.nothing", decided="Queues/Batches")
async def of_nothing(case: Case) -> None:
    """A batch of nothing deletes nothing."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 2)
    expect_equal(await queue.ack_batch([], "worker"), 0, "the jobs deleted")
    expect_equal(await _left(queue), [handle.job.id for handle in handles], "the jobs left")


@prop("queues.ack_batch.repeats", decided="Queues/Batches")
async def repeats(case: Case) -> None:
    """A job that is named several times, by id, by handle or both, counts once."""
    store = await case.store()
    queue = store.queue("work")
    one, two, three = await _claimed(queue, 3)
    items: list[JobHandle | int] = [one, one, two.job.id, two.job.id, three, three.job.id]
    expect_equal(await queue.ack_batch(items, "worker"), 3, "the jobs deleted")
    expect_equal(await queue.ack_batch(items, "worker"), 0, "the jobs deleted a second time")


@prop("queues.ack_batch.strangers", decided="Queues/Batches")
async def strangers(case: Case) -> None:
    """Ids of no job, of pending, dead or other queues' jobs are ignored and left alone."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    foreign = (await _claimed(other, 1))[0]
    dead, mine = await _claimed(queue, 2)
    await dead.fail("broken")
    pending = await queue.enqueue(None)
    items: list[JobHandle | int] = [
        foreign,
        foreign.job.id,
        dead,
        dead.job.id,
        pending,
        999_999,
        -1,
        mine,
    ]
    expect_equal(await queue.ack_batch(items, "worker"), 1, "the jobs deleted")
    expect_equal(await _left(queue), [pending], "the jobs left")
    expect_equal(len(await queue.dead_jobs()), 1, "the dead jobs left")
    expect_equal(await foreign.ack(), True, "ack of the other queue's handle")


@prop("queues.ack_batch.worker", decided="Queues/Batches")
async def other_worker(case: Case) -> None:
    """Bare ids count for the worker that claimed them only."""
    store = await case.store()
    queue = store.queue("work")
    ids = [handle.job.id for handle in await _claimed(queue, 3, "worker")]
    for stranger in ("other", "Worker", "worker "):
        expect_equal(await queue.ack_batch(ids, stranger), 0, f"the jobs deleted as {stranger!r}")
    expect_equal(await queue.ack_batch(ids, "worker"), 3, "the jobs deleted as their worker")


@prop("queues.ack_batch.lapsed", decided="Queues/Batches")
async def lapsed(case: Case) -> None:
    """Lapsed claims count nothing, by handle; live ones beside them do."""
    store = await case.store()
    queue = store.queue("work")
    old, kept = await _claimed(queue, 2)
    await kept.heartbeat(1000)
    await case.advance(LAPSE)
    before = fields_of(await queue.get_job(old.job.id))
    expect_equal(await queue.ack_batch([old, kept], "worker"), 1, "the jobs deleted")
    expect_job(await queue.get_job(old.job.id), before, "the lapsed job")


@prop("queues.ack_batch.ids_lapsed", decided="Queues/Batches")
async def ids_lapsed(case: Case) -> None:
    """Bare ids count through the second of the deadline and nothing after it."""
    store = await case.store()
    queue = store.queue("work")
    ids = [handle.job.id for handle in await _claimed(queue, 2)]
    await case.advance(300)
    expect_equal(await queue.ack_batch(ids[:1], "worker"), 1, "the jobs deleted in time")
    await case.advance(1)
    expect_equal(await queue.ack_batch(ids, "worker"), 0, "the jobs deleted too late")


@prop("queues.ack_batch.reclaimed", decided="Queues/Batches")
async def reclaimed(case: Case) -> None:
    """Handles are fenced also in a batch: an old one never acks the same worker's new claim."""
    store = await case.store()
    queue = store.queue("work")
    old = await _claimed(queue, 3)
    await case.advance(LAPSE)
    new = await queue.claim_batch("worker", 3)
    expect_equal(await queue.ack_batch(old, "worker"), 0, "the jobs deleted by old handles")
    expect_equal(await queue.ack_batch([*old, *new], "worker"), 3, "the jobs deleted by all")


@prop("queues.ack_batch.settles", decided="Queues/Handle")
async def settles(case: Case) -> None:
    """A batch settles its handles: their later calls give `False`."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 2)
    await queue.ack_batch(handles, "worker")
    for handle in handles:
        expect_equal(await handle.ack(), False, "ack after the batch")
        expect_equal(await handle.retry("late"), False, "retry after the batch")
    expect_equal(await queue.ack_batch(handles, "worker"), 0, "the jobs deleted again")


@prop("queues.ack_batch.large", decided="Queues/Batches")
async def large(case: Case) -> None:
    """A batch may have any size: each job of thousands is deleted and counted once."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 2300)
    items: list[JobHandle | int] = [*handles[:1200], *(h.job.id for h in handles[1200:])]
    expect_equal(await queue.ack_batch(items, "worker"), 2300, "the jobs deleted")
    expect_equal(await store.queues(), [], "the queues that hold a job")


@prop("queues.ack_batch.sparse", decided="Queues/Batches")
async def sparse(case: Case) -> None:
    """Forty thousand ids, nearly all of them strangers, are one legal batch."""
    store = await case.store()
    queue = store.queue("work")
    wanted = [handle.job.id for handle in await _claimed(queue, 3)]
    ids = [*wanted, *range(1_000_000, 1_040_000)]
    expect_equal(await queue.ack_batch(ids, "worker"), 3, "the jobs deleted")


@prop("queues.ack_batch.no_deadlock", decided="Queues/Batches")
async def no_deadlock(case: Case) -> None:
    """Batches over the same jobs in opposite orders, and a sweep, all end; each job counts once."""
    stores = [await case.store() for _ in range(2)]
    queue = stores[0].queue("work")
    await queue.enqueue_many(range(60), EnqueueOpts(expires=10))
    ids = [handle.job.id for handle in await queue.claim_batch("worker", 60)]
    await case.advance(20)
    counts = await asyncio.gather(
        queue.ack_batch(ids, "worker"),
        stores[1].queue("work").ack_batch(ids[::-1], "worker"),
        stores[1].queue("work").sweep_expired(),
        queue.ack_batch(ids[30:] + ids[:30], "worker"),
    )
    expect_equal(sum(counts), 60, f"the jobs that left, in the four counts {counts}")
    expect_equal(await _left(queue), [], "the jobs left")
    expect_equal(len(await queue.dead_jobs()), counts[2], "the dead jobs, as the sweep counted")


@prop("queues.release_batch.restores", decided="Queues/Batches")
async def release_restores(case: Case) -> None:
    """`release_batch` gives jobs back as if they had not been claimed, and counts them."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many(range(4), EnqueueOpts(priority=2, max_attempts=1))
    before = [fields_of(job) for job in await queue.jobs()]
    handles = await queue.claim_batch("worker", 4)
    await case.advance(5)
    expect_equal(await queue.release_batch(handles[1:]), 3, "the jobs given back")
    for expected in before[1:]:
        expect_job(await queue.get_job(expected["id"]), expected, "a job given back")
    again = await queue.claim_batch("other", 9)
    ids = [handle.job.id for handle in again]
    expect_equal(ids, [handle.job.id for handle in handles[1:]], "the ids claimed next")
    expect_equal(await handles[0].ack(), True, "ack of the job that was kept")


@prop("queues.release_batch.fenced", decided="Queues/Batches")
async def release_fenced(case: Case) -> None:
    """Lapsed, reclaimed, settled, repeated and foreign handles count nothing in `release_batch`."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    old, *late = await _claimed(queue, 3)
    await case.advance(LAPSE)
    expect_equal(await queue.release_batch(late), 0, "released of two lapsed ones")
    await queue.enqueue(None, EnqueueOpts(priority=9))
    settled = await claim(queue)
    await settled.ack()
    new = await claim(queue)
    expect_equal(new.job.id, old.job.id, "the reclaimed id")
    live, foreign = await _claimed(other, 2)
    expect_equal(await queue.release_batch([old, settled, foreign]), 0, "released of strangers")
    expect_equal(await foreign.heartbeat(50), True, "heartbeat of the foreign handle")
    expect_equal(await other.release_batch([live, live]), 1, "released of one handle twice")
    expect_equal(await live.ack(), False, "ack after the batch")
    expect_equal(await new.ack(), True, "ack of the reclaimed job by its new handle")


@prop("queues.release_batch.large", decided="Queues/Batches")
async def release_large(case: Case) -> None:
    """A `release_batch` may have any size, none too."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 1500)
    expect_equal(await queue.release_batch([]), 0, "the jobs given back of none")
    expect_equal(await queue.release_batch(handles), 1500, "the jobs given back")
    expect_equal((await queue.stats()).ready, 1500, "the ready jobs")


@prop("queues.heartbeat_batch.extends", decided="Queues/Batches")
async def heartbeat_extends(case: Case) -> None:
    """`heartbeat_batch` sets the deadlines of the claims it is given, and returns all, by id."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _of_two_attempts(queue, 5)
    before = [fields_of(handle.job) for handle in handles]
    await case.advance(200)
    kept = await queue.heartbeat_batch(handles[3:0:-1], 1000)
    expect_equal([h.job.id for h in kept], [h.job.id for h in handles[1:4]], "the ids returned")
    for fields in before[1:4]:
        fields["claim_expires_at"] = 1_700_001_200
    for fields in before:
        expect_job(await queue.get_job(fields["id"]), fields, f"job {fields['id']} after the batch")
    expect_equal(await queue.release_batch(kept), 3, "the jobs of the handles returned")


@prop("queues.heartbeat_batch.fenced", decided="Queues/Batches")
async def heartbeat_fenced(case: Case) -> None:
    """Lapsed, reclaimed, settled, repeated and foreign handles are not extended by a batch."""
    store = await case.store()
    queue, other = store.queue("work"), store.queue("other")
    old, released, live, settled, lapsed = await _claimed(queue, 5)
    (foreign,) = await _claimed(other, 1)
    await live.heartbeat(1000)
    await settled.ack()
    await released.release()
    await case.advance(LAPSE)
    strangers = [old, released, settled, lapsed, foreign]
    expect_equal(await queue.heartbeat_batch(strangers, 50), [], "the strangers extended")
    new = await claim(queue)
    expect_equal(new.job.id, old.job.id, "the reclaimed id")
    left = (old, released, lapsed)
    before = [fields_of(await queue.get_job(handle.job.id)) for handle in left]
    kept = await queue.heartbeat_batch([live, *strangers, live], 50)
    expect_equal([handle.job.id for handle in kept], [live.job.id], "the ids returned")
    for fields in before:
        expect_job(await queue.get_job(fields["id"]), fields, "a job of another's after the batch")
    expect_equal(await kept[0].ack(), True, "ack by the handle returned")
    expect_equal(await new.ack(), True, "ack of the reclaimed job by its new handle")


@prop("queues.heartbeat_batch.large", decided="Queues/Batches")
async def heartbeat_large(case: Case) -> None:
    """A `heartbeat_batch` may have any size, none too."""
    store = await case.store()
    queue = store.queue("work")
    handles = await _claimed(queue, 2300)
    expect_equal(await queue.heartbeat_batch([], 1000), [], "the claims extended of none")
    expect_equal(len(await queue.heartbeat_batch(handles, 1000)), 2300, "the claims extended")
    await case.advance(LAPSE)
    expect_equal((await queue.stats()).lapsed, 0, "the claims that have lapsed")
