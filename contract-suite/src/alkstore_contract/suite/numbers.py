"""Numbers: what is refused, what is empty, and where sums stop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, lock
from alkstore_core import DatabaseError, EnqueueOpts, QueueOpts, ScheduleOpts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import JobHandle, Lock, Store, TxHandle

Calls = dict[str, "Callable[[], Awaitable[Any]]"]


def _enqueues(store: Store, bad: Any) -> Calls:
    queue, outbox = store.queue("work"), store.outbox("mail")
    calls: Calls = {}
    for field in ("delay", "run_at", "priority", "max_attempts", "expires"):
        opts = EnqueueOpts(**{field: bad})
        calls[f"enqueue with {field}"] = partial(queue.enqueue, None, opts)
        calls[f"enqueue_many with {field}"] = partial(queue.enqueue_many, [None], opts)
        calls[f"outbox.enqueue with {field}"] = partial(outbox.enqueue, None, opts)
    for field in ("priority", "max_attempts", "expires"):
        plan = ScheduleOpts(**{field: bad})
        schedule = partial(store.schedule, "tick", "@every 1s", "work", None, plan)
        calls[f"schedule with {field}"] = schedule
    return calls


def _calls(store: Store, handle: JobHandle, held: Lock, bad: Any) -> Calls:
    queue, stream = store.queue("work"), store.stream("log")
    return {
        "claim_batch": lambda: queue.claim_batch("worker", bad),
        "ack_batch": lambda: queue.ack_batch([handle, bad], "worker"),
        "cancel": lambda: queue.cancel(bad),
        "get_job": lambda: queue.get_job(bad),
        "redrive": lambda: queue.redrive(bad),
        "purge_dead": lambda: queue.purge_dead(bad),
        "jobs' limit": lambda: queue.jobs(None, bad),
        "jobs' after_id": lambda: queue.jobs(None, 1, bad),
        "dead_jobs' limit": lambda: queue.dead_jobs(bad),
        "dead_jobs' after_id": lambda: queue.dead_jobs(1, bad),
        "heartbeat": lambda: handle.heartbeat(bad),
        "retry": lambda: handle.retry("failed", bad),
        "try_lock": lambda: store.try_lock("other", "owner", bad),
        "renew": lambda: held.renew(bad),
        "read_since's offset": lambda: stream.read_since(bad, 1),
        "read_since's limit": lambda: stream.read_since(0, bad),
        "read_from_consumer": lambda: stream.read_from_consumer("consumer", bad),
        "save_offset": lambda: stream.save_offset("consumer", bad),
        "trim_to": lambda: stream.trim_to(bad),
    }


def _tx_calls(tx: TxHandle, bad: Any) -> Calls:
    opts = EnqueueOpts(delay=bad)
    return {
        "enqueue_tx": lambda: tx.enqueue_tx("work", None, opts),
        "enqueue_many_tx": lambda: tx.enqueue_many_tx("work", [None], opts),
        "outbox_enqueue_tx": lambda: tx.outbox_enqueue_tx("mail", None, opts),
        "save_offset_tx": lambda: tx.save_offset_tx("log", "consumer", bad),
        "get_job_tx": lambda: tx.get_job_tx("work", bad),
        "read_since_tx's offset": lambda: tx.read_since_tx("log", bad, 1),
        "read_since_tx's limit": lambda: tx.read_since_tx("log", 0, bad),
        "read_from_consumer_tx": lambda: tx.read_from_consumer_tx("log", "consumer", bad),
    }


async def _refused_everywhere(case: Case, bad: Any, cause: type[Exception]) -> None:
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue(None)
    offset = await stream.publish(None)
    handle, held = await claim(queue), await lock(store, "lock", "owner")
    calls = {**_enqueues(store, bad), **_calls(store, handle, held, bad)}
    for what, call in calls.items():
        with expect_raises(DatabaseError, f"{what} of {bad!r}") as raised:
            await call()
        expect(
            isinstance(raised.error.__cause__, cause),
            f"{what} of {bad!r}: the error's cause should be a {cause.__name__}",
        )
    for field in ("visibility_timeout_s", "max_attempts", "backoff_base_s"):
        with expect_raises(DatabaseError, f"QueueOpts.{field} of {bad!r}"):
            store.queue("work", QueueOpts(**{field: bad}))
    with expect_raises(DatabaseError, f"dead_letter_retention_s of {bad!r}"):
        store.queue("work", QueueOpts(dead_letter_retention_s=bad))
    expect_equal([job.id for job in await queue.jobs()], [handle.job.id], "the jobs that are left")
    expect_equal(await store.outboxes(), [], "the outboxes")
    expect_equal(await store.schedules(), [], "the schedules")
    expect_equal((await stream.bounds()).last, offset, "the stream's last offset")
    expect_equal(await handle.ack(), True, "ack after every refusal")
    expect_equal(await held.release(), True, "release after every refusal")


@prop("numbers.range", decided="Numbers", cases=(2**63, -(2**63) - 1, 10**30))
async def out_of_range(case: Case, bad: int) -> None:
    """An int outside the signed 64-bit range is refused before storage is touched."""
    await _refused_everywhere(case, bad, OverflowError)


@prop("numbers.bools", decided="Numbers", cases=(True, False))
async def bools(case: Case, bad: Any) -> None:
    """A bool where a number is asked for is refused before storage is touched."""
    await _refused_everywhere(case, bad, TypeError)


@prop("numbers.floats", decided="Numbers", cases=(1.0, 0.5, float("nan"), float("inf")))
async def floats(case: Case, bad: Any) -> None:
    """A float where a number is asked for is refused before storage is touched."""
    await _refused_everywhere(case, bad, TypeError)


@prop("numbers.texts", decided="Numbers", cases=("1", b"1"))
async def texts(case: Case, bad: Any) -> None:
    """Text where a number is asked for is refused before storage is touched."""
    await _refused_everywhere(case, bad, TypeError)


@prop("numbers.usable_tx", decided="Errors", cases=(True, 1.5, 2**63, -(2**63) - 1))
async def usable_tx(case: Case, bad: Any) -> None:
    """A transaction whose call was refused for its number stays usable and loses nothing."""
    store = await case.store()
    async with store.transaction() as tx:
        first = await tx.enqueue_tx("work", "first")
        for what, call in _tx_calls(tx, bad).items():
            with expect_raises(DatabaseError, f"{what} of {bad!r}"):
                await call()
        second = await tx.enqueue_tx("work", "second")
    jobs = await store.queue("work").jobs()
    expect_equal([job.id for job in jobs], [first, second], "the committed jobs")
    expect_equal(await store.outboxes(), [], "the outboxes")


@prop("numbers.extents", decided="Numbers", cases=(0, -1, -(2**63)))
async def extents(case: Case, extent: int) -> None:
    """An extent of 0 or less gives the empty result and takes nothing."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue_many([1, 2])
    await (await claim(queue)).fail("gone")
    await stream.publish_many([1, 2])
    expect_equal(await queue.claim_batch("worker", extent), [], "claim_batch")
    expect_equal(await queue.jobs(None, extent), [], "jobs")
    expect_equal(await queue.dead_jobs(extent), [], "dead_jobs")
    expect_equal(await stream.read_since(0, extent), [], "read_since")
    expect_equal(await stream.read_from_consumer("consumer", extent), [], "read_from_consumer")
    async with store.transaction() as tx:
        expect_equal(await tx.read_since_tx("log", 0, extent), [], "read_since_tx")
        read = await tx.read_from_consumer_tx("log", "consumer", extent)
        expect_equal(read, [], "read_from_consumer_tx")
    expect_equal((await queue.stats()).ready, 1, "the jobs that stayed ready")


