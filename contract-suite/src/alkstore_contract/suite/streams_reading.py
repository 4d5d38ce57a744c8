"""Reading streams: from where, how much, and how far each consumer has come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_core import ConsumerPosition, InvalidName

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import StreamHandle

MAX = 2**63 - 1
MIN = -(2**63)


async def _offsets(stream: StreamHandle, after: int, limit: int = 100) -> list[int]:
    return [event.offset for event in await stream.read_since(after, limit)]


@prop("streams.read.after", decided="Streams/Read")
async def read_after(case: Case) -> None:
    """`read_since` gives strictly greater offsets, ascending."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many(list(range(6)))
    for position, offset in enumerate(offsets):
        expect_equal(await _offsets(stream, offset), offsets[position + 1 :], f"since {offset}")
        expect_equal(await _offsets(stream, offset - 1, 1), [offset], f"since {offset - 1}")


@prop("streams.read.total", decided="Numbers")
async def read_total(case: Case) -> None:
    """Any offset can be read from: below the first event everything comes, above the last none."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    for start in (0, -1, MIN):
        expect_equal(await _offsets(stream, start), offsets, f"since {start}")
    for start in (offsets[-1], offsets[-1] + 1, MAX):
        expect_equal(await _offsets(stream, start), [], f"since {start}")


@prop(
    "streams.read.limit",
    decided="Numbers",
    cases=((1, 1), (4, 4), (5, 5), (6, 5), (MAX, 5), (0, 0), (-1, 0), (MIN, 0)),
)
async def read_limit(case: Case, given: tuple[int, int]) -> None:
    """At most `limit` events come, the earliest ones; none for a limit of 0 or less."""
    limit, count = given
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2, 3, 4, 5])
    expect_equal(await _offsets(stream, 0, limit), offsets[:count], f"limit {limit}")


@prop("streams.consumer.limit", decided="Numbers", cases=((2, 2), (MAX, 3), (0, 0), (-1, 0)))
async def consumer_limit(case: Case, given: tuple[int, int]) -> None:
    """A consumer's read gives at most `limit` events as well; none for a limit of 0 or less."""
    limit, count = given
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    seen = [event.offset for event in await stream.read_from_consumer("reader", limit)]
    expect_equal(seen, offsets[:count], f"limit {limit}")


@prop("streams.consumer.unknown", decided="Streams/Read")
async def consumer_unknown(case: Case) -> None:
    """A consumer that never saved an offset stands at 0 and reads everything."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2, 3])
    expect_equal(await stream.get_offset("nobody"), 0, "its offset")
    seen = [event.offset for event in await stream.read_from_consumer("nobody", 10)]
    expect_equal(seen, offsets, "its events")


@prop("streams.consumer.read", decided="Streams/Read")
async def consumer_read(case: Case) -> None:
    """A consumer reads what lies above its saved offset."""
    store, other = await case.store(), await case.store()
    offsets = await store.stream("log").publish_many([1, 2, 3, 4])
    await store.stream("log").save_offset("reader", offsets[1])
    events = await other.stream("log").read_from_consumer("reader", 10)
    expect_equal([event.offset for event in events], offsets[2:], "after the second event")
    events = await other.stream("log").read_from_consumer("reader", 1)
    expect_equal([event.offset for event in events], offsets[2:3], "only one of them")


@prop("streams.consumer.apart", decided="Streams/Offsets of consumers")
async def consumer_apart(case: Case) -> None:
    """Each consumer has a place of its own; their names are told apart exactly."""
    store, other = await case.store(), await case.store()
    names = ["reader", "Reader", "reader ", "__alkstore_reader", "читатель"]
    for number, name in enumerate(names, start=1):
        await store.stream("log").save_offset(name, number)
    found = [await other.stream("log").get_offset(name) for name in names]
    expect_equal(found, [1, 2, 3, 4, 5], "the offsets of each")


@prop("streams.consumer.names", decided="Names", cases=("", " ", "a\0b", "\ud800", "a" * 256))
async def consumer_names(case: Case, name: str) -> None:
    """A consumer's name that breaks the rule for labels is refused wherever it is given."""
    store = await case.store()
    stream = store.stream("log")
    with expect_raises(InvalidName, "save_offset"):
        await stream.save_offset(name, 1)
    with expect_raises(InvalidName, "get_offset"):
        await stream.get_offset(name)
    with expect_raises(InvalidName, "read_from_consumer"):
        await stream.read_from_consumer(name, 1)
    with expect_raises(InvalidName, "subscribe"):
        await stream.subscribe(name)
    async with store.transaction() as tx:
        with expect_raises(InvalidName, "save_offset_tx"):
            await tx.save_offset_tx("log", name, 1)
    expect_equal(await stream.consumers(), [], "consumers after the refusals")


