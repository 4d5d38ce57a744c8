"""Gaps in streams, and why no reader skips what is still on its way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.pending import expect_waiting, turns
from alkstore_contract.properties import prop

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store, StreamEvent


@prop("streams.gaps", decided="Streams/Read")
async def gaps(case: Case) -> None:
    """Publishes that were rolled back leave gaps at most: reading goes on behind them."""
    store = await case.store()
    stream = store.stream("log")
    committed = []
    for number in range(4):
        committed.append(await stream.publish(number))
        # On some engines this makes gaps, on others that.
        await store.stream("other").publish("elsewhere")
        async with store.begin_tx() as tx:
            await tx.publish_many_tx("log", ["never", "was"])
    cursor, seen = 0, []
    while page := await stream.read_since(cursor, 1):
        cursor = page[0].offset
        seen.append(cursor)
    expect_equal(seen, committed, "a reader that goes event by event")
    async with stream.subscribe("reader") as events:
        given = [await events.recv() for _ in committed]
    expect_equal([event and event.offset for event in given], committed, "a subscriber")


async def _read_every_way(store: Store) -> list[list[StreamEvent]]:
    stream = store.stream("log")
    return [
        await stream.read_since(0, 10),
        await stream.read_from_consumer("reader", 10),
        await stream.read_since(0, 1),
    ]


@prop("streams.no_skip.open", decided="Streams/Read", cases=("commit", "rollback"))
async def no_skip_open(case: Case, how: str) -> None:
    """No reader is shown an offset while a lower one of the stream can still commit.

    Where writers do not wait for each other, the later publisher has committed meanwhile.
    """
    store, other, reader = await case.store(), await case.store(), await case.store()
    events = await reader.stream("log").subscribe("subscriber")
    waiting = asyncio.ensure_future(events.recv())
    tx = await store.begin_tx()
    low = await tx.publish_tx("log", "low")
    publishing = asyncio.ensure_future(other.stream("log").publish("high"))
    await turns()
    if not case.facts.single_writer:
        await publishing
    for client in (reader, other, store):
        for seen in await _read_every_way(client):
            skipped = [event.offset for event in seen if event.offset > low]
            expect_equal(skipped, [], f"shown while offset {low} can still commit")
    if waiting.done():
        event = waiting.result()
        expect(event is not None and event.offset < low, "the subscriber skipped")
    own = [event.offset for event in await tx.read_since_tx("log", 0, 10)]
    expect(low in own, "the transaction does not see its own event")
    await (tx.commit() if how == "commit" else tx.rollback())
    high = await publishing
    expected = sorted([low, high]) if how == "commit" else [high]
    for client in (reader, other, store):
        found = [e.offset for e in await client.stream("log").read_since(0, 10)]
        expect_equal(found, expected, "after the open transaction ended")
    given = [await waiting]
    while len(given) < len(expected):
        given.append(await events.recv())
    expect_equal([event and event.offset for event in given], expected, "to the subscriber")


@prop("streams.no_skip.elsewhere", decided="Streams/Read")
async def no_skip_elsewhere(case: Case) -> None:
    """An open transaction that publishes to one stream holds up no reader of another one."""
    store, other = await case.store(), await case.store()
    offset = await other.stream("other").publish("there")
    async with store.begin_tx() as tx:
        await tx.publish_tx("log", "open")
        if not case.facts.single_writer:
            offset = await other.stream("other").publish("later")
        seen = [event.offset for event in await other.stream("other").read_since(offset - 1, 10)]
        expect_equal(seen, [offset], "in the other stream")
        await tx.commit()


@prop("streams.no_skip.concurrent", decided="Streams/Read")
async def no_skip_concurrent(case: Case) -> None:
    """Readers that follow a stream while many publish to it get every committed event once.

    Publishers are single calls, batches, and long transactions of which some are rolled back.
    """
    clients = [await case.store() for _ in range(3)]
    reader = await case.store()
    publishing = asyncio.gather(
        *(_publish_singly(clients[who], reader) for who in range(2)),
        *(_publish_slowly(clients[who], reader, who) for who in range(3)),
    )

    async def follow(limit: int) -> list[int]:
        seen: list[int] = []
        while True:
            over = publishing.done()
            page = await reader.stream("log").read_since(seen[-1] if seen else 0, limit)
            seen.extend(event.offset for event in page)
            if over and not page:
                return seen
            await asyncio.sleep(0)

    followers = [asyncio.ensure_future(follow(limit)) for limit in (1, 3, 100)]
    committed = sorted(offset for own in await publishing for offset in own)
    for follower in followers:
        expect_equal(await follower, committed, "what a follower has read")


async def _publish_singly(client: Store, reader: Store) -> list[int]:
    committed = []
    for number in range(6):
        committed.append(await client.stream("log").publish(number))
        committed.extend(await client.stream("log").publish_many([number] * 2))
        await _pause(reader, number)
    return committed


async def _publish_slowly(client: Store, reader: Store, who: int) -> list[int]:
    committed = []
    for number in range(6):
        async with client.begin_tx() as tx:
            offsets = [await tx.publish_tx("log", number)]
            await _pause(reader, (number * (who + 2)) % 5)
            offsets.append(await tx.publish_with_key_tx("log", "key", number))
            if number % 3:
                await tx.commit()
                committed.extend(offsets)
    return committed


async def _pause(reader: Store, count: int) -> None:
    # Different ones for each, so that commits overtake one another wherever they can.
    for _ in range(count):
        await reader.stream("other").read_since(0, 1)
        await asyncio.sleep(0)


@prop("streams.no_skip.subscribers", decided="Streams/Subscribe")
async def no_skip_subscribers(case: Case) -> None:
    """Subscribers of several clients get every event of many publishers once, in order."""
    clients = [await case.store() for _ in range(3)]
    receivers = [await client.stream("log").subscribe("reader") for client in clients]

    async def publish(who: int) -> list[int]:
        stream = clients[who % 3].stream("log")
        return [await stream.publish([who, number]) for number in range(8)]

    total = 5 * 8

    async def follow(number: int) -> list[int]:
        seen: list[int] = []
        async for event in receivers[number]:
            seen.append(event.offset)
            if len(seen) == total:
                break
        return seen

    followers = [asyncio.ensure_future(follow(number)) for number in range(3)]
    published = await asyncio.gather(*(publish(who) for who in range(5)))
    expected = sorted(offset for own in published for offset in own)
    for follower in followers:
        expect_equal(await follower, expected, "what a subscriber was given")
    for receiver in receivers:
        more = asyncio.ensure_future(receiver.recv())
        await expect_waiting(more, "a subscriber was given an event twice")
