"""Dead jobs: how they get there, what is done with them, how they leave."""

import pytest

from alkstore_core import JobState
from alkstore_core.spi import Claim
from alkstore_core.sql import dead_letters, queues

FOREVER = 2**63 - 1


@pytest.fixture
def kill(db, put, take):
    """Store a job, claim it and bury it; give its id."""

    def run(error="boom", **options):
        (job_id,) = put(**options)
        (job,) = take()
        assert db(dead_letters.bury, "q", Claim(job.id, job.attempts), error)
        return job_id

    return run


def test_bury_moves_a_live_claims_job(db, kill):
    """A dead job keeps id, payload, headers, stamps and attempts, and says why and when."""
    job_id = kill("boom", priority=4, headers='{"a":"b"}', max_attempts=7)
    job = db(queues.get_job, "q", job_id)
    assert (JobState.DEAD, "boom", 1_000, 1) == (
        job.state,
        job.last_error,
        job.died_at,
        job.attempts,
    )
    assert (b"1", {"a": "b"}, 4, 1_000, 7) == (
        job.payload,
        job.headers,
        job.priority,
        job.created_at,
        job.max_attempts,
    )
    assert [] == db.rows("SELECT * FROM __alkstore_jobs")


def test_bury_is_fenced(db, put, take):
    """A stale, lapsed or foreign claim moves nothing."""
    put()
    (job,) = take()
    assert not db(dead_letters.bury, "q", Claim(job.id, 2), "boom")
    assert not db(dead_letters.bury, "other", Claim(job.id, 1), "boom")
    db.now = 1_301
    assert not db(dead_letters.bury, "q", Claim(job.id, 1), "boom")
    assert [] == db.rows("SELECT * FROM __alkstore_dead_jobs")


def test_sweep_moves_every_expired_job_in_any_state(db, put, take):
    """Ready, delayed, processing or set aside: past its expiry a job is dead, others stay."""
    put(expires=100)
    take()
    put(expires=10)
    put(delay=5_000, expires=10)
    kept = put(), put(expires=11), put(delay=5)
    put(queue="other", expires=10)
    db.now = 1_010
    assert 2 == db(dead_letters.sweep, "q", 100)
    put(expires=1)
    db.now = 1_011
    take(1)
    db.now = 1_100
    assert 3 == db(dead_letters.sweep, "q", 100)
    assert 0 == db(dead_letters.sweep, "q", 100)
    errors = set(db.rows("SELECT last_error, state FROM __alkstore_dead_jobs"))
    assert {("expired", "dead")} == errors
    left = [id_ for (id_,) in db.rows("SELECT id FROM __alkstore_jobs WHERE queue = 'q'")]
    assert [kept[0][0], kept[2][0]] == left


def test_sweep_is_bounded(db, put):
    """A sweep moves at most as many as it is told."""
    put(*[b"1"] * 5, expires=1)
    db.now = 1_001
    assert [2, 2, 1, 0] == [db(dead_letters.sweep, "q", 2) for _ in range(4)]


def test_retired_jobs_leave_after_their_retention(db, kill):
    """A dead job is deleted once it is older than its retention, and only then."""
    kill(dead_letter_retention_s=60)
    kill(dead_letter_retention_s=0)
    kill(dead_letter_retention_s=FOREVER)
    kill()
    assert 0 == db(dead_letters.purge_retired, "q", 100)
    db.now = 1_001
    assert 1 == db(dead_letters.purge_retired, "q", 100)
    db.now = 1_060
    assert 0 == db(dead_letters.purge_retired, "q", 100)
    db.now = 1_061
    assert 0 == db(dead_letters.purge_retired, "other", 100)
    assert 1 == db(dead_letters.purge_retired, "q", 100)
    db.now = FOREVER - 1
    assert 0 == db(dead_letters.purge_retired, "q", 100)


def test_purge_dead_takes_the_oldest_deaths(db, kill):
    """Those that died before a time are deleted, or all; a chunk at a time."""
    for now in (1_000, 1_010, 1_020, 1_030):
        db.now = now
        kill()
    assert 0 == db(dead_letters.purge_dead, "q", 1_000, 10)
    assert 1 == db(dead_letters.purge_dead, "q", 1_020, 1)
    assert 1 == db(dead_letters.purge_dead, "q", 1_020, 10)
    assert 0 == db(dead_letters.purge_dead, "other", None, 10)
    assert 2 == db(dead_letters.purge_dead, "q", None, 10)


def test_list_dead_pages_by_id(db, kill):
    """Dead jobs of a queue, by id, after an id."""
    ids = [kill() for _ in range(4)]
    pages = [db(dead_letters.list_dead, "q", 2, after) for after in (0, ids[1], ids[3])]
    assert [ids[:2], ids[2:], []] == [[job.id for job in page] for page in pages]
    assert [] == db(dead_letters.list_dead, "other", 10, 0)


def test_redrive_makes_a_fresh_job(db, kill, take):
    """Payload, headers, priority and stamps live on; attempts, times and expiry start anew."""
    job_id = kill(
        priority=4,
        expires=500,
        headers='{"a":"b"}',
        max_attempts=7,
        visibility_timeout_s=70,
        backoff_base_s=8,
        dead_letter_retention_s=9,
    )
    db.now = 2_000
    new_id = db(dead_letters.redrive, "q", job_id)
    assert new_id > job_id
    assert None is db(queues.get_job, "q", job_id)
    job = db(queues.get_job, "q", new_id)
    assert (b"1", {"a": "b"}, 4, 7, 70, 8, 9) == (
        job.payload,
        job.headers,
        job.priority,
        job.max_attempts,
        job.visibility_timeout_s,
        job.backoff_base_s,
        job.dead_letter_retention_s,
    )
    assert (JobState.PENDING, 0, 2_000, 2_000, None) == (
        job.state,
        job.attempts,
        job.run_at,
        job.created_at,
        job.expires_at,
    )
    assert (None, None, None, None) == (
        job.last_error,
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
    )
    assert [new_id] == [claimed.id for claimed in take()]


def test_redrive_needs_a_dead_job_of_the_queue(db, kill, put):
    """A live job, another queue's or nobody's: nothing happens."""
    job_id = kill()
    (alive,) = put()
    assert None is db(dead_letters.redrive, "other", job_id)
    assert None is db(dead_letters.redrive, "q", alive)
    assert None is db(dead_letters.redrive, "q", 999)
    assert JobState.DEAD is db(queues.get_job, "q", job_id).state
