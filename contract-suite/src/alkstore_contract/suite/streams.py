"""Streams: what goes in, and in which order it stands there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_core import CodecError, InvalidName, StreamEvent

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("streams.publish.fields", decided="Streams/Publish")
async def publish_fields(case: Case) -> None:
    """An event comes back with its offset, stream, key, payload, headers and time of publishing."""
    store, other = await case.store(), await case.store()
    await case.advance(7)
    plain = await store.stream("log").publish({"n": 1, "é": [None, True]})
    keyed = await store.stream("log").publish_with_key("key", "text", {"trace": "abc"})
    expected = [
        StreamEvent(
            offset=plain,
            stream="log",
            key=None,
            payload='{"n":1,"é":[null,true]}'.encode(),
            headers=None,
            created_at=1_700_000_007,
        ),
        StreamEvent(
            offset=keyed,
            stream="log",
            key="key",
            payload=b'"text"',
            headers={"trace": "abc"},
            created_at=1_700_000_007,
        ),
    ]
    expect_equal(await other.stream("log").read_since(0, 10), expected, "what was published")


@prop("streams.publish.committed", decided="Streams/Publish")
async def publish_committed(case: Case) -> None:
    """When `publish` returns, every client can read the event."""
    store, other = await case.store(), await case.store()
    for number in range(5):
        writer, reader = (store, other) if number % 2 else (other, store)
        offset = await writer.stream("log").publish(number)
        (event,) = await reader.stream("log").read_since(offset - 1, 10)
        expect_equal((event.offset, event.payload), (offset, b"%d" % number), "the event")


@prop("streams.publish.many", decided="Store/Shape")
async def publish_many(case: Case) -> None:
    """`publish_many` stores its payloads in input order and gives their offsets in that order."""
    store = await case.store()
    payloads = [f"payload {(n * 7) % 50}" for n in range(50)]
    offsets = await store.stream("log").publish_many(payloads)
    events = await store.stream("log").read_since(0, 100)
    expect_equal([e.offset for e in events], offsets, "the offsets")
    expect_equal([e.payload_as(str) for e in events], payloads, "the payloads, by offset")
    expect_equal(await store.stream("log").publish_many([]), [], "the offsets of nothing")


@prop("streams.publish.many_whole", decided="Payloads", cases=(0, 1, 4))
async def publish_many_whole(case: Case, bad: int) -> None:
    """`publish_many` with one payload that is not JSON publishes none of them."""
    store = await case.store()
    payloads: list[Any] = [1, 2, 3, 4, 5]
    payloads[bad] = float("inf")
    with expect_raises(CodecError, f"payload {bad} of 5"):
        await store.stream("log").publish_many(payloads)
    expect_equal(await store.stream("log").read_since(0, 10), [], "events of the refused batch")


@prop(
    "streams.publish.key",
    decided="Streams/Publish",
    cases=("key", "Key", " key ", "ключ 🔑", "__alkstore_x", "a" * 255, "null", "None"),
)
async def publish_key(case: Case, key: str) -> None:
    """A key comes back exactly as it was given, and no key comes back as none."""
    store = await case.store()
    await store.stream("log").publish_with_key(key, 1)
    await store.stream("log").publish(2)
    events = await store.stream("log").read_since(0, 10)
    expect_equal([e.key for e in events], [key, None], "the keys")


@prop("streams.publish.key_refused", decided="Names", cases=("", " ", "a\0b", "\ud800", "a" * 256))
async def publish_key_refused(case: Case, key: str) -> None:
    """A key that breaks the rule for labels is refused with `InvalidName`; nothing is published."""
    store = await case.store()
    with expect_raises(InvalidName, "publish_with_key"):
        await store.stream("log").publish_with_key(key, 1)
    async with store.transaction() as tx:
        with expect_raises(InvalidName, "publish_with_key_tx"):
            await tx.publish_with_key_tx("log", key, 1)
    expect_equal(await store.stream("log").read_since(0, 10), [], "events of refused calls")


@prop("streams.offsets.ascending", decided="Streams/Publish")
async def offsets_ascending(case: Case) -> None:
    """Offsets of a stream are positive and ascend, whoever publishes and in whichever form."""
    store, other = await case.store(), await case.store()
    offsets = []
    for client in (store, other, store):
        stream = client.stream("log")
        offsets.append(await stream.publish(1))
        offsets += await stream.publish_many([1, 2])
        offsets.append(await stream.publish_with_key("key", 1))
        async with client.transaction() as tx:
            offsets.append(await tx.publish_tx("log", 1))
            offsets += await tx.publish_many_tx("log", [1, 2])
            offsets.append(await tx.publish_with_key_tx("log", "key", 1))
    expect_equal(offsets, sorted(set(offsets)), "offsets in the order of publishing")
    expect(offsets[0] > 0, "an unknown consumer stands at 0, so offsets begin above it")


@prop("streams.order", decided="Streams/Read")
async def order(case: Case) -> None:
    """Events are read in the order of publishing, whatever keys they have: one order per stream."""
    store, other = await case.store(), await case.store()
    published = []
    for number in range(12):
        stream = (store, other)[number % 2].stream("log")
        key = (None, "a", "b")[number % 3]
        if key is None:
            await stream.publish(number)
        else:
            await stream.publish_with_key(key, number)
        published.append((key, number))
    for client in (store, other):
        events = await client.stream("log").read_since(0, 100)
        expect_equal([(e.key, int(e.payload)) for e in events], published, "the order of reading")


@prop("streams.offsets.stay", decided="Streams/Publish")
async def offsets_stay(case: Case) -> None:
    """An event never changes: later publishes, saves, trims and readers leave it as it was."""
    store = await case.store()
    stream = store.stream("log")
    await stream.publish(0)
    kept = await stream.publish_with_key("key", 1)
    before = (await stream.read_since(kept - 1, 1))[0]
    await case.advance(1_000)
    await stream.publish_with_key("key", 2)
    await stream.save_offset("reader", kept)
    await stream.trim_to(kept - 1)
    async with stream.subscribe("other") as events:
        expect_equal(await events.recv(), before, "to a subscriber")
    expect_equal((await stream.read_since(0, 1))[0], before, "to a reader")


@prop("streams.apart", decided="Names", cases=("Log", "log ", "log2"))
async def apart(case: Case, name: str) -> None:
    """Streams of different names share neither events nor consumers."""
    store = await case.store()
    mine, theirs = store.stream("log"), store.stream(name)
    first = await mine.publish("mine")
    await theirs.publish("theirs")
    await mine.save_offset("reader", first)
    seen = [[e.payload for e in await s.read_since(0, 10)] for s in (mine, theirs)]
    expect_equal(seen, [[b'"mine"'], [b'"theirs"']], "the events of each")
    expect_equal(await theirs.get_offset("reader"), 0, "the consumer in the other stream")
    await theirs.trim_to(2**63 - 1)
    expect_equal(len(await mine.read_since(0, 10)), 1, "events after the other one was trimmed")


@prop("streams.concurrent", decided="Streams/Publish")
async def concurrent(case: Case) -> None:
    """Publishers at the same time get different offsets, and each keeps its own order."""
    store, other = await case.store(), await case.store()

    async def publish(who: int) -> list[int]:
        stream = (store, other)[who % 2].stream("log")
        return [await stream.publish([who, number]) for number in range(10)]

    offsets = await asyncio.gather(*(publish(who) for who in range(6)))
    every = [offset for own in offsets for offset in own]
    expect_equal(len(set(every)), 60, "different offsets")
    events = await store.stream("log").read_since(0, 100)
    expect_equal([e.offset for e in events], sorted(every), "what is read")
    for who, own in enumerate(offsets):
        numbers = [e.payload_as(list)[1] for e in events if e.payload_as(list)[0] == who]
        expect_equal(numbers, list(range(10)), f"the order of publisher {who}")
        expect_equal(own, sorted(own), f"the offsets of publisher {who}")


@prop("streams.bounds", decided="Store/Inspection")
async def bounds(case: Case) -> None:
    """`bounds` tells the first and last stored offset and the number of events, or zeros."""
    store = await case.store()
    stream = store.stream("log")
    empty = await stream.bounds()
    expect_equal((empty.first, empty.last, empty.count), (0, 0, 0), "an empty stream")
    offsets = await stream.publish_many([1, 2, 3])
    await store.stream("other").publish(1)
    full = await stream.bounds()
    expect_equal((full.first, full.last, full.count), (offsets[0], offsets[2], 3), "three events")
    await stream.trim_to(offsets[0])
    rest = await stream.bounds()
    expect_equal((rest.first, rest.last, rest.count), (offsets[1], offsets[2], 2), "after a trim")


@prop("streams.listed", decided="Store/Inspection")
async def listed(case: Case) -> None:
    """`streams` names what holds an event or a consumer's offset, sorted, and nothing else."""
    store, other = await case.store(), await case.store()
    await store.stream("b").publish(1)
    await store.stream("a").save_offset("reader", 1)
    await store.queue("c").enqueue(1)
    await store.stream("d").get_offset("reader")
    await store.stream("e").read_since(0, 10)
    expect_equal(await other.streams(), ["a", "b"], "the streams")
