"""Trimming streams: what goes, what stays, and where readers go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import StreamHandle

MAX = 2**63 - 1


async def _offsets(stream: StreamHandle) -> list[int]:
    return [event.offset for event in await stream.read_since(0, 5_000)]


@prop("streams.trim.boundary", decided="Streams/Trim")
async def boundary(case: Case) -> None:
    """`trim_to` deletes exactly the events up to and including its horizon, and counts them."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many(list(range(6)))
    expect_equal(await stream.trim_to(offsets[1]), 2, "deleted up to the second")
    expect_equal(await _offsets(stream), offsets[2:], "what is left")
    expect_equal(await stream.trim_to(offsets[1]), 0, "deleted by the same trim again")
    expect_equal(await stream.trim_to(offsets[2] - 1), 0, "deleted just below the next one")
    expect_equal(await stream.trim_to(offsets[2]), 1, "deleted up to the next one")
    expect_equal(await _offsets(stream), offsets[3:], "what is left in the end")


@prop("streams.trim.rest", decided="Streams/Trim")
async def rest(case: Case) -> None:
    """Events above the horizon are untouched: offset, key, payload, headers and time."""
    store = await case.store()
    stream = store.stream("log")
    first = await stream.publish(1)
    await stream.publish_with_key("key", "two", {"a": "b"})
    await stream.publish("three")
    before = await stream.read_since(first, 10)
    await case.advance(50)
    await stream.trim_to(first)
    expect_equal(await stream.read_since(0, 10), before, "what is left")


@prop("streams.trim.negative", decided="Numbers", cases=(0, -1, -(2**63)))
async def negative(case: Case, horizon: int) -> None:
    """A horizon below every event deletes nothing, however often it is given."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    for _ in range(2):
        expect_equal(await stream.trim_to(horizon), 0, f"deleted up to {horizon}")
    expect_equal(await _offsets(stream), offsets, "what is left")


@prop("streams.trim.huge", decided="Numbers")
async def huge(case: Case) -> None:
    """A horizon beyond the last event deletes all of them, and no later one."""
    stream = (await case.store()).stream("log")
    await stream.publish_many([1, 2, 3])
    expect_equal(await stream.trim_to(MAX), 3, "deleted")
    expect_equal(await stream.trim_to(MAX), 0, "deleted from an empty stream")
    later = await stream.publish(4)
    expect_equal(await _offsets(stream), [later], "what was published after the trim")


@prop("streams.trim.many", decided="Queues/Batches")
async def many(case: Case) -> None:
    """A trim of thousands of events deletes all of them in one call and counts them all."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many(list(range(2_500)))
    expect_equal(await stream.trim_to(offsets[2_299]), 2_300, "deleted")
    expect_equal(await _offsets(stream), offsets[2_300:], "what is left")


@prop("streams.trim.resume", decided="Streams/Trim")
async def resume(case: Case) -> None:
    """A read from a trimmed-away place goes on at the first event that is left."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many(list(range(6)))
    await stream.save_offset("reader", offsets[1])
    await stream.trim_to(offsets[3])
    for start in (0, offsets[0], offsets[1], offsets[3]):
        seen = [event.offset for event in await stream.read_since(start, 10)]
        expect_equal(seen, offsets[4:], f"since {start}")
    expect_equal(await stream.get_offset("reader"), offsets[1], "the saved offset stays valid")
    seen = [event.offset for event in await stream.read_from_consumer("reader", 10)]
    expect_equal(seen, offsets[4:], "to the consumer")


@prop("streams.trim.never_reused", decided="Streams/Publish")
async def never_reused(case: Case) -> None:
    """Offsets of trimmed events are never given again, not even after all stores were closed."""
    async with case.unopened() as store:
        last = (await store.stream("log").publish_many([1, 2, 3]))[-1]
        await store.stream("log").trim_to(MAX)
        after = await store.stream("log").publish(4)
        expect(after > last, f"offset {after} was given after {last}")
        await store.stream("log").trim_to(MAX)
    async with case.unopened() as store:
        later = await store.stream("log").publish(5)
        expect(later > after, f"offset {later} was given after {after} and a reopening")


@prop("streams.trim.subscriber", decided="Streams/Trim")
async def subscriber(case: Case) -> None:
    """A subscriber does not lose its place when the stream is trimmed in front of it or behind."""
    store, other = await case.store(), await case.store()
    stream = other.stream("log")
    offsets = await stream.publish_many(list(range(4)))
    async with store.stream("log").subscribe("reader") as events:
        event = await events.recv()
        expect_equal(event and event.offset, offsets[0], "the first event")
        await stream.trim_to(offsets[0])
        more = await stream.publish_many([4, 5])
        seen: list[int] = []
        while not seen or seen[-1] < more[-1]:
            event = await events.recv()
            seen.append(event.offset if event is not None else MAX)
        expect_equal(seen, [*offsets[1:], *more], "behind it: every later event")
        await stream.trim_to(MAX)
        last = await stream.publish(6)
        event = await events.recv()
        expect_equal(event and event.offset, last, "all of it: the next event")


@prop("streams.trim.nothing_else", decided="Streams/Trim")
async def nothing_else(case: Case) -> None:
    """Nothing but a trim deletes events: neither reading, nor saving, nor years."""
    store = await case.store()
    stream = store.stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    await stream.read_since(0, 10)
    async with stream.subscribe("reader") as events:
        async for event in events:
            await events.save_offset()
            if event.offset == offsets[-1]:
                break
    await case.advance(10 * 365 * 86_400)
    await store.stream("log").publish(4)
    expect_equal((await _offsets(stream))[:3], offsets, "the events")


@prop("streams.trim.open_tx", decided="Transactions/One transaction")
async def open_tx(case: Case) -> None:
    """What a transaction is about to publish lies beyond every trim before its commit."""
    store, other = await case.store(), await case.store()
    before = await other.stream("log").publish(0)
    async with store.begin_tx() as tx:
        own = await tx.publish_tx("log", 1)
        if not case.facts.single_writer:
            expect_equal(await other.stream("log").trim_to(MAX), 1, "deleted meanwhile")
        await tx.commit()
    if case.facts.single_writer:
        expect_equal(await other.stream("log").trim_to(before), 1, "deleted after the commit")
    expect_equal(await _offsets(other.stream("log")), [own], "what is left")
