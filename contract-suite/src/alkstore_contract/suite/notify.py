"""Signals: when they come, to whom, and what they may carry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.pending import end, expect_no_wake, expect_waiting
from alkstore_contract.properties import prop
from alkstore_core import CodecError, PayloadTooLarge, Wake

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("notify.wakes", decided="Notify")
async def wakes(case: Case) -> None:
    """A listener wakes after a notify on its channel, through the same client and another one."""
    store, other = await case.store(), await case.store()
    async with store.listen("news") as near, other.listen("news") as far:
        await store.notify("news", {"id": 1})
        for receiver in (near, far):
            expect_equal(await receiver.recv(), Wake(channel="news"), "the wake")


@prop(
    "notify.channel",
    decided="Notify",
    cases=("news", "News", " news ", "канал 📰", "a" * 63, "a" * 64, "é" * 127, "a.b/c:d'e\"f"),
)
async def channel(case: Case, name: str) -> None:
    """A wake says exactly the channel that was listened to, however the engine calls it."""
    store, other = await case.store(), await case.store()
    async with other.listen(name) as receiver:
        await store.notify(name)
        expect_equal(await receiver.recv(), Wake(channel=name), "the wake")


@prop("notify.other_channel", decided="Notify", cases=("News", "news ", "new", "news2", "a" * 255))
async def other_channel(case: Case, name: str) -> None:
    """A notify on one channel wakes no listener of another, however alike the names are."""
    store, other = await case.store(), await case.store()
    listened = "a" * 254 if name == "a" * 255 else "news"
    async with other.listen(listened) as receiver:
        await store.notify(name)
        await expect_no_wake(receiver, other, store, f"{name!r} woke a listener of {listened!r}")
        await store.notify(listened)
        expect_equal(await receiver.recv(), Wake(channel=listened), "its own channel")


@prop("notify.from_now", decided="Notify")
async def from_now(case: Case) -> None:
    """A listener that attaches after a notify never sees it."""
    store, other = await case.store(), await case.store()
    await store.notify("news")
    async with store.listen("news") as near, other.listen("news") as far:
        await expect_no_wake(near, store, store, "an earlier signal of the same client")
        await expect_no_wake(far, other, store, "an earlier signal of another client")


@prop("notify.no_replay", decided="Notify")
async def no_replay(case: Case) -> None:
    """What a closed listener did not read is not kept for the next one."""
    store, other = await case.store(), await case.store()
    async with other.listen("news"):
        await store.notify("news")
    async with other.listen("news") as receiver:
        await expect_no_wake(receiver, other, store, "a signal from before the listener")


@prop("notify.tx.commit", decided="Notify")
async def tx_commit(case: Case) -> None:
    """`notify_tx` wakes listeners after the commit and not before it."""
    store, other = await case.store(), await case.store()
    async with store.listen("news") as near, other.listen("news") as far:
        waiting = [asyncio.ensure_future(receiver.recv()) for receiver in (near, far)]
        tx = await store.begin_tx()
        await tx.notify_tx("news", 1)
        # Real work elsewhere: time enough for a signal that came too early.
        await other.stream("log").read_since(0, 1)
        for task in waiting:
            await expect_waiting(task, "a wake came before the commit")
        await tx.commit()
        for task in waiting:
            expect_equal(await task, Wake(channel="news"), "the wake")


@prop("notify.tx.rollback", decided="Notify")
async def tx_rollback(case: Case) -> None:
    """A `notify_tx` that was rolled back wakes nobody."""
    store, other = await case.store(), await case.store()
    async with store.listen("news") as near, other.listen("news") as far:
        tx = await store.begin_tx()
        await tx.notify_tx("news", 1)
        await tx.rollback()
        await expect_no_wake(near, store, store, "a rolled-back signal woke its own client")
        await expect_no_wake(far, other, store, "a rolled-back signal woke another client")


@prop("notify.readable", decided="Notify")
async def readable(case: Case) -> None:
    """When a wake comes, what it announces can be read by whoever got it."""
    store, other = await case.store(), await case.store()
    for client in (store, other):
        for number in range(5):
            async with client.listen("news") as receiver:

                async def look() -> int:
                    await receiver.recv()
                    return len(await client.stream("log").read_since(0, 100))  # noqa: B023

                await client.stream("log").trim_to(2**63 - 1)
                looking = asyncio.ensure_future(look())
                async with store.transaction() as tx:
                    await tx.notify_tx("news", number)
                    await tx.publish_tx("log", number)
                    await other.stream("log").read_since(0, 1)
                expect_equal(await looking, 1, "events that the woken reader saw")


@prop("notify.none_missed", decided="Notify")
async def none_missed(case: Case) -> None:
    """A listener that reads again at each wake has in the end seen every commit."""
    store, other = await case.store(), await case.store()
    commits = 40

    async def write() -> None:
        for number in range(commits):
            async with store.transaction() as tx:
                await tx.publish_tx("log", number)
                await tx.notify_tx("news", number)

    async with other.listen("news") as receiver:
        writing = asyncio.ensure_future(write())
        seen = 0
        while seen < commits:
            await receiver.recv()
            seen = len(await other.stream("log").read_since(0, 100))
        await writing


@prop("notify.two", decided="Store/Receivers")
async def two(case: Case) -> None:
    """Two listeners of one channel both wake, also when one of them is slow."""
    store = await case.store()
    async with store.listen("news") as quick, store.listen("news") as slow:
        for number in range(3):
            await store.notify("news", number)
            expect_equal(await quick.recv(), Wake(channel="news"), "the one that reads at once")
        expect_equal(await slow.recv(), Wake(channel="news"), "the one that reads late")


@prop("notify.apart", decided="Names")
async def apart(case: Case) -> None:
    """A channel, a queue and a stream of one name do not wake each other's receivers."""
    store, other = await case.store(), await case.store()
    async with other.listen("x") as receiver:
        await store.queue("x").enqueue(1)
        await store.stream("x").publish(1)
        await store.outbox("x").enqueue(1)
        await expect_no_wake(receiver, other, store, "a queue or stream woke a channel's listener")
    async with other.stream("x").subscribe("reader") as events:
        await events.recv()
        waiting = asyncio.ensure_future(events.recv())
        await store.notify("x")
        async with other.listen("marker") as marker:
            await store.notify("marker")
            await marker.recv()
        await expect_waiting(waiting, "a notify gave a stream's subscriber an event")
        await end(waiting)


