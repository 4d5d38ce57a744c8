"""Waiting in code that blocks: for wakes, for events, for so long, and in several threads."""

import gc
import threading

import pytest

from alkstore_core import DatabaseError, StopToken


def test_a_notification_wakes(blocking):
    """What was notified after `listen` returned is received."""
    with blocking.listen("c") as wakes:
        blocking.notify("c", {"any": "thing"})
        assert "c" == wakes.recv(timeout=10).channel


def test_a_wait_may_be_bounded(blocking):
    """Nothing within the time is a `TimeoutError`, and the receiver goes on."""
    with blocking.listen("c") as wakes:
        with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
            wakes.recv(timeout=0.01)
        blocking.notify("c")
        assert "c" == wakes.recv(timeout=10).channel


def test_a_queue_wakes(blocking):
    """An enqueue wakes whoever waits for work."""
    queue = blocking.queue("q")
    with queue.wakes() as wakes:
        queue.enqueue("tea")
        assert "q" == wakes.recv(timeout=10).channel


def test_events_are_iterated_until_it_is_quiet(blocking):
    """`until_idle` gives every event, and ends when none came for so long."""
    stream = blocking.stream("s")
    stream.publish_many([1, 2, 3])
    seen = []
    with stream.subscribe("me") as events:
        while len(seen) < 3:
            seen += [event.payload_as(int) for event in events.until_idle(0.05)]
        assert [] == list(events.until_idle(0.01))

    assert [1, 2, 3] == seen


def test_a_time_that_is_shorter_than_a_query_loses_nothing(blocking):
    """A wait of no length at all gets the events too: what it began goes on without it."""
    stream = blocking.stream("s")
    stream.publish_many([1, 2])
    seen = []
    with stream.subscribe("me") as events:
        while len(seen) < 2:
            seen += [event.payload_as(int) for event in events.until_idle(0)]

    assert [1, 2] == seen


def test_offsets_are_saved_by_hand(blocking):
    """`save_offset` saves the event that was given last; without one it does nothing."""
    stream = blocking.stream("s")
    stream.publish_many([1, 2])
    with stream.subscribe("me") as events:
        events.save_offset()
        assert 0 == stream.get_offset("me")
        first = events.recv(timeout=10)
        events.save_offset()

    assert first.offset == stream.get_offset("me")
    with stream.subscribe("me") as events:
        assert 2 == events.recv(timeout=10).payload_as(int)


def test_a_stop_token_ends_the_loop(blocking):
    """A loop over a receiver ends when its token is stopped, from whichever thread."""
    stop = StopToken()
    threading.Timer(0.02, stop.stop).start()

    assert [] == list(blocking.listen("c", stop))


def test_closing_the_store_ends_the_wait(blocking):
    """A thread that waits for a wake gets `None` when another one closes the store."""
    wakes = blocking.listen("c")
    got = []
    thread = threading.Thread(target=lambda: got.append(wakes.recv()))
    thread.start()
    with pytest.raises(TimeoutError):
        wakes.recv(timeout=0.02)

    blocking.close()

    thread.join(10)
    assert [None] == got


def test_two_threads_never_get_the_same_event(blocking):
    """Threads that share a receiver take turns: each event goes to one of them."""
    stream = blocking.stream("s")
    stream.publish_many(list(range(50)))
    seen = []

    def read():
        while len(seen) < 50:
            seen.extend(events.until_idle(0.01))

    with stream.subscribe("me") as events:
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert list(range(50)) == sorted(event.payload_as(int) for event in seen)


def test_an_error_of_the_database_is_told_and_the_next_call_goes_on(engine, blocking):
    """A failed read raises; the event is not lost by it."""
    stream = blocking.stream("s")
    stream.publish("tea")
    with stream.subscribe("me") as events:
        engine.faults["read"].append(DatabaseError("away"))
        with pytest.raises(DatabaseError, match="away"):
            events.recv(timeout=10)

        assert "tea" == events.recv(timeout=10).payload_as(str)


def test_a_lost_receiver_leaves_nothing_behind(engine, blocking):
    """A receiver that nobody closed is gone with its last reference, though it was waiting."""
    wakes = blocking.listen("c")
    with pytest.raises(TimeoutError):
        wakes.recv(timeout=0)
    del wakes
    gc.collect()

    for _ in range(100):
        if not list(engine.signals.topics):
            break
        blocking.queues()
    assert [] == list(engine.signals.topics)


def test_a_closed_receiver_gives_none(blocking):
    """After `close` nothing comes any more, as often as one asks."""
    wakes = blocking.listen("c")
    wakes.close()
    wakes.close()

    assert [None, None] == [wakes.recv(), wakes.recv()]
