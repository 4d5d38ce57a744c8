"""Counts, pages, names and the next due time."""

import pytest

from alkstore_core import JobState, QueueStats
from alkstore_core.spi import Claim, Entry
from alkstore_core.sql import dead_letters, inspection, queues, streams

FOREVER = 2**63 - 1


@pytest.mark.parametrize("claimed_before", [False, True], ids=["before a claim", "after one"])
def test_stats_are_disjoint_and_complete(db, put, take, claimed_before):
    """Every row of a queue is in one count, also what no claim has turned yet."""
    put(visibility_timeout_s=5_000, priority=9)
    put(visibility_timeout_s=5_000, priority=9, expires=10)
    put(priority=8, expires=10, visibility_timeout_s=1)
    put(priority=7, visibility_timeout_s=1)
    put(priority=6, max_attempts=9)
    take(5)
    db(dead_letters.bury, "q", Claim(5, 1), "boom")
    put(delay=50)
    put(delay=5_000)
    put(delay=5_000, expires=10)
    put(delay=50, expires=10)
    put(expires=10)
    put(run_at=900)
    put()
    put(queue="other")
    db.now = 1_100
    if claimed_before:
        (job,) = take(1)
        db(queues.release, "q", [Claim(job.id, job.attempts)])
    expected = QueueStats(
        ready=4 if claimed_before else 3,
        delayed=1,
        processing=2,
        lapsed=0 if claimed_before else 1,
        expired=4,
        dead=1,
        oldest_ready_age_s=200,
    )
    assert expected == db(inspection.stats, "q")


def test_stats_of_an_empty_queue(db):
    """Nothing is zeros, and nothing is the age of nothing."""
    expected = QueueStats(
        ready=0, delayed=0, processing=0, lapsed=0, expired=0, dead=0, oldest_ready_age_s=None
    )
    assert expected == db(inspection.stats, "q")


def test_due_jobs_have_an_age(db, put):
    """A delayed job that came due is ready since then, before any claim."""
    put(delay=10)
    db.now = 1_009
    assert None is db(inspection.stats, "q").oldest_ready_age_s
    db.now = 1_030
    assert 20 == db(inspection.stats, "q").oldest_ready_age_s


def test_list_jobs_pages_by_id_and_state(db, put, take):
    """Live jobs of a queue in the order of their ids, in one state or in any."""
    put(priority=1)
    put(delay=50)
    put(expires=10, priority=2)
    put(queue="other")
    put(priority=9)
    take(1)
    db.now = 1_020
    take(1)

    def listed(state, limit=10, after=0):
        return [job.id for job in db(inspection.list_jobs, "q", state, limit, after)]

    assert [1, 2, 3, 5] == listed(None)
    assert [2, 3] == listed(JobState.PENDING)
    assert [1, 5] == listed(JobState.PROCESSING)
    assert [] == listed(JobState.DEAD)
    assert [1, 2] == listed(None, limit=2)
    assert [3, 5] == listed(None, limit=2, after=2)
    assert [3] == listed(JobState.PENDING, after=2)
    assert [5] == listed(JobState.PROCESSING, after=1)


def test_next_due_is_the_nearest_of_both(db, put, take):
    """The next delayed job or the second after a deadline, in seconds from now."""
    put(queue="delayed", delay=50)
    put(queue="delayed", delay=40)
    put(queue="lapsing", visibility_timeout_s=30)
    put(queue="lapsing", visibility_timeout_s=20)
    take(2, queue="lapsing")
    put(queue="both", visibility_timeout_s=30)
    take(1, queue="both")
    put(queue="both", delay=31)
    put(queue="ready")
    asked = ["delayed", "lapsing", "both", "ready", "empty"]
    db.now = 1_010
    assert {"delayed": 30, "lapsing": 11, "both": 21} == db(inspection.next_due, asked)
    db.now = 1_500
    assert {"delayed": -460} == db(inspection.next_due, ["delayed"])
    assert {} == db(inspection.next_due, [])


def test_next_due_passes_over_expired_jobs(db, put, take):
    """What is past its expiry comes due no more."""
    put(delay=50, expires=10)
    put(delay=60)
    put(expires=10, visibility_timeout_s=20)
    take(1)
    db.now = 1_015
    assert {"q": 45} == db(inspection.next_due, ["q"])


def test_next_due_of_never(db, put, take):
    """A delay or claim for ever is far away, not an error."""
    put(delay=FOREVER)
    assert {"q": FOREVER - 1_000} == db(inspection.next_due, ["q"])
    put(visibility_timeout_s=FOREVER)
    take(1)
    db.now = 0
    assert {"q": FOREVER} == db(inspection.next_due, ["q"])


def test_names_of_whatever_holds_a_row(db, put, take):
    """Queues with live jobs of any state or dead ones; streams with events or positions."""
    put(queue="ready")
    put(queue="ready")
    put(queue="delayed", delay=50)
    put(queue="processing")
    take(queue="processing")
    put(queue="expired", expires=1)
    put(queue="dead", expires=1)
    db.now = 1_001
    take(queue="expired")
    db(dead_letters.sweep, "dead", 10)
    expected = ["dead", "delayed", "expired", "processing", "ready"]
    assert expected == db(inspection.names, "queue")
    assert [] == db(inspection.names, "stream")
    db(streams.append, "b", [Entry(b"1")])
    db(streams.append, "a", [Entry(b"1")])
    db(streams.save_offset, "b", "c", 1)
    db(streams.save_offset, "c", "c", 1)
    assert ["a", "b", "c"] == db(inspection.names, "stream")
