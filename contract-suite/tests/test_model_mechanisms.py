"""The model's streams, locks, schedules, transactions and wakes, by examples worked out by hand."""

from __future__ import annotations

from alkstore_contract.model import Database, Transaction
from alkstore_contract.model.jobs import PLAIN, Job, Options
from alkstore_contract.model.locks import Locks
from alkstore_contract.model.schedules import Schedule, Schedules
from alkstore_contract.model.streams import Event, Streams
from alkstore_contract.model.wakes import Listener

NEVER = 9_223_372_036_854_775_807


def event(offset, stream="log"):
    """Return an event."""
    return Event(offset, stream, None, b"null", None, 100)


def offsets(events):
    """Return their offsets."""
    return [one.offset for one in events]


def streams(*numbers):
    """Return streams, one of which has events with these offsets."""
    log = Streams()
    for number in numbers:
        log.publish(event(number))
    return log


def test_readers_get_what_lies_after_an_offset():
    """Strictly after, ascending, over gaps, up to a limit."""
    log = streams(2, 5, 9)
    log.publish(event(7, "news"))
    assert offsets(log.read("log", 2, 10)) == [5, 9]
    assert offsets(log.read("log", -1, 2)) == [2, 5]
    assert log.read("log", 9, 10) == []
    assert log.read("log", 0, -1) == []


def test_positions_only_go_forward():
    """An unknown consumer stands at 0, and one that saved 0 is as good as unknown."""
    log = streams(2, 5)
    log.save("log", "eve", -3)
    assert (log.position("log", "eve"), log.consumers("log")) == (0, {})
    log.save("log", "eve", 5)
    log.save("log", "eve", 2)
    assert (log.position("log", "eve"), log.position("news", "eve")) == (5, 0)
    assert log.consumers("log") == {"eve": 5}


def test_a_trim_includes_its_horizon():
    """What is left keeps its offset, and the highest offset is remembered."""
    log = streams(2, 5, 9)
    assert log.trim("log", 1) == 0
    assert log.trim("log", 5) == 2
    assert log.bounds("log") == (9, 9, 1)
    assert log.trim("log", 9) == 1
    assert (log.bounds("log"), log.highest["log"]) == ((0, 0, 0), 9)
    assert log.names() == set()


def test_a_lease_lives_through_its_deadline():
    """Then it is gone; renewing and releasing need this very lease, live."""
    locks = Locks()
    locks.take(100, "door", "kim", 10, 1)
    assert locks.holder(110, "door").owner == "kim"
    assert locks.renew(110, "door", 1, 5)
    assert locks.live(115) != {}
    assert locks.holder(116, "door") is None
    assert not locks.renew(116, "door", 1, 5)
    assert not locks.release(116, "door", 1)
    locks.take(116, "door", "kim", NEVER, 2)
    assert locks.leases["door"].until == NEVER
    assert not locks.release(117, "door", 1)
    assert locks.release(117, "door", 2)
    assert locks.live(117) == {}


def schedule(spec="@every 10s", every=10, queue="work"):
    """Return a schedule, not put yet."""
    return Schedule("tick", spec, every, queue, b"null", Options(), 0)


def test_the_same_spec_keeps_the_rhythm():
    """A new one starts it now; everything else is replaced either way."""
    table = Schedules()
    assert table.put(100, schedule()).next_fire_at == 110
    again = table.put(105, schedule(queue="mail"))
    assert (again.next_fire_at, again.queue) == (110, "mail")
    assert table.put(105, schedule("@every 20s", 20)).next_fire_at == 125
    assert table.remove("tick")
    assert not table.remove("tick")


def test_each_boundary_up_to_now_fires():
    """The next one lies after now, in the rhythm."""
    table = Schedules()
    table.put(100, schedule())
    assert table.tick(109) == []
    assert [count for _, count in table.tick(110)] == [1]
    assert table.tick(110) == []
    assert [count for _, count in table.tick(149)] == [3]
    assert table.all["tick"].next_fire_at == 150


def test_of_many_missed_boundaries_64_fire():
    """The rest is skipped; the last second of the range never comes."""
    table = Schedules()
    table.put(100, schedule())
    assert [count for _, count in table.tick(740)] == [64]
    table.put(740, schedule())
    assert [count for _, count in table.tick(740 + 650)] == [64]
    assert table.all["tick"].next_fire_at == 1400
    table.put(0, schedule("@every 9223372036854775807s", NEVER))
    assert table.all["tick"].next_fire_at == NEVER
    assert table.tick(NEVER) == []


def test_a_transaction_sees_its_own_changes_and_nobody_else_does():
    """A commit brings all of them; without one there are none."""
    database, wants = Database(), Transaction()
    wants.enqueue(Job.enqueued(100, 1, "work", b"null", Options(), PLAIN))
    wants.publish(event(3))
    wants.save("log", "eve", 3)
    wants.notify("bell")
    seen = wants.seen(database)
    assert seen.queues.get("work", 1) is not None
    assert offsets(seen.streams.read("log", 0, 9)) == [3]
    assert seen.streams.position("log", "eve") == 3
    assert database.queues.live == {}
    assert database.streams.names() == set()
    assert ([job.id for job in wants.jobs], wants.channels) == ([1], ["bell"])
    wants.commit(database)
    assert database.queues.get("work", 1) is not None
    assert database.streams.names() == {"log"}


def test_what_is_committed_meanwhile_is_seen_too():
    """A transaction's view is what is committed, with its changes."""
    database, wants = Database(), Transaction()
    wants.save("log", "eve", 3)
    database.streams.publish(event(7))
    database.streams.save("log", "eve", 5)
    assert offsets(wants.seen(database).streams.read("log", 0, 9)) == [7]
    wants.commit(database)
    assert database.streams.position("log", "eve") == 5


def test_a_copy_is_apart():
    """What is done to the copy is not done to the original."""
    database = Database()
    database.streams.publish(event(1))
    copy = database.copy()
    copy.streams.trim("log", 1)
    copy.locks.take(100, "door", "kim", 1, 1)
    copy.schedules.put(100, schedule())
    copy.queues.enqueue(Job.enqueued(100, 1, "work", b"null", Options(), PLAIN))
    assert offsets(database.streams.read("log", 0, 9)) == [1]
    assert (database.locks.leases, database.schedules.all, database.queues.live) == ({}, {}, {})


def test_a_receiver_of_a_channel_is_owed_one_wake_for_all_commits():
    """None before the first commit that concerns it."""
    listener = Listener("bell", None)
    assert (listener.owed(100, {}), listener.possible) == (False, False)
    listener.notified()
    listener.notified()
    assert listener.owed(100, {})
    listener.woke()
    assert (listener.owed(100, {}), listener.possible) == (False, True)


def test_a_receiver_of_a_queue_is_owed_a_wake_for_work_that_is_to_be_had():
    """Not for jobs that are delayed, and no longer once somebody has taken them."""
    listener = Listener(None, "work")
    ready = Job.enqueued(100, 1, "work", b"null", Options(), PLAIN)
    late = Job.enqueued(100, 2, "work", b"null", Options(delay=5), PLAIN)
    listener.told_of(100, [late])
    assert not listener.owed(100, {2: late})
    assert listener.possible
    listener.told_of(100, [ready, late])
    assert listener.owed(100, {1: ready, 2: late})
    assert not listener.owed(100, {1: ready.claimed(100, "ann"), 2: late})
    assert not listener.owed(100, {2: late})
