"""Errors: one family, and what is not an error."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, lock
from alkstore_core import (
    AlkstoreError,
    Closed,
    CodecError,
    DatabaseError,
    EnqueueOpts,
    InvalidName,
    InvalidSpec,
    ReservedName,
)

if TYPE_CHECKING:
    from alkstore_contract.case import Case


async def _no_delivery(_: object) -> None:
    raise RuntimeError("there is nothing to deliver")


@prop("errors.family", decided="Errors")
async def family(case: Case) -> None:
    """Each refusal is the error the contract names, derives from `AlkstoreError` and pickles."""
    store = await case.store()
    queue = store.queue("work")
    refusals: tuple[tuple[type[AlkstoreError], Any], ...] = (
        (InvalidName, store.notify(" ")),
        (ReservedName, store.notify("__alkstore_x")),
        (CodecError, queue.enqueue({1})),
        (DatabaseError, queue.enqueue(None, EnqueueOpts(priority=2**63))),
        (DatabaseError, store.try_lock("lock", "owner", 0)),
        (InvalidSpec, store.schedule("tick", "* * * * *", "work", None)),
        (Closed, case.unopened().queue("work").stats()),
    )
    for kind, call in refusals:
        with expect_raises(AlkstoreError, kind.__name__) as raised:
            await call
        expect_equal(type(raised.error), kind, f"the class of {raised.error!r}")
        again = pickle.loads(pickle.dumps(raised.error))  # noqa: S301 - our own bytes.
        expect_equal((type(again), str(again)), (kind, str(raised.error)), "the pickled error")


@prop("errors.values", decided="Errors")
async def values(case: Case) -> None:
    """No work, nothing there and a lost race are values, not errors."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    expect_equal(await queue.claim_one("worker"), None, "claim_one")
    expect_equal(await queue.claim_batch("worker", 5), [], "claim_batch")
    expect_equal(await queue.ack_batch([1, 2], "worker"), 0, "ack_batch")
    expect_equal(await queue.release_batch([]), 0, "release_batch")
    expect_equal(await queue.cancel(1), False, "cancel")
    expect_equal(await queue.get_job(1), None, "get_job")
    expect_equal(await queue.redrive(1), None, "redrive")
    expect_equal(await queue.sweep_expired(), 0, "sweep_expired")
    expect_equal(await queue.purge_dead(), 0, "purge_dead")
    expect_equal(await queue.jobs(), [], "jobs")
    expect_equal(await queue.dead_jobs(), [], "dead_jobs")
    expect_equal(await stream.read_since(0, 5), [], "read_since")
    expect_equal(await stream.read_from_consumer("consumer", 5), [], "read_from_consumer")
    expect_equal(await stream.get_offset("consumer"), 0, "get_offset")
    expect_equal(await stream.trim_to(5), 0, "trim_to")
    expect_equal(await store.outbox("mail").run_once("worker", _no_delivery), False, "run_once")
    expect_equal(await store.unschedule("tick"), False, "unschedule")
    await lock(store, "lock", "owner")
    expect_equal(await store.try_lock("lock", "other", 5), None, "try_lock")


@prop("errors.closed_handles", decided="Store/Lifecycle")
async def closed_handles(case: Case) -> None:
    """Handles of a closed store raise `Closed`: a claim's and a lock's."""
    async with case.unopened() as store:
        await store.queue("work").enqueue(None)
        handle, held = await claim(store.queue("work")), await lock(store, "lock", "owner")
    calls: dict[str, Any] = {
        "ack": handle.ack,
        "retry": handle.retry,
        "fail": handle.fail,
        "release": handle.release,
        "lock.release": held.release,
    }
    for what, call in calls.items():
        with expect_raises(Closed, f"{what} on a closed store"):
            await call()
    with expect_raises(Closed, "heartbeat on a closed store"):
        await handle.heartbeat(10)
    with expect_raises(Closed, "renew on a closed store"):
        await held.renew(10)


@prop("errors.open_claims", decided="Store/Lifecycle")
async def open_claims(case: Case) -> None:
    """Closing a store gives no claim back: its jobs lapse as after a crash."""
    keeper = await case.store()
    queue = keeper.queue("work")
    async with case.unopened() as store:
        await store.queue("work").enqueue(None)
        handle = await claim(store.queue("work"))
    expect_equal(await queue.claim_one("other"), None, "a claim after the closing")
    await case.advance(301)
    again = await claim(queue)
    expect_equal((again.job.id, again.job.attempts), (handle.job.id, 2), "id and attempt")


@prop("errors.message", decided="Errors")
async def message(case: Case) -> None:
    """An error's message says what was wrong with which argument."""
    store = await case.store()
    with expect_raises(InvalidName) as raised:
        store.queue("q" * 256)
    expect("queue" in str(raised.error), f"the message names no kind: {raised.error}")
    with expect_raises(ReservedName) as raised:
        await store.try_lock("__alkstore_x", "owner", 1)
    expect("__alkstore_" in str(raised.error), f"the message names no prefix: {raised.error}")
    with expect_raises(InvalidSpec) as raised:
        await store.schedule("tick", "hourly", "work", None)
    expect("@every" in str(raised.error), f"the message names no grammar: {raised.error}")
    with expect_raises(DatabaseError) as raised:
        await store.try_lock("lock", "owner", -3)
    expect("ttl" in str(raised.error), f"the message names no argument: {raised.error}")
