"""Schedules: what is stored, and the compare-and-set that fires a boundary once."""

from alkstore_core import Schedule
from alkstore_core.spi import ScheduleEntry
from alkstore_core.sql import schedules

FOREVER = 2**63 - 1


def entry(**changed):
    """A schedule every minute."""
    defaults = {
        "name": "n",
        "spec": "@every 60s",
        "every": 60,
        "queue": "q",
        "payload": b"1",
        "priority": 0,
        "max_attempts": None,
        "expires": None,
        "headers": None,
    }
    return ScheduleEntry(**{**defaults, **changed})


def test_a_new_schedule_fires_one_interval_from_now(db):
    """Everything that was given is stored."""
    stored = db(
        schedules.put_schedule,
        entry(payload=b'"x"', priority=3, max_attempts=4, expires=5, headers='{"a":"b"}'),
    )
    expected = Schedule(
        name="n",
        spec="@every 60s",
        queue="q",
        payload=b'"x"',
        priority=3,
        max_attempts=4,
        expires=5,
        headers={"a": "b"},
        next_fire_at=1_060,
    )
    assert expected == stored
    assert [expected] == db(schedules.list_schedules)


def test_the_same_spec_keeps_its_rhythm(db):
    """Queue, payload and options are updated, the next boundary stays."""
    db(schedules.put_schedule, entry(priority=3, max_attempts=4, expires=5))
    db.now = 1_030
    stored = db(schedules.put_schedule, entry(queue="r", payload=b"2", headers='{"a":"b"}'))
    assert ("r", b"2", 0, None, None, {"a": "b"}, 1_060) == (
        stored.queue,
        stored.payload,
        stored.priority,
        stored.max_attempts,
        stored.expires,
        stored.headers,
        stored.next_fire_at,
    )
    assert 1 == len(db(schedules.list_schedules))


def test_another_spec_starts_from_now(db):
    """A changed interval takes effect at once."""
    db(schedules.put_schedule, entry())
    db.now = 1_030
    stored = db(schedules.put_schedule, entry(spec="@every 5s", every=5))
    assert ("@every 5s", 1_035) == (stored.spec, stored.next_fire_at)


def test_an_interval_may_never_end(db):
    """A boundary beyond the last second is the last second."""
    assert FOREVER == db(schedules.put_schedule, entry(every=FOREVER)).next_fire_at


def test_a_boundary_is_advanced_once(db):
    """Of two who saw the same boundary one advances it."""
    db(schedules.put_schedule, entry())
    assert db(schedules.advance, "n", 1_060, 1_120)
    assert not db(schedules.advance, "n", 1_060, 1_120)
    assert not db(schedules.advance, "m", 1_120, 1_180)
    assert [1_120] == [stored.next_fire_at for stored in db(schedules.list_schedules)]


def test_delete_and_list(db):
    """Schedules are listed by name; a deleted one is gone."""
    db(schedules.put_schedule, entry(name="b"))
    db(schedules.put_schedule, entry(name="a"))
    assert ["a", "b"] == [stored.name for stored in db(schedules.list_schedules)]
    assert db(schedules.delete_schedule, "a")
    assert not db(schedules.delete_schedule, "a")
    assert ["b"] == [stored.name for stored in db(schedules.list_schedules)]
