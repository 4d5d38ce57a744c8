"""Names are kept as given, and one name may stand for several things; labels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, expect_silent, job_of, lock
from alkstore_core import InvalidName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Store

_BAD_LABELS: tuple[Any, ...] = ("", " \t", "a\0b", "\ud800", "l" * 256, None, 7)
_LABELS = (" padded ", "__alkstore_x", "ÅSTRÖM", "語" * 84, "a'b\"c;--", "%_\\")


async def _all_apart(store: Store, *names: str) -> None:
    """Each name has a job, an event, a schedule, a message and a lock of its own."""
    for number, name in enumerate(names):
        await store.queue(name).enqueue(number)
        await store.outbox(name).enqueue(number)
        await store.stream(name).publish(number)
        await store.schedule(name, "@every 1s", name, number)
        await lock(store, name, f"owner {number}")
    for number, name in enumerate(names):
        jobs = await store.queue(name).jobs()
        told = [(job.queue, job.payload_as(int)) for job in jobs]
        expect_equal(told, [(name, number)], f"the jobs of the queue {name!r}")
        messages = [job.payload_as(int) for job in await store.outbox(name).backing.jobs()]
        expect_equal(messages, [number], f"the messages of the outbox {name!r}")
        events = await store.stream(name).read_since(0, 10)
        heard = [(event.stream, event.payload_as(int)) for event in events]
        expect_equal(heard, [(name, number)], f"the events of the stream {name!r}")
    by_name = {name: number for number, name in enumerate(names)}
    plans = {plan.name: int(plan.payload) for plan in await store.schedules()}
    expect_equal(plans, by_name, "the schedules")
    owners = {held.name: held.owner for held in await store.locks()}
    expect_equal(owners, {name: f"owner {by_name[name]}" for name in names}, "the locks")


@prop("names.untrimmed", decided="Names")
async def untrimmed(case: Case) -> None:
    """Names are not trimmed: space around a name makes it another one."""
    await _all_apart(await case.store(), "work", " work", "work ", "work\n", "wo rk")


@prop("names.case", decided="Names")
async def case_counts(case: Case) -> None:
    """The case of a name counts, beyond ASCII too."""
    await _all_apart(await case.store(), "work", "Work", "WORK", "éclair", "Éclair")


@prop("names.unicode", decided="Names")
async def any_unicode(case: Case) -> None:
    """Any Unicode is legal in a name and none of it is normalised."""
    await _all_apart(
        await case.store(),
        "caf\u00e9",
        "cafe\u0301",
        "仕事",
        "😀",
        "\u200b",
        "a'b\"",
        "%",
        "_",
        "\\",
    )


@prop("names.longest", decided="Names", cases=("n" * 255, "語" * 85, "😀" * 63 + "abc"))
async def longest(case: Case, name: str) -> None:
    """A name of exactly 255 bytes of UTF-8 is legal for everything, and differs to its end."""
    await _all_apart(await case.store(), name, name[:-1] + "z")


@prop("names.longest_channel", decided="Notify", cases=("n" * 255, "語" * 85))
async def longest_channel(case: Case, name: str) -> None:
    """A channel of 255 bytes is listened to by its own name, to its last character."""
    store = await case.store()
    async with store.listen(name) as receiver, store.listen(name[:-1] + "z") as other:
        await store.notify(name[:-1] + "z", None)
        await store.notify(name, None)
        wake = await receiver.recv()
        expect_equal(wake and wake.channel, name, "the wake's channel")
        wake = await other.recv()
        expect_equal(wake and wake.channel, name[:-1] + "z", "the other wake's channel")


@prop("names.kinds", decided="Names")
async def kinds(case: Case) -> None:
    """A queue, an outbox, a stream, a schedule and a lock of one name are five things."""
    store = await case.store()
    await store.queue("x").enqueue("job")
    expect_equal(await store.outboxes(), [], "the outboxes beside a queue")
    expect_equal(await store.streams(), [], "the streams beside a queue")
    expect_equal(await store.outbox("x").run_once("worker", _never), False, "a delivery")
    await store.outbox("x").enqueue("message")
    await store.stream("x").publish("event")
    await store.schedule("x", "@every 1s", "y", None)
    await lock(store, "x", "owner")
    expect_equal(await store.unschedule("x"), True, "unschedule")
    expect_equal([held.name for held in await store.locks()], ["x"], "the locks")
    handle = await claim(store.queue("x"))
    expect_equal(handle.job.payload, b'"job"', "the queue's job")
    expect_equal(await store.queue("x").claim_one("worker"), None, "a second job")
    events = await store.stream("x").read_since(0, 10)
    expect_equal([event.payload for event in events], [b'"event"'], "the stream's events")


async def _never(_: object) -> None:
    raise RuntimeError("there is nothing to deliver")


@prop("names.kinds_wake", decided="Names")
async def kinds_wake(case: Case) -> None:
    """A channel's receivers are not woken by the queue or the stream of that name."""
    store = await case.store()
    async with store.listen("x") as receiver, store.queue("x").wakes() as jobs:
        await store.queue("x").enqueue(None)
        await store.stream("x").publish(None)
        wake = await jobs.recv()
        expect_equal(wake and wake.channel, "x", "the queue's own wake")
        heard = asyncio.create_task(receiver.recv())
        await expect_silent(store, heard, "listen('x') woke without a notify of channel 'x'")
        await store.notify("x", None)
        wake = await heard
        expect_equal(wake and wake.channel, "x", "the channel's own wake")


