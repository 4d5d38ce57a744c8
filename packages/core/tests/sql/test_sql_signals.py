"""Channels in the database, and what a watcher looks at."""

import json

from alkstore_core.spi import Entry, Topic
from alkstore_core.sql import signals, streams


def channel(name):
    """The topic of a channel."""
    return Topic("channel", name)


def look(statement, given=None):
    """An op that gives a statement's rows."""
    return (yield statement, given or {}).rows


def test_each_notify_has_a_higher_number(db):
    """A channel keeps one row, whose number is above every earlier one."""
    first = db(signals.notify, [channel("a"), channel("b")])
    second = db(signals.notify, [channel("a")])
    numbers = [first[channel("a")], first[channel("b")], second[channel("a")]]
    assert sorted(set(numbers)) == numbers
    assert [(numbers[1], "b"), (numbers[2], "a")] == db(look, signals.CHANNELS_SINCE, {"after": 0})
    assert [(numbers[2], "a")] == db(look, signals.CHANNELS_SINCE, {"after": numbers[1]})
    assert [(numbers[2],)] == db(look, signals.LAST_NOTIFY)


def test_numbers_never_fall_back(db):
    """Not even when every channel is gone."""
    before = db(signals.notify, [channel("a")])[channel("a")]
    db.connection.exec_driver_sql("DELETE FROM __alkstore_channels")
    assert db(signals.notify, [channel("b")])[channel("b")] > before


def test_idle_channels_are_forgotten(db):
    """After an hour without a notify a channel's row goes, two at most with each notify."""
    for name in "abc":
        db(signals.notify, [channel(name)])
    db.now = 4_600
    db(signals.notify, [channel("a")])
    assert 3 == len(db(look, signals.CHANNELS_SINCE, {"after": 0}))
    db.now = 4_601
    db(signals.notify, [channel("a")])
    assert ["a"] == [name for _, name in db(look, signals.CHANNELS_SINCE, {"after": 0})]


def test_tails_of_streams(db):
    """The last offset of each stream asked for, nothing for an empty one."""
    db(streams.append, "a", [Entry(b"1"), Entry(b"2")])
    db(streams.append, "b", [Entry(b"3")])
    found = db(look, signals.STREAM_TAILS, {"streams": json.dumps(["a", "b", "c"])})
    assert [("a", 2), ("b", 3), ("c", None)] == found


def test_queues_with_ready_work(db, put, take):
    """Those of the queues asked for that hold a ready job."""
    put(queue="ready")
    put(queue="ready too")
    put(queue="delayed", delay=5)
    put(queue="claimed")
    take(queue="claimed")
    asked = json.dumps(["ready", "delayed", "claimed", "none", "re", "ready too"])
    found = db(look, signals.READY_QUEUES, {"queues": asked})
    assert [("ready",), ("ready too",)] == found


def test_an_op_that_did_nothing_announces_nothing(db):
    """Wakes are for what changed."""

    def nothing():
        return False
        yield

    def something():
        return 7
        yield

    assert (False, {}) == db(signals.announced, signals.notify, [channel("a")], nothing)
    value, marks = db(signals.announced, signals.notify, [channel("a")], something)
    assert (7, [channel("a")]) == (value, list(marks))
