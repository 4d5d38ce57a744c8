"""Subscriptions: replay, live events, and the place that a consumer comes back to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.pending import expect_waiting
from alkstore_contract.properties import prop

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import EventReceiver


async def _offsets(events: EventReceiver, count: int) -> list[int | None]:
    given = [await events.recv() for _ in range(count)]
    return [None if event is None else event.offset for event in given]


@prop("streams.subscribe.replay", decided="Streams/Subscribe", cases=(1, 99, 100, 101, 250))
async def replay(case: Case, count: int) -> None:
    """A subscriber first gets all that is stored, the same events that a reader gets."""
    store, other = await case.store(), await case.store()
    await store.stream("log").publish_many(list(range(count)))
    expected = await store.stream("log").read_since(0, 1_000)
    async with other.stream("log").subscribe("reader") as events:
        given = [await events.recv() for _ in range(count)]
        expect_equal(given, expected, "the replay")
        more = asyncio.ensure_future(events.recv())
        await expect_waiting(more, "an event was given twice")


@prop("streams.subscribe.live", decided="Streams/Subscribe")
async def live(case: Case) -> None:
    """A subscriber that waits gets what is published later, from whichever client."""
    store, other = await case.store(), await case.store()
    async with store.stream("log").subscribe("reader") as events:
        for client in (store, other, store, other):
            waiting = asyncio.ensure_future(events.recv())
            await expect_waiting(waiting, "there is nothing to be given yet")
            offset = await client.stream("log").publish("event")
            event = await waiting
            expect_equal(event and event.offset, offset, "the event it waited for")


@prop("streams.subscribe.tx", decided="Transactions/One transaction")
async def tx(case: Case) -> None:
    """A subscriber gets what a transaction published after its commit; rolled back, never."""
    store, other = await case.store(), await case.store()
    async with other.stream("log").subscribe("reader") as events:
        waiting = asyncio.ensure_future(events.recv())
        async with store.begin_tx() as undone:
            await undone.publish_tx("log", "never")
        async with store.begin_tx() as kept:
            offsets: list[int | None] = list(await kept.publish_many_tx("log", [1, 2]))
            await other.stream("log").read_since(0, 1)
            await expect_waiting(waiting, "an event was given before its commit")
            await kept.commit()
        event = await waiting
        given = [event and event.offset, *await _offsets(events, 1)]
        expect_equal(given, offsets, "what the subscriber was given")


@prop("streams.subscribe.resume", decided="Streams/Subscribe")
async def resume(case: Case) -> None:
    """A new subscription goes on behind the saved offset; what was not saved comes again."""
    store, other = await case.store(), await case.store()
    offsets = await store.stream("log").publish_many([1, 2, 3, 4])
    async with store.stream("log").subscribe("reader") as events:
        expect_equal(await _offsets(events, 2), offsets[:2], "the first subscription")
        await events.save_offset()
        expect_equal(await _offsets(events, 1), offsets[2:3], "one more, not saved")
    for client in (store, other):
        async with client.stream("log").subscribe("reader") as events:
            expect_equal(await _offsets(events, 2), offsets[2:], "the next subscription")


@prop("streams.subscribe.attaching", decided="Streams/Subscribe", cases=(0, 1, 2, 4, 8, 16))
async def attaching(case: Case, started: int) -> None:
    """An event that is published while a subscriber attaches is not lost."""
    store, other = await case.store(), await case.store()
    for number in range(3):
        attach = asyncio.ensure_future(_subscribed(other.stream("log").subscribe(f"r{number}")))
        for _ in range(started):
            await asyncio.sleep(0)
        await store.stream("log").publish(number)
        async with await attach as events:
            given = [await events.recv() for _ in range(number + 1)]
        numbers = [event and int(event.payload) for event in given]
        expect_equal(numbers, list(range(number + 1)), "what the subscriber was given")


async def _subscribed(attach: object) -> EventReceiver:
    return await attach  # type: ignore[misc, no-any-return]


@prop("streams.subscribe.reading", decided="Streams/Subscribe", cases=(0, 1, 2, 3, 4, 6, 9))
async def reading(case: Case, started: int) -> None:
    """An event that is published while a subscriber reads its way to the end is not lost."""
    store, other = await case.store(), await case.store()
    expected = await store.stream("log").publish_many([1, 2])
    for number in range(3):
        async with other.stream("log").subscribe(f"reader {number}") as events:
            given = asyncio.ensure_future(_offsets(events, len(expected) + 1))
            for _ in range(started):
                await asyncio.sleep(0)
            expected.append(await store.stream("log").publish(number))
            expect_equal(await given, expected, "what the subscriber was given")


@prop("streams.subscribe.two", decided="Store/Receivers")
async def two(case: Case) -> None:
    """Two subscriptions of one consumer each get every event: they do not share the work."""
    store = await case.store()
    stream = store.stream("log")
    before = await stream.publish_many([1, 2])
    async with stream.subscribe("reader") as first, stream.subscribe("reader") as second:
        expect_equal(await _offsets(first, 2), before, "the replay of the first")
        after = await stream.publish(3)
        expect_equal(await _offsets(first, 1), [after], "the live event of the first")
        expect_equal(await _offsets(second, 3), [*before, after], "everything of the second")


@prop("streams.save.receiver", decided="Streams/Subscribe")
async def save_receiver(case: Case) -> None:
    """A receiver saves the offset of the event that it gave last, and nothing before the first."""
    store = await case.store()
    stream = store.stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    async with stream.subscribe("reader") as events:
        await events.save_offset()
        expect_equal(await stream.consumers(), [], "consumers, after a save before any event")
        for offset in offsets:
            await events.recv()
            expect(await stream.get_offset("reader") < offset, "recv saved the offset by itself")
            await events.save_offset()
            expect_equal(await stream.get_offset("reader"), offset, "after its save_offset")


@prop("streams.save.interleaved", decided="Streams/Offsets of consumers")
async def save_interleaved(case: Case) -> None:
    """Saves of a receiver, of a stream and of a transaction never set one another back."""
    store, other = await case.store(), await case.store()
    stream = store.stream("log")
    offsets = await stream.publish_many([1, 2, 3, 4])
    async with stream.subscribe("reader") as events:
        await events.recv()
        await events.save_offset()
        await other.stream("log").save_offset("reader", offsets[2])
        await events.recv()
        await events.save_offset()
        expect_equal(await stream.get_offset("reader"), offsets[2], "the receiver behind")
        async with other.transaction() as transaction:
            await transaction.save_offset_tx("log", "reader", offsets[1])
        expect_equal(await stream.get_offset("reader"), offsets[2], "a transaction behind")
        await events.recv()
        await events.recv()
        await events.save_offset()
        expect_equal(await stream.get_offset("reader"), offsets[3], "the receiver ahead")
        await stream.save_offset("reader", offsets[0])
        expect_equal(await stream.get_offset("reader"), offsets[3], "the stream behind")


@prop("streams.subscribe.own_place", decided="Streams/Subscribe")
async def own_place(case: Case) -> None:
    """A subscription under way keeps its own place, whatever is saved for its consumer."""
    store = await case.store()
    stream = store.stream("log")
    offsets = await stream.publish_many([1, 2])
    async with stream.subscribe("reader") as events:
        expect_equal(await _offsets(events, 1), offsets[:1], "the first event")
        await stream.save_offset("reader", 2**63 - 1)
        later = await stream.publish(3)
        expect_equal(await _offsets(events, 2), [offsets[1], later], "the next events")