@prop("notify.payload.limit", decided="Notify", cases=("x", "é", "📰"))
async def payload_limit(case: Case, letter: str) -> None:
    """A payload is measured in bytes of its encoded form, and up to the engine's limit it is sent.

    One byte more is refused, with the limit and the size; an engine without a limit sends it.
    """
    store, other = await case.store(), await case.store()
    limit = case.facts.notify_limit
    room = (200_000 if limit is None else limit) - 2
    filled = letter * (room // len(letter.encode()))
    fits = filled + "x" * (room - len(filled.encode()))
    async with other.listen("news") as receiver:
        await store.notify("news", fits)
        expect_equal(await receiver.recv(), Wake(channel="news"), "of the largest payload")
        if limit is None:
            await store.notify("news", fits + fits)
            expect_equal(await receiver.recv(), Wake(channel="news"), "twice as large")
        else:
            # A new listener: an earlier wake may come twice.
            async with other.listen("news") as fresh:
                with expect_raises(PayloadTooLarge, "one byte more than the limit") as raised:
                    await store.notify("news", fits + "x")
                error = raised.error
                numbers = isinstance(error, PayloadTooLarge) and (error.limit, error.size)
                expect_equal(numbers, (limit, limit + 1), "limit and size in the error")
                await expect_no_wake(fresh, other, store, "a refused notify woke a listener")


@prop("notify.payload.tx", decided="Errors")
async def payload_tx(case: Case) -> None:
    """A payload beyond the limit is refused in a transaction, too, which stays usable.

    Without a limit it is carried, and the commit wakes.
    """
    store, other = await case.store(), await case.store()
    limit = case.facts.notify_limit
    async with other.listen("news") as receiver:
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", "before")
            if limit is None:
                await tx.notify_tx("news", "x" * 500_000)
            else:
                with expect_raises(PayloadTooLarge):
                    await tx.notify_tx("news", "x" * limit)
            await tx.enqueue_tx("work", "after")
        if limit is None:
            expect_equal(await receiver.recv(), Wake(channel="news"), "after the commit")
        else:
            await expect_no_wake(receiver, other, store, "a refused notify_tx woke a listener")
    expect_equal(len(await other.queue("work").jobs()), 2, "jobs around the large payload")


@prop("notify.payload.codec", decided="Payloads", cases=({1}, float("nan"), b"x", {1: 2}))
async def payload_codec(case: Case, payload: object) -> None:
    """A payload that is not JSON is refused, although it would go nowhere, and wakes nobody."""
    store, other = await case.store(), await case.store()
    async with other.listen("news") as receiver:
        with expect_raises(CodecError, "notify"):
            await store.notify("news", payload)
        async with store.transaction() as tx:
            with expect_raises(CodecError, "notify_tx"):
                await tx.notify_tx("news", payload)
        await expect_no_wake(receiver, other, store, "a refused notify woke a listener")


@prop("notify.many_channels", decided="Notify")
async def many_channels(case: Case) -> None:
    """Many channels of one client are told apart, and one transaction may signal several."""
    store, other = await case.store(), await case.store()
    names = [f"channel {number}" for number in range(12)]
    receivers = [await other.listen(name) for name in names]
    async with store.transaction() as tx:
        for name in names[::2]:
            await tx.notify_tx(name)
    for name, receiver in zip(names[::2], receivers[::2], strict=True):
        expect_equal(await receiver.recv(), Wake(channel=name), "a channel that was signalled")
    for receiver in receivers[1::2]:
        await expect_no_wake(receiver, other, store, "a channel that was not signalled")
