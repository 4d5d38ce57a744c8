"""Streams: publishing, places, and receivers that lose nothing."""

import asyncio

import pytest
from dict_engine import until

from alkstore_core import CodecError, ConsumerPosition, DatabaseError, StreamBounds, StreamEvent


@pytest.fixture
def stream(store):
    """A stream."""
    return store.stream("s")


async def received(receiver, n):
    """The offsets of the next events."""
    return [(await receiver.recv()).offset for _ in range(n)]


async def test_events_come_as_they_went_in(stream):
    """Payload, key and headers come back; offsets ascend."""
    await stream.publish({"ä": 1}, headers={"trace": "x"})
    await stream.publish_with_key("k", None)
    assert [3, 4] == await stream.publish_many([1, 2])

    first, second, *_ = await stream.read_since(0, 10)
    expected = StreamEvent(
        offset=1,
        stream="s",
        key=None,
        payload='{"ä":1}'.encode(),
        headers={"trace": "x"},
        created_at=1_000,
    )
    assert expected == first
    assert ("k", None) == (second.key, second.payload_as(type(None)))


async def test_batch_that_is_no_json_publishes_nothing(engine, stream):
    """A payload that is no JSON fails its whole batch before anything is written."""
    with pytest.raises(CodecError):
        await stream.publish_many([1, {1, 2}])

    assert {} == engine.data.events
    assert [] == await stream.publish_many([])


async def test_reads_without_extent_touch_nothing(engine, stream):
    """A limit of 0 or less reads nothing and does not reach the engine."""
    await stream.publish(1)
    engine.calls.clear()

    assert [] == await stream.read_since(0, 0)
    assert [] == await stream.read_since(0, -1)
    assert [] == await stream.read_from_consumer("c", -(2**63))

    assert [] == engine.calls


async def test_saved_offsets_only_advance(stream):
    """A lower offset changes nothing; a negative one leaves the consumer at 0."""
    await stream.save_offset("c", 5)
    await stream.save_offset("c", 3)
    await stream.save_offset("d", -7)

    assert [5, 0, 0] == [await stream.get_offset(c) for c in ("c", "d", "unknown")]
    expected = [
        ConsumerPosition(stream="s", consumer="c", offset=5),
        ConsumerPosition(stream="s", consumer="d", offset=0),
    ]
    assert expected == await stream.consumers()


async def test_trim_works_in_pieces(engine, stream):
    """A trim deletes up to and including the horizon, in pieces of 1,000."""
    await stream.publish_many(range(2_500))

    assert 0 == await stream.trim_to(-(2**63))
    engine.calls.clear()
    assert 2_001 == await stream.trim_to(2_001)

    assert ["trim"] * 3 == engine.calls
    assert StreamBounds(first=2_002, last=2_500, count=499) == await stream.bounds()


async def test_subscription_goes_on_from_the_saved_offset(stream):
    """A receiver begins above its consumer's saved offset."""
    await stream.publish_many("abcd"[n] for n in range(4))
    await stream.save_offset("c", 2)

    async with stream.subscribe("c") as events, stream.subscribe("new") as all_events:
        assert [3, 4] == await received(events, 2)
        assert [1, 2, 3, 4] == await received(all_events, 4)


async def test_new_events_wake_the_receiver(store, stream):
    """A receiver at the end waits and gets each event that is committed later."""
    async with stream.subscribe("c") as events:
        task = asyncio.ensure_future(events.recv())
        async with store.transaction() as tx:
            await tx.publish_tx("s", "first")
            await asyncio.sleep(0)
            assert not task.done()

        assert '"first"' == (await task).payload.decode()


async def test_event_published_between_attach_and_read_is_not_lost(engine, stream):
    """An event that commits while the receiver looks for its place is delivered."""
    gate = engine.hold("after", "get_offset")

    async def subscribe():
        return await stream.subscribe("c")

    subscribing = asyncio.create_task(subscribe())
    await gate.reached.wait()
    await stream.publish(1)
    gate.open()
    async with await subscribing as events:
        assert [1] == await received(events, 1)


async def test_event_published_while_reading_is_not_lost(engine, stream):
    """An event that commits while a page is being read is delivered by the next one."""
    async with stream.subscribe("c") as events:
        gate = engine.hold("after", "read")
        task = asyncio.ensure_future(events.recv())
        await gate.reached.wait()
        await stream.publish(1)
        gate.open()

        assert 1 == (await task).offset