@prop("numbers.extents_greatest", decided="Numbers")
async def extents_greatest(case: Case) -> None:
    """An extent of 2**63-1 is legal and means all there is."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue_many([1, 2, 3])
    await (await claim(queue)).fail("gone")
    await stream.publish_many([1, 2])
    greatest = 2**63 - 1
    expect_equal(len(await queue.jobs(None, greatest)), 2, "jobs")
    expect_equal(len(await queue.dead_jobs(greatest)), 1, "dead_jobs")
    expect_equal(len(await queue.claim_batch("worker", greatest)), 2, "claim_batch")
    expect_equal(len(await stream.read_since(0, greatest)), 2, "read_since")
    read = await stream.read_from_consumer("consumer", greatest)
    expect_equal(len(read), 2, "read_from_consumer")


@prop("numbers.durations", decided="Numbers", cases=(0, -1, -(2**63)))
async def durations(case: Case, seconds: int) -> None:
    """A lease of 0 seconds or less is refused with `DatabaseError`, and nothing is leased."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None)
    handle, held = await claim(queue), await lock(store, "lock", "owner")
    calls: Calls = {
        "try_lock": lambda: store.try_lock("other", "owner", seconds),
        "renew": lambda: held.renew(seconds),
        "heartbeat": lambda: handle.heartbeat(seconds),
    }
    for what, call in calls.items():
        with expect_raises(DatabaseError, f"{what}({seconds})") as raised:
            await call()
        expect(
            isinstance(raised.error.__cause__, ValueError),
            f"{what}({seconds}): the error's cause should be a ValueError",
        )
    with expect_raises(DatabaseError, f"visibility_timeout_s={seconds}"):
        store.queue("work", QueueOpts(visibility_timeout_s=seconds))
    locks = [(told.name, told.expires_at) for told in await store.locks()]
    expect_equal(locks, [("lock", 1_700_000_060)], "the leases after every refusal")
    expect_equal(await handle.ack(), True, "ack after a refused heartbeat")
