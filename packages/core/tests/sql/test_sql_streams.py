"""Streams: offsets, reads, positions, trims."""

import pytest

from alkstore_core import ConsumerPosition, StreamBounds, StreamEvent
from alkstore_core.spi import Entry
from alkstore_core.sql import streams

FOREVER = 2**63 - 1


@pytest.fixture
def publish(db):
    """Append payloads to stream `s`."""

    def append(*payloads, stream="s"):
        return db(streams.append, stream, [Entry(payload) for payload in payloads])

    return append


def offsets(events):
    """The offsets of events, in order."""
    return [event.offset for event in events]


@pytest.mark.parametrize("others", [0, 1], ids=["one", "many"])
def test_an_event_is_what_was_published(db, others):
    """Key, payload, headers, stream and second come back exactly."""
    payload = '"\\u0000 😀 \\" ü"'.encode()
    entry = Entry(payload, "k ü", '{"a":"b"}')
    db(streams.append, "s", [entry, *[Entry(b"1")] * others])
    event, *rest = db(streams.read, "s", 0, 10)
    expected = StreamEvent(
        offset=1,
        stream="s",
        key="k ü",
        payload=payload,
        headers={"a": "b"},
        created_at=1_000,
    )
    assert expected == event
    assert [(None, None)] * others == [(other.key, other.headers) for other in rest]


def test_offsets_ascend_in_input_order_and_are_never_given_twice(db, publish):
    """A batch's offsets are its events' order, also after the stream was emptied."""
    payloads = [b"%d" % number for number in range(500)]
    given = publish(*payloads)
    assert given == sorted(given)
    assert payloads == [event.payload for event in db(streams.read, "s", 0, 1_000)]
    assert 500 == db(streams.trim, "s", FOREVER, 1_000)
    assert publish(b"1")[0] > given[-1]
    assert [] == publish()


def test_reads_are_strictly_after_ascending_and_bounded(db, publish):
    """A read begins behind its offset and never sees another stream."""
    a1, a2 = publish(b"1"), publish(b"2")
    publish(b"3", stream="other")
    a3 = publish(b"4")
    assert [*a1, *a2, *a3] == offsets(db(streams.read, "s", -(2**63), 10))
    assert [*a2, *a3] == offsets(db(streams.read, "s", a1[0], 10))
    assert a2 == offsets(db(streams.read, "s", a1[0], 1))
    assert [] == db(streams.read, "s", FOREVER, 10)


def test_a_consumer_reads_behind_its_position(db, publish):
    """An unknown consumer stands at the beginning, a known one where it saved."""
    given = publish(b"1", b"2", b"3")
    assert given == offsets(db(streams.read_from, "s", "c", 10))
    db(streams.save_offset, "s", "c", given[0])
    assert given[1:] == offsets(db(streams.read_from, "s", "c", 10))
    assert given[1:2] == offsets(db(streams.read_from, "s", "c", 1))
    assert given == offsets(db(streams.read_from, "s", "another", 10))


def test_positions_never_go_back(db):
    """A lower save is a no-op that writes nothing; positions are per stream and consumer."""
    assert 0 == db(streams.get_offset, "s", "c")
    db(streams.save_offset, "s", "c", 5)
    db(streams.save_offset, "s", "c", 3)
    db(streams.save_offset, "s", "d", 4)
    db(streams.save_offset, "t", "c", 9)
    assert [5, 4, 9] == [
        db(streams.get_offset, stream, consumer)
        for stream, consumer in (("s", "c"), ("s", "d"), ("t", "c"))
    ]
    db(streams.save_offset, "s", "c", FOREVER)
    assert FOREVER == db(streams.get_offset, "s", "c")


def test_a_save_that_is_not_ahead_changes_no_row(db):
    """Nobody is woken by a save that saves nothing."""
    db(streams.save_offset, "s", "c", 5)
    db.connection.commit()
    ((before,),) = db.rows("SELECT total_changes()")
    db(streams.save_offset, "s", "c", 5)
    db(streams.save_offset, "s", "c", 4)
    assert [(before,)] == db.rows("SELECT total_changes()")


def test_a_position_below_zero_is_zero(db):
    """Everybody starts at 0, so no save lies before it."""
    db(streams.save_offset, "s", "c", -7)
    assert 0 == db(streams.get_offset, "s", "c")


def test_trim_is_exact_bounded_and_lowest_first(db, publish):
    """Up to and including the horizon, nothing of another stream, what is left keeps offsets."""
    given = publish(b"1", b"2", b"3", b"4")
    publish(b"5", stream="other")
    assert 0 == db(streams.trim, "s", -1, 10)
    assert 2 == db(streams.trim, "s", given[2], 2)
    assert given[2:] == offsets(db(streams.read, "s", 0, 10))
    assert 1 == db(streams.trim, "s", given[2], 10)
    assert 0 == db(streams.trim, "s", given[2], 10)
    assert given[3:] == offsets(db(streams.read, "s", 0, 10))
    assert 1 == len(db(streams.read, "other", 0, 10))


def test_consumers_by_name(db):
    """Who saved an offset of this stream, and where."""
    db(streams.save_offset, "s", "b", 5)
    db(streams.save_offset, "s", "a", 6)
    db(streams.save_offset, "t", "c", 7)
    expected = [
        ConsumerPosition(stream="s", consumer="a", offset=6),
        ConsumerPosition(stream="s", consumer="b", offset=5),
    ]
    assert expected == db(streams.list_consumers, "s")


def test_bounds(db, publish):
    """First, last and count; zeros when there is nothing."""
    assert StreamBounds(first=0, last=0, count=0) == db(streams.bounds, "s")
    publish(b"1", b"2", b"3")
    publish(b"4", stream="other")
    db(streams.trim, "s", 1, 1)
    assert StreamBounds(first=2, last=3, count=2) == db(streams.bounds, "s")