async def test_receiver_reads_in_pages(engine, stream):
    """A backlog is read 100 events at a time, each once, in order."""
    await stream.publish_many(range(250))
    engine.calls.clear()
    async with stream.subscribe("c") as events:
        assert list(range(1, 251)) == await received(events, 250)

    assert 3 == engine.calls.count("read")


async def test_nothing_is_saved_without_asking(stream):
    """`save_offset` saves the event that `recv` gave last, and nothing else ever does."""
    await stream.publish_many(range(5))
    async with stream.subscribe("c") as events:
        await events.save_offset()
        assert 0 == await stream.get_offset("c")
        await received(events, 3)
        await events.save_offset()
        await received(events, 1)

    assert 3 == await stream.get_offset("c")


async def test_cancelled_recv_loses_no_event(engine, stream):
    """A `recv` cancelled while reading or waiting leaves its event to the next one."""
    async with stream.subscribe("c") as events:
        gate = engine.hold("after", "read")
        reading = asyncio.ensure_future(events.recv())
        await gate.reached.wait()
        reading.cancel()
        gate.open()
        await asyncio.gather(reading, return_exceptions=True)
        waiting = asyncio.ensure_future(events.recv())
        await until(lambda: engine.signals._topics and engine.calls[-1] == "read")
        await stream.publish(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert [1] == await received(events, 1)


async def test_failed_read_loses_no_event(engine, stream):
    """A failed `recv` raises; the next one goes on at the same place."""
    await stream.publish_many([1, 2])
    async with stream.subscribe("c") as events:
        engine.faults["read"].append(DatabaseError("connection lost"))
        with pytest.raises(DatabaseError):
            await events.recv()

        assert [1, 2] == await received(events, 2)


async def test_receiver_ends_when_wakes_ended_and_reading_fails(engine, stream):
    """A reader of a lost database is not told of failures for ever: its receiver ends."""
    async with stream.subscribe("c") as events:
        engine.faults["read"] += [DatabaseError("lost"), DatabaseError("lost")]
        with pytest.raises(DatabaseError):
            await events.recv()
        engine.signals.close_open()

        assert [None, None] == [await events.recv(), await events.recv()]


async def test_two_tasks_on_one_receiver_share_the_events(stream):
    """Each event goes to one of the tasks that wait on a receiver."""
    async with stream.subscribe("c") as events:
        tasks = [asyncio.ensure_future(events.recv()) for _ in range(4)]
        await asyncio.sleep(0)
        await stream.publish_many(range(4))

        assert [1, 2, 3, 4] == sorted(e.offset for e in await asyncio.gather(*tasks))


async def test_iteration_ends_with_the_receiver(stream):
    """`async for` gives events and stops when the receiver is closed."""
    await stream.publish_many(range(3))
    offsets = []
    async with stream.subscribe("c") as events:
        async for event in events:
            offsets.append(event.offset)
            if event.offset == 3:
                await events.close()

    assert [1, 2, 3] == offsets


async def test_ended_receiver_gives_nothing_from_its_buffer(stream):
    """After the end `recv` is `None`, also when a page was read ahead; the events are unsaved."""
    await stream.publish_many(range(3))
    async with stream.subscribe("c") as events:
        await received(events, 1)

    assert None is await events.recv()
    async with stream.subscribe("c") as again:
        assert [1] == await received(again, 1)


async def test_failed_subscribe_leaves_nothing(engine, stream):
    """A subscription that cannot find its place detaches."""
    engine.faults["get_offset"].append(DatabaseError("connection lost"))
    with pytest.raises(DatabaseError):
        await stream.subscribe("c")

    assert {} == engine.signals._topics


async def test_reconnect_reads_again(engine, stream):
    """After a reconnect the receiver reads, whatever it may have missed."""
    async with stream.subscribe("c") as events:
        task = asyncio.ensure_future(events.recv())
        await until(lambda: engine.calls[-1] == "read")
        engine.data.events.update(await hidden_event(stream, engine))
        engine.signals.fire_all(engine_reconnected())

        assert 1 == (await task).offset


def engine_reconnected():
    """What a listener tells after an outage."""
    from alkstore_core.spi import Fired  # noqa: PLC0415

    return Fired.RECONNECTED


async def hidden_event(stream, engine):
    """An event whose wake was lost."""
    event = StreamEvent(
        offset=1, stream=stream.name, key=None, payload=b"1", headers=None, created_at=1_000
    )
    engine.data.last["event"] = 1
    return {1: event}
