"""Deliveries: what `run_once` makes of what they do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_core import EnqueueOpts, InvalidName, JobHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case


class DeliveryError(Exception):
    """The delivery failed."""


async def _fails(_: JobHandle) -> None:
    raise DeliveryError("the server is down")


async def _succeeds(_: JobHandle) -> None:
    pass


@prop("outbox.run.nothing", decided="Outbox")
async def run_nothing(case: Case) -> None:
    """`run_once` is `False` when nothing can be delivered now, and calls no delivery."""
    store = await case.store()
    outbox = store.outbox("letters")
    calls: list[JobHandle] = []

    async def deliver(job: JobHandle) -> None:
        calls.append(job)

    expect_equal(await outbox.run_once("worker", deliver), False, "of an empty outbox")
    await outbox.enqueue("later", EnqueueOpts(delay=60))
    expect_equal(await outbox.run_once("worker", deliver), False, "of a delayed message")
    expect_equal(calls, [], "calls of the delivery")


@prop("outbox.run.success", decided="Outbox")
async def run_success(case: Case) -> None:
    """A delivery that returns is acked: its message is gone, and `run_once` was `True`."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue({"to": "you"})
    seen: list[tuple[Any, ...]] = []

    async def deliver(handle: JobHandle) -> None:
        expect(isinstance(handle, JobHandle), "the delivery got no JobHandle")
        job = handle.job
        seen.append((job.id, job.payload, job.attempts, job.worker_id))

    expect_equal(await outbox.run_once("worker", deliver), True, "run_once")
    expect_equal(seen, [(number, b'{"to":"you"}', 1, "worker")], "what the delivery got")
    expect_equal(await outbox.backing.get_job(number), None, "the message after its delivery")


@prop("outbox.run.one", decided="Outbox")
async def run_one(case: Case) -> None:
    """`run_once` delivers one message, in claim order."""
    store = await case.store()
    outbox = store.outbox("letters")
    for number, priority in enumerate((0, 5, 0, 9)):
        await outbox.enqueue(number, EnqueueOpts(priority=priority))
    seen: list[int] = []

    async def deliver(handle: JobHandle) -> None:
        seen.append(int(handle.job.payload))

    for count in range(1, 5):
        await outbox.run_once("worker", deliver)
        expect_equal(len(seen), count, "messages delivered by so many calls")
    expect_equal(seen, [3, 1, 0, 2], "the order")


@prop("outbox.run.failure", decided="Outbox")
async def run_failure(case: Case) -> None:
    """A delivery that raises is retried with the queue's backoff and keeps its error's text."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    expect_equal(await outbox.run_once("worker", _fails), True, "run_once")
    job: Any = await outbox.backing.get_job(number)
    expect_equal((str(job.state), job.attempts), ("pending", 1), "state and attempts")
    expect("the server is down" in (job.last_error or ""), f"last_error is {job.last_error!r}")
    wait = job.run_at - 1_700_000_000
    expect(2 <= wait <= 5, f"the first backoff is 2 to 5 s, it was {wait}")  # noqa: PLR2004
    await case.advance(5)
    expect_equal(await outbox.run_once("worker", _succeeds), True, "run_once after the backoff")
    expect_equal(await outbox.backing.get_job(number), None, "the message after its delivery")


@prop("outbox.run.exhausted", decided="Outbox")
async def run_exhausted(case: Case) -> None:
    """A message whose fifth delivery fails is dead, with the last error."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    for attempt in range(1, 6):
        found = await outbox.run_once("worker", _fails)
        expect(found, f"there was no message for attempt {attempt}")
        await case.advance(3_600)
    expect_equal(await outbox.run_once("worker", _fails), False, "a sixth attempt")
    job: Any = await outbox.backing.get_job(number)
    expect_equal((str(job.state), job.attempts), ("dead", 5), "state and attempts")
    expect("the server is down" in (job.last_error or ""), f"last_error is {job.last_error!r}")


async def _ack_and_raise(handle: JobHandle) -> None:
    await handle.ack()
    raise DeliveryError("too late to matter")


SETTLED: dict[str, tuple[Callable[[JobHandle], Awaitable[object]], tuple[Any, ...] | None]] = {
    "ack": (lambda handle: handle.ack(), None),
    "ack and raise": (_ack_and_raise, None),
    "fail": (lambda handle: handle.fail("refused"), ("dead", 1, "refused")),
    "retry": (lambda handle: handle.retry("wait", 77), ("pending", 1, "wait")),
    "release": (lambda handle: handle.release(), ("pending", 0, None)),
}