@prop("names.labels", decided="Names", cases=_BAD_LABELS)
async def labels(case: Case, label: Any) -> None:
    """Worker ids, owners, consumers and keys obey the rule of `InvalidName`."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    job_id = await queue.enqueue(None)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "claim_one": lambda: queue.claim_one(label),
        "claim_batch": lambda: queue.claim_batch(label, 1),
        "ack_batch": lambda: queue.ack_batch([job_id], label),
        "run_once": lambda: store.outbox("mail").run_once(label, _never),
        "try_lock": lambda: store.try_lock("lock", label, 10),
        "read_from_consumer": lambda: stream.read_from_consumer(label, 1),
        "save_offset": lambda: stream.save_offset(label, 1),
        "get_offset": lambda: stream.get_offset(label),
        "subscribe": lambda: stream.subscribe(label),
    }
    if label is not None:
        calls["publish_with_key"] = lambda: stream.publish_with_key(label, None)
    for what, call in calls.items():
        with expect_raises(InvalidName, f"{what} with {label!r}"):
            await call()
    async with store.transaction() as tx:
        with expect_raises(InvalidName, f"save_offset_tx with {label!r}"):
            await tx.save_offset_tx("log", label, 1)
        with expect_raises(InvalidName, f"get_offset_tx with {label!r}"):
            await tx.get_offset_tx("log", label)
        with expect_raises(InvalidName, f"read_from_consumer_tx with {label!r}"):
            await tx.read_from_consumer_tx("log", label, 1)
        with expect_raises(InvalidName, f"publish_with_key_tx with {label!r}"):
            await tx.publish_with_key_tx("log", label, None)
    expect_equal((await stream.bounds()).count, 0, "the events that were published")
    expect_equal(await stream.consumers(), [], "the consumers that were saved")
    expect_equal((await queue.stats()).ready, 1, "the jobs that stayed ready")


@prop("names.labels_kept", decided="Names", cases=_LABELS)
async def labels_kept(case: Case, label: str) -> None:
    """Labels are kept as given, also under the reserved prefix, untrimmed and in any script."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    job_id = await queue.enqueue(None)
    expect_equal((await claim(queue, label)).job.worker_id, label, "the claimed job's worker id")
    expect_equal((await job_of(queue, job_id)).worker_id, label, "the stored worker id")
    expect_equal(await queue.ack_batch([job_id], label), 1, "the jobs acked by that worker")
    expect_equal((await lock(store, "lock", label)).owner, label, "the lock's owner")
    expect_equal([held.owner for held in await store.locks()], [label], "the listed owner")
    await stream.publish_with_key(label, None)
    (event,) = await stream.read_since(0, 10)
    expect_equal(event.key, label, "the event's key")
    await stream.save_offset(label, event.offset)
    await stream.save_offset(label + "x", 1)
    expect_equal(await stream.get_offset(label), event.offset, "the consumer's offset")
    consumers = {position.consumer for position in await stream.consumers()}
    expect_equal(consumers, {label, label + "x"}, "the consumers")
