"""Moving stored rows between databases."""

import pytest

from alkstore_core import JobState
from alkstore_core.spi import Claim, Entry, Record, ScheduleEntry
from alkstore_core.sql import dead_letters, inspection, queues, schedules, streams, transfer


def test_jobs_keep_their_fields(db, put, take):
    """Everything but the id and the finer state survives; ids ascend in input order."""
    put('"😀\\u0000"'.encode(), headers='{"a":"b"}', expires=500, dead_letter_retention_s=9)
    put(delay=50)
    put(expires=1, delay=1)
    take(1, "me")
    db.now = 1_001
    assert [] == take()
    records = db(transfer.dump, "jobs", None, 10)
    assert [(1,), (2,), (3,)] == [record.position for record in records]
    assert ["processing", "pending", "pending"] == [r.fields["state"] for r in records]
    originals = [db(queues.get_job, "q", job_id) for job_id in (1, 2, 3)]
    loaded = db(transfer.load, "jobs", records)
    assert [4, 5, 6] == loaded
    for original, job_id in zip(originals, loaded, strict=True):
        copy = db(queues.get_job, "q", job_id)
        assert [getattr(original, name) for name in original.__slots__ if name != "id"] == [
            getattr(copy, name) for name in copy.__slots__ if name != "id"
        ]


def test_pending_jobs_become_ready_or_delayed_by_the_time_of_the_load(db, put):
    """What came due on the way is ready on arrival."""
    put(delay=50)
    put(delay=500)
    records = db(transfer.dump, "jobs", None, 10)
    db.now = 1_100
    db(transfer.load, "jobs", records)
    found = db.rows("SELECT state FROM __alkstore_jobs WHERE id > 2 ORDER BY id")
    assert [("ready",), ("delayed",)] == found


def test_a_claim_without_a_deadline_is_none(db, put, take):
    """A processing record that could never lapse is pending."""
    put()
    take()
    (record,) = db(transfer.dump, "jobs", None, 10)
    fields = {**record.fields, "claim_expires_at": None}
    (job_id,) = db(transfer.load, "jobs", [Record((), fields)])
    assert JobState.PENDING is db(queues.get_job, "q", job_id).state


def test_dead_jobs_get_ids_of_their_own(db, put, take):
    """A loaded dead job has an id no live job has or will have, and keeps its retention."""
    put(dead_letter_retention_s=60)
    take()
    db(dead_letters.bury, "q", Claim(1, 1), "boom")
    records = db(transfer.dump, "dead_jobs", None, 10)
    db.now = 1_050
    assert [2, 3] == db(transfer.load, "dead_jobs", records * 2)
    assert [4] == put()
    job = db(queues.get_job, "q", 3)
    assert (JobState.DEAD, "boom", 1_000, 1) == (
        job.state,
        job.last_error,
        job.died_at,
        job.attempts,
    )
    db.now = 1_061
    assert 3 == db(dead_letters.purge_retired, "q", 10)
    assert ["q"] == db(inspection.names, "queue")


def test_events_and_positions(db):
    """Events get offsets that ascend in input order; positions are kept as they are."""
    db(streams.append, "s", [Entry(b"1", "k", '{"a":"b"}'), Entry(b"2")])
    db(streams.save_offset, "s", "c", 1)
    db(streams.save_offset, "s", "d", 2)
    assert [3, 4] == db(transfer.load, "events", db(transfer.dump, "events", None, 10))
    first, _, third, _ = db(streams.read, "s", 0, 10)
    assert ("k", b"1", {"a": "b"}, first.created_at) == (
        third.key,
        third.payload,
        third.headers,
        third.created_at,
    )
    records = db(transfer.dump, "consumers", ("s", "c"), 10)
    assert [Record(("s", "d"), {"stream": "s", "consumer": "d", "offset": 2})] == records
    db.connection.exec_driver_sql("DELETE FROM __alkstore_consumers")
    assert [] == db(transfer.load, "consumers", records)
    assert 2 == db(streams.get_offset, "s", "d")


def test_schedules_keep_their_boundary(db):
    """A schedule goes on where it stood; one of the same name is replaced."""
    stored = db(
        schedules.put_schedule,
        ScheduleEntry("n", "@every 60s", 60, "q", b"1", 1, 2, 3, '{"a":"b"}'),
    )
    records = db(transfer.dump, "schedules", None, 10)
    db(schedules.advance, "n", 1_060, 1_120)
    assert [] == db(transfer.load, "schedules", records)
    assert [stored] == db(schedules.list_schedules)


@pytest.mark.parametrize("kind", ["jobs", "dead_jobs", "events", "consumers", "schedules"])
def test_nothing_is_nothing(db, kind):
    """An empty database dumps to nothing and nothing loads."""
    assert [] == db(transfer.dump, kind, None, 10)
    assert [] == db(transfer.load, kind, [])


def test_dumps_come_in_pages(db, put):
    """A page ends at the limit; the next begins after its last position."""
    put(*[b"1"] * 5)
    first = db(transfer.dump, "jobs", None, 3)
    rest = db(transfer.dump, "jobs", first[-1].position, 3)
    assert [[(1,), (2,), (3,)], [(4,), (5,)]] == [
        [record.position for record in page] for page in (first, rest)
    ]