@prop("outbox.run.settled", decided="Outbox", cases=tuple(SETTLED))
async def run_settled(case: Case, how: str) -> None:
    """A handle that the delivery settled itself is left as it is."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    delivery, expected = SETTLED[how]
    expect_equal(await outbox.run_once("worker", delivery), True, "run_once")
    job = await outbox.backing.get_job(number)
    seen = job and (str(job.state), job.attempts, job.last_error)
    expect_equal(seen, expected, f"the message after the delivery's own {how}")


@prop("outbox.run.cancelled", decided="Outbox")
async def run_cancelled(case: Case) -> None:
    """A cancelled delivery is neither acked nor failed: its message comes back after the lapse."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    under_way = asyncio.Event()

    async def deliver(_: JobHandle) -> None:
        under_way.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(outbox.run_once("worker", deliver))
    await under_way.wait()
    running.cancel()
    with expect_raises(asyncio.CancelledError, "the cancelled run_once"):
        await running
    job: Any = await outbox.backing.get_job(number)
    seen = (str(job.state), job.attempts, job.last_error)
    expect_equal(seen, ("processing", 1, None), "the message after the cancellation")
    expect_equal(await outbox.run_once("worker", _succeeds), False, "run_once within the lease")
    await case.advance(61)
    expect_equal(await outbox.run_once("worker", _succeeds), True, "run_once after the lapse")


@prop("outbox.run.slow", decided="Outbox")
async def run_slow(case: Case) -> None:
    """Nothing beats the heart of a delivery: one that outlasts its lease may be delivered twice.

    The slow one settles nothing any more.
    """
    store, other = await case.store(), await case.store()
    number = await store.outbox("letters").enqueue("letter")
    attempts: list[int] = []

    async def slow(handle: JobHandle) -> None:
        attempts.append(handle.job.attempts)
        await case.advance(61)
        await other.outbox("letters").run_once("other", fail)

    async def fail(handle: JobHandle) -> None:
        attempts.append(handle.job.attempts)
        await handle.retry("not yet", 1)

    expect_equal(await store.outbox("letters").run_once("worker", slow), True, "run_once")
    expect_equal(attempts, [1, 2], "attempts of both deliveries")
    job = await store.outbox("letters").backing.get_job(number)
    expect_equal(job and job.last_error, "not yet", "the message is as the second one left it")


@prop("outbox.run.heartbeat", decided="Outbox")
async def run_heartbeat(case: Case) -> None:
    """A delivery that extends its own lease keeps its message for as long as it does."""
    store, other = await case.store(), await case.store()
    number = await store.outbox("letters").enqueue("letter")

    # What is raised in a delivery is the message's error: here it is noted, and judged outside.
    beats: list[tuple[bool, bool]] = []

    async def patient(handle: JobHandle) -> None:
        for _ in range(4):
            await case.advance(50)
            beat = await handle.heartbeat(60)
            beats.append((beat, await other.outbox("letters").run_once("other", _succeeds)))

    expect_equal(await store.outbox("letters").run_once("worker", patient), True, "run_once")
    expect_equal(beats, [(True, False)] * 4, "heartbeats, and whether others found the message")
    job = await store.outbox("letters").backing.get_job(number)
    expect_equal(job, None, "the message after its delivery")


@prop("outbox.run.exclusive", decided="Outbox")
async def run_exclusive(case: Case) -> None:
    """Workers that run at the same time, in several clients, deliver each message once."""
    clients = [await case.store() for _ in range(3)]
    async with clients[0].transaction() as tx:
        for number in range(20):
            await tx.outbox_enqueue_tx("letters", number)
    delivered: list[int] = []

    async def deliver(handle: JobHandle) -> None:
        await asyncio.sleep(0)
        delivered.append(int(handle.job.payload))

    async def work(who: int) -> None:
        while await clients[who % 3].outbox("letters").run_once(f"worker {who}", deliver):
            pass

    await asyncio.gather(*(work(who) for who in range(6)))
    expect_equal(sorted(delivered), list(range(20)), "the messages")


@prop("outbox.run.worker", decided="Names", cases=("", " ", "a\0b", "a" * 256))
async def run_worker(case: Case, worker: str) -> None:
    """A worker id that breaks the rule for labels is refused, and nothing is claimed."""
    store = await case.store()
    outbox = store.outbox("letters")
    number = await outbox.enqueue("letter")
    with expect_raises(InvalidName, "run_once"):
        await outbox.run_once(worker, _succeeds)
    job = await outbox.backing.get_job(number)
    expect_equal(job and job.attempts, 0, "attempts after the refusal")