@prop("streams.consumer.listed", decided="Store/Inspection")
async def consumer_listed(case: Case) -> None:
    """`consumers` lists who saved an offset in this stream, by name, and where they stand."""
    store = await case.store()
    stream = store.stream("log")
    await stream.save_offset("b", 2)
    await stream.save_offset("a", 7)
    await store.stream("other").save_offset("c", 1)
    await stream.get_offset("d")
    expected = [
        ConsumerPosition(stream="log", consumer="a", offset=7),
        ConsumerPosition(stream="log", consumer="b", offset=2),
    ]
    expect_equal(await stream.consumers(), expected, "the consumers")


@prop("streams.save.monotone", decided="Streams/Offsets of consumers")
async def save_monotone(case: Case) -> None:
    """A save below the saved offset changes nothing and is no error."""
    store, other = await case.store(), await case.store()
    for offset, expected in ((5, 5), (3, 5), (5, 5), (6, 6), (0, 6), (MIN, 6)):
        await store.stream("log").save_offset("reader", offset)
        found = await other.stream("log").get_offset("reader")
        expect_equal(found, expected, f"after a save of {offset}")


@prop("streams.save.tx", decided="Streams/Offsets of consumers")
async def save_tx(case: Case) -> None:
    """`save_offset_tx` is monotone as well, within its transaction and against committed saves."""
    store = await case.store()
    await store.stream("log").save_offset("reader", 5)
    async with store.transaction() as tx:
        for offset in (9, 7, 3):
            await tx.save_offset_tx("log", "reader", offset)
            expect_equal(await tx.get_offset_tx("log", "reader"), 9, f"after a save of {offset}")
    async with store.transaction() as tx:
        await tx.save_offset_tx("log", "reader", 2)
    expect_equal(await store.stream("log").get_offset("reader"), 9, "after both transactions")


@prop(
    "streams.save.total", decided="Numbers", cases=((MAX, MAX), (1, 1), (0, 0), (-5, 0), (MIN, 0))
)
async def save_total(case: Case, given: tuple[int, int]) -> None:
    """Any offset can be saved, whether or not there is such an event; none stands below 0."""
    offset, expected = given
    stream = (await case.store()).stream("log")
    published = await stream.publish(1)
    await stream.save_offset("reader", offset)
    expect_equal(await stream.get_offset("reader"), expected, f"after a save of {offset}")
    seen = [event.offset for event in await stream.read_from_consumer("reader", 10)]
    expect_equal(seen, [published] if expected < published else [], "what the consumer reads")


@prop("streams.save.parallel", decided="Streams/Offsets of consumers")
async def save_parallel(case: Case) -> None:
    """Saves at the same time, first ones included, end at the highest offset."""
    store, other = await case.store(), await case.store()
    offsets = [(number * 7) % 20 + 1 for number in range(20)]

    async def save(number: int, offset: int) -> None:
        client = (store, other)[number % 2]
        if number % 4 == 0:
            async with client.transaction() as tx:
                await tx.save_offset_tx("log", "reader", offset)
        else:
            await client.stream("log").save_offset("reader", offset)

    await asyncio.gather(*(save(number, offset) for number, offset in enumerate(offsets)))
    expect_equal(await store.stream("log").get_offset("reader"), 20, "the saved offset")


@prop("streams.save.explicit", decided="Streams/Offsets of consumers")
async def save_explicit(case: Case) -> None:
    """Nothing saves an offset by itself: neither reading, nor subscribing, nor closing."""
    store = await case.store()
    stream = store.stream("log")
    await stream.publish_many([1, 2, 3])
    await stream.read_from_consumer("reader", 2)
    async with store.transaction() as tx:
        await tx.read_from_consumer_tx("log", "reader", 2)
    async with stream.subscribe("reader") as events:
        await events.recv()
        await events.recv()
    expect_equal(await stream.get_offset("reader"), 0, "the offset after all that reading")
    expect_equal(await stream.consumers(), [], "the consumers")


@prop("streams.save.exactly_once", decided="Streams/Offsets of consumers")
async def save_exactly_once(case: Case) -> None:
    """An effect that commits together with `save_offset_tx` happens once for each event.

    Whoever fails in between does it again, and nothing of the failed attempt is left.
    """
    store = await case.store()
    await store.stream("log").publish_many(list(range(8)))
    attempts = 0
    while events := await store.stream("log").read_from_consumer("reader", 3):
        for event in events:
            attempts += 1
            async with store.begin_tx() as tx:
                await tx.enqueue_tx("effects", int(event.payload))
                await tx.save_offset_tx("log", "reader", event.offset)
                if attempts % 3:
                    await tx.commit()
                else:
                    break
    effects = [int(job.payload) for job in await store.queue("effects").jobs()]
    expect_equal(effects, list(range(8)), "the effects")
