"""Everything that a database holds, copied to another one."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim
from alkstore_core import (
    CopyRefused,
    EnqueueOpts,
    JobState,
    QueueOpts,
    ScheduleOpts,
    copy_store,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from alkstore_contract.case import Case
    from alkstore_core import CopyProgress, Job, Store, StreamEvent

STAMPS = QueueOpts(
    visibility_timeout_s=40, max_attempts=4, backoff_base_s=0, dead_letter_retention_s=9_000
)


@contextlib.asynccontextmanager
async def _elsewhere(case: Case) -> AsyncIterator[Store]:
    """A store on another database, an empty one."""
    async with case.harness.home() as address, case.harness.store(address, case.clock) as store:
        yield store


def _unnumbered(jobs: Sequence[Job]) -> list[Job]:
    return [evolve(job, id=0) for job in jobs]


def _ascending(numbers: Sequence[int], what: str) -> None:
    expect_equal(list(numbers), sorted(set(numbers)), f"the copied {what}, ascending")


@prop("copy.jobs", decided="Copy")
async def jobs(case: Case) -> None:
    """A copied job has every field of the old one but its id, and ids ascend in the old order."""
    store = await case.store()
    queue = store.queue("work", STAMPS)
    await queue.enqueue("gone")
    await (await claim(queue)).ack()
    await queue.enqueue({"é": "\0"}, EnqueueOpts(priority=9, headers={"trace": "ü"}, expires=900))
    await (await claim(queue)).retry("broke", 0)
    await queue.enqueue("delayed", EnqueueOpts(delay=500, max_attempts=7))
    await queue.enqueue("lapsed", EnqueueOpts(priority=10))
    await claim(queue, "lost worker")
    await store.outbox("mail").enqueue("message")
    await case.advance(41)
    async with _elsewhere(case) as target:
        await copy_store(store, target)
        copied = await target.queue("work").jobs()
        _ascending([job.id for job in copied], "ids")
        expect_equal(_unnumbered(copied), _unnumbered(await queue.jobs()), "the copied jobs")
        first = copied[0]
        expect_equal(
            (first.payload, first.last_error), ('{"é":"\\u0000"}'.encode(), "broke"), "1st"
        )
        expect_equal((first.attempts, first.headers), (1, {"trace": "ü"}), "attempts and headers")
        expect_equal((first.created_at, first.expires_at), (1_700_000_000, 1_700_000_900), "times")
        messages = await target.outbox("mail").backing.jobs()
        expect_equal([job.payload for job in messages], [b'"message"'], "the copied messages")
        handed_out = [(await claim(target.queue("work"))).job for _ in range(2)]
        expect_equal(
            [(job.payload, job.attempts) for job in handed_out],
            [(b'"lapsed"', 2), (first.payload, 2)],
            "what the copy hands out",
        )


@prop("copy.dead_jobs", decided="Copy")
async def dead_jobs(case: Case) -> None:
    """A copied dead job keeps its error, the time it died, its attempts, payload and stamps."""
    store = await case.store()
    queue = store.queue("work", STAMPS)
    await queue.enqueue({"n": 1}, EnqueueOpts(priority=3, headers={"h": "v"}))
    await (await claim(queue)).retry("once", 0)
    await case.advance(5)
    await (await claim(queue)).fail("broken\n'\"")
    await queue.enqueue({"n": 2}, EnqueueOpts(expires=0))
    await queue.sweep_expired()
    async with _elsewhere(case) as target:
        await copy_store(store, target)
        copied = await target.queue("work").dead_jobs()
        _ascending([job.id for job in copied], "ids")
        expect_equal(_unnumbered(copied), _unnumbered(await queue.dead_jobs()), "the dead jobs")
        first, second = copied
        expect_equal((first.last_error, first.attempts), ("broken\n'\"", 2), "error and attempts")
        expect_equal((first.died_at, first.state), (1_700_000_005, JobState.DEAD), "death")
        expect_equal((second.last_error, second.payload), ("expired", b'{"n":2}'), "the second")
        await target.queue("work").redrive(first.id)
        expect_equal((await claim(target.queue("work"))).job.payload, b'{"n":1}', "once redriven")


def _told(events: Sequence[StreamEvent]) -> list[tuple[str | None, bytes, object, int]]:
    return [(event.key, event.payload, event.headers, event.created_at) for event in events]


@prop("copy.events", decided="Copy")
async def events(case: Case) -> None:
    """Copied events keep key, payload, headers, time and order; what was trimmed is not there."""
    store = await case.store()
    orders = store.stream("orders")
    await orders.trim_to((await orders.publish_many(["trimmed", "too"]))[-1])
    await orders.publish_with_key("k", {"n": 1}, headers={"trace": "ü"})
    await store.stream("other").publish({"n": 2})
    await case.advance(7)
    await orders.publish_many([{"n": 3}, {"n": 4}])
    async with _elsewhere(case) as target:
        await copy_store(store, target)
        copied = await target.stream("orders").read_since(0, 10)
        _ascending([event.offset for event in copied], "offsets")
        expect_equal(
            _told(copied),
            [
                ("k", b'{"n":1}', {"trace": "ü"}, 1_700_000_000),
                (None, b'{"n":3}', None, 1_700_000_007),
                (None, b'{"n":4}', None, 1_700_000_007),
            ],
            "the copied events",
        )
        other = await target.stream("other").read_since(0, 10)
        expect_equal(_told(other), [(None, b'{"n":2}', None, 1_700_000_000)], "the other stream")
        following = await target.stream("orders").publish("new")
        expect(following > copied[-1].offset, "the next offset is above the copied ones")


@prop("copy.consumers", decided="Copy")
async def consumers(case: Case) -> None:
    """A consumer has the same unread events before and after, at the last one it had passed."""
    store = await case.store()
    orders = store.stream("orders")
    _, trimmed = await orders.publish_many(["trimmed", "too"])
    await orders.trim_to(trimmed)
    first = await orders.publish("first")
    await store.stream("other").publish("between")
    second = await orders.publish("second")
    saved = {
        "a new one": 0,
        "b trimmed": trimmed,
        "c first": first,
        "d second": second,
        "e beyond": second + 100,
    }
    for name, offset in saved.items():
        await orders.save_offset(name, offset)
    async with _elsewhere(case) as target:
        # Offsets that were given and forgotten, so that none is the old one by chance.
        burnt = target.stream("burnt")
        await burnt.trim_to((await burnt.publish_many(range(3)))[-1])
        await copy_store(store, target)
        stream = target.stream("orders")
        for name, offset in saved.items():
            before = await orders.read_since(offset, 10)
            after = await stream.read_from_consumer(name, 10)
            expect_equal(_told(after), _told(before), f"unread by {name!r}")
        copied = [event.offset for event in await stream.read_since(0, 10)]
        expect_equal(
            [await stream.get_offset(name) for name in saved],
            [0, 0, copied[0], copied[1], copied[1]],
            "where consumers stand",
        )


@prop("copy.schedules", decided="Copy")
async def schedules(case: Case) -> None:
    """Copied schedules are equal to the old ones, their next boundary included."""
    store = await case.store()
    opts = ScheduleOpts(priority=3, max_attempts=2, expires=50, headers={"h": "v"})
    await store.schedule("b", "@every 2m", "work", {"k": 1}, opts)
    await case.advance(30)
    await store.schedule("a", "@every 1d", "other", None)
    async with _elsewhere(case) as target:
        await copy_store(store, target)
        copied = await target.schedules()
        expect_equal(copied, await store.schedules(), "the copied schedules")
        second = copied[-1]
        expect_equal((second.name, second.next_fire_at), ("b", 1_700_000_120), "the next boundary")
        expect_equal((second.headers, second.expires), ({"h": "v"}, 50), "its options")


@prop("copy.claims_refused", decided="Copy")
async def claims_refused(case: Case) -> None:
    """While a job is under a live claim nothing is copied; once it lapsed or is settled, all is."""
    store = await case.store()
    queue = store.queue("work", STAMPS)
    await queue.enqueue("held")
    await claim(queue)
    await case.advance(40)
    async with _elsewhere(case) as target:
        with expect_raises(CopyRefused):
            await copy_store(store, target)
        expect_equal(await target.queues(), [], "queues of the target")
        await case.advance(1)
        expect_equal((await copy_store(store, target)).jobs, 1, "copied jobs after the lapse")


@prop("copy.target_refused", decided="Copy")
async def target_refused(case: Case) -> None:
    """A target that holds anything else is refused and stays as it is."""
    store = await case.store()
    await store.queue("work").enqueue("copied")
    async with _elsewhere(case) as target:
        await target.queue("theirs").enqueue("in use")
        with expect_raises(CopyRefused):
            await copy_store(store, target)
        expect_equal(await target.queues(), ["theirs"], "queues of the target")
        expect_equal(await target.schedules(), [], "schedules of the target")


class _HereError(Exception):
    """What interrupts a copy."""


def _interrupting(batches: int) -> Callable[[CopyProgress], None]:
    """Raise once so many batches have been copied."""
    copied = itertools.count(1)

    def progress(at: CopyProgress) -> None:
        if at.step == "copying" and next(copied) == batches:
            raise _HereError

    return progress


@prop("copy.resumed", decided="Copy")
async def resumed(case: Case) -> None:
    """A copy that was interrupted behind any batch goes on, and has nothing twice or missing."""
    store = await case.store()
    await store.queue("work").enqueue_many(range(4))
    await store.stream("orders").publish_many(range(4))
    await store.stream("orders").save_offset("consumer", 2)
    async with _elsewhere(case) as target:
        for batches in (1, 2, 1, 3, 1):
            with expect_raises(_HereError):
                await copy_store(store, target, progress=_interrupting(batches), batch=1)
        report = await copy_store(store, target, batch=1)
        expect(report.resumed, "the report says that it was resumed")
        copied = [job.payload for job in await target.queue("work").jobs()]
        expect_equal(copied, [b"0", b"1", b"2", b"3"], "the copied jobs")
        events = [event.payload for event in await target.stream("orders").read_since(0, 10)]
        expect_equal(events, [b"0", b"1", b"2", b"3"], "the copied events")
        unread = await target.stream("orders").read_from_consumer("consumer", 10)
        expect_equal([event.payload for event in unread], [b"2", b"3"], "unread")
        expect_equal(await target.schedules(), [], "schedules once it is whole")
