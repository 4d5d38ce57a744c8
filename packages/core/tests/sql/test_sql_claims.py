"""The claim: order, deadlines, and what it does with what it does not hand out."""

import pytest

from alkstore_core import JobState
from alkstore_core.spi import Claim
from alkstore_core.sql import claims, queues, transfer
from alkstore_core.sql.connection_drivers import run_on

FOREVER = 2**63 - 1


def ids(jobs):
    """The ids of jobs, in order."""
    return [job.id for job in jobs]


def states(db):
    """How many rows stand in which state."""
    return dict(db.rows("SELECT state, count(*) FROM __alkstore_jobs GROUP BY state"))


@pytest.fixture
def small_chunks(monkeypatch):
    """Three rows are a full chunk."""
    monkeypatch.setattr(claims, "CHUNK", 3)


def test_best_first(db, put, take):
    """Priority descending, then ready time, then id; a batch comes back in that order."""
    low = put(priority=-5)
    late = put(run_at=900)
    early = put(run_at=100)
    high = put(b"1", b"2", priority=9)
    least = put(priority=-(2**63))
    assert [*high, *early] == ids(take(3))
    assert [*late, *low, *least] == ids(take(10))


def test_a_claim_is_stamped(db, put, take):
    """A claim adds an attempt, names its worker and lasts the visibility timeout from now."""
    (job_id,) = put(visibility_timeout_s=60)
    db.now = 1_050
    (job,) = take(worker="me")
    assert (job_id, JobState.PROCESSING, 1, "me", 1_050, 1_110) == (
        job.id,
        job.state,
        job.attempts,
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
    )
    assert job == db(queues.get_job, "q", job_id)
    assert [] == take()


@pytest.mark.parametrize("count", [1, 2])
def test_a_claim_may_last_for_ever(db, put, take, count):
    """A deadline beyond the last second is the last second."""
    put(*[b"1"] * count, visibility_timeout_s=FOREVER)
    assert [FOREVER] * count == [job.claim_expires_at for job in take()]
    assert {("integer",)} == set(db.rows("SELECT typeof(claim_expires_at) FROM __alkstore_jobs"))


def test_a_claim_takes_from_its_queue_only(db, put, take):
    """Jobs of other queues are not seen."""
    put(queue="other")
    assert [] == take()


def test_delayed_jobs_are_claimable_from_their_second_on(db, put, take):
    """A delayed job is handed out when its time has come, and by its place in the order."""
    delayed = put(delay=10, priority=1)
    plain = put()
    db.now = 1_009
    assert plain == ids(take())
    db.now = 1_010
    more = put()
    assert [*delayed, *more] == ids(take())


def test_a_claim_lapses_after_its_last_second(db, put, take):
    """While now is the deadline the claim is live; a second later somebody else may have it."""
    put()
    take(worker="first")
    db.now = 1_300
    assert [] == take(worker="second")
    db.now = 1_301
    (job,) = take(worker="second")
    assert (2, "second", 1_301, 1_601) == (
        job.attempts,
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
    )


def test_lapsed_jobs_keep_their_place(db, put, take):
    """What lapsed is ordered among what is ready as if it had never been claimed."""
    first = put(run_at=10)
    take()
    second = put(run_at=20)
    db.now = 1_301
    assert [*first, *second] == ids(take())


def test_lapsed_without_attempts_left_is_dead_at_the_claim(db, put, take):
    """Even when the claim would not have reached it."""
    exhausted = put(max_attempts=1, priority=-1)
    take()
    plain = put()
    db.now = 1_301
    assert plain == ids(take(1))
    job = db(queues.get_job, "q", exhausted[0])
    assert (JobState.DEAD, "max attempts exceeded", 1_301, 1, "w") == (
        job.state,
        job.last_error,
        job.died_at,
        job.attempts,
        job.worker_id,
    )


def test_expired_jobs_are_set_aside_and_never_handed_out(db, put, take):
    """Ready, delayed or lapsed: past its expiry a job waits for the sweep."""
    put(expires=10)
    put(delay=5, expires=10)
    put(priority=9, expires=10)
    take(1)
    db.now = 1_301
    plain = put()
    assert plain == ids(take())
    assert {"expired": 3, "processing": 1} == states(db)
    assert JobState.PENDING is db(queues.get_job, "q", 1).state


def test_expiry_is_exclusive(db, put, take):
    """A job is expired in the second of its expiry."""
    put(expires=10)
    db.now = 1_010
    assert [] == take()
    put(expires=1)
    assert 1 == len(take())


def test_an_exhausted_expired_job_waits_for_the_sweep(db, put, take):
    """Expiry comes before exhaustion: only the sweep moves an expired row."""
    put(max_attempts=1, expires=10)
    take()
    db.now = 1_301
    assert [] == take()
    assert {"expired": 1} == states(db)


def test_pending_without_attempts_left_is_buried_and_made_up_for(db, put, take):
    """A job loaded with its attempts used up is dead at the claim; others are handed out."""
    put(b"1", b"2", max_attempts=1)
    take()
    records = [
        record._replace(fields={**record.fields, "state": "pending"})
        for record in db(transfer.dump, "jobs", None, 10)
    ]
    db.connection.exec_driver_sql("DELETE FROM __alkstore_jobs")
    loaded = db(transfer.load, "jobs", records)
    plain = put(b"1", b"2", priority=-1)
    assert plain == ids(take(2))
    assert [(JobState.DEAD, 1, "max attempts exceeded")] * 2 == [
        (job.state, job.attempts, job.last_error)
        for job in (db(queues.get_job, "q", job_id) for job_id in loaded)
    ]


def test_order_holds_when_more_comes_due_than_a_chunk(db, put, take, small_chunks):
    """However many jobs come due at once, the best of all are handed out first."""
    for priority in (1, 5, 2, 9, 3, 7, 4, 8, 6, 0):
        put(delay=10 - priority, priority=priority)
    db.now = 2_000
    assert [9, 8] == [job.priority for job in take(2)]
    assert [7, 6, 5] == [job.priority for job in take(3)]
    assert [4, 3, 2, 1, 0] == [job.priority for job in take(10)]


def test_order_holds_when_more_lapse_than_a_chunk(db, put, take, small_chunks):
    """However many claims lapse at once, the best of all are handed out first."""
    for priority in (1, 5, 2, 9, 3, 7, 4, 8, 6, 0):
        put(priority=priority, visibility_timeout_s=100 + priority)
    take(10)
    db.now = 2_000
    assert [9, 8] == [job.priority for job in take(2)]
    assert [7, 6, 5] == [job.priority for job in take(3)]
    assert [4, 3, 2, 1, 0] == [job.priority for job in take(10)]


def test_a_claim_finds_work_behind_any_number_of_expired_jobs(db, put, take, small_chunks):
    """More expired rows at the front than a chunk hide nothing."""
    put(*[b"1"] * 10, priority=9, expires=1)
    put(*[b"1"] * 10, priority=9, delay=1, expires=2)
    plain = put()
    late = put(delay=5)
    db.now = 1_500
    assert [*plain, *late] == ids(take(5))


def test_a_claim_finds_work_behind_any_number_of_spent_jobs(db, put, take, small_chunks):
    """More exhausted claims than a chunk hide nothing, and are all buried in the end."""
    put(*[b"1"] * 10, max_attempts=1, visibility_timeout_s=1)
    good = put(visibility_timeout_s=2)
    take(11)
    db.now = 2_000
    assert good == ids(take(1))
    while states(db).get("processing", 0) > 1:
        assert [] == take(1)
    assert [(10,)] == db.rows("SELECT count(*) FROM __alkstore_dead_jobs")


def test_a_batch_larger_than_a_chunk_is_filled(db, put, take, small_chunks):
    """The chunk bounds the work, not the batch."""
    put(*[b"1"] * 20, delay=5)
    db.now = 1_005
    assert list(range(1, 16)) == ids(take(15))


def test_waiting_jobs_cost_a_claim_nothing(db, put, take):
    """A claim with nothing due is a question, a look and a change."""
    put(*[b"1"] * 50, delay=500, priority=9)
    put()
    statements = []
    generator = claims.claim("q", "w", 1)

    def counted():
        value = None
        while True:
            try:
                statement, given = generator.send(value)
            except StopIteration as stop:
                return stop.value
            statements.append(statement)
            value = yield statement, given

    assert 1 == len(run_on(db.connection, lambda: db.now, counted))
    assert [claims.PROBE, claims.BEST, claims.CLAIM] == statements


def test_a_stale_handle_cannot_touch_the_next_claim(db, put, take):
    """The same worker's earlier claim is another one: it is told by its attempt."""
    put()
    (old,) = take(worker="me")
    db.now = 1_301
    (new,) = take(worker="me")
    assert 0 == db(queues.ack, "q", [Claim(old.id, old.attempts)])
    assert 1 == db(queues.ack, "q", [Claim(new.id, new.attempts)])


@pytest.mark.parametrize(
    ("column", "stored", "read"),
    [
        ("max_attempts", "'x'", None),
        ("visibility_timeout_s", "'long'", 0),
        ("visibility_timeout_s", "x'00'", 0),
        ("backoff_base_s", "'x'", 0),
        ("backoff_base_s", "0.5", 1),
        ("backoff_base_s", "9e999", 0),
    ],
)
def test_numbers_that_somebody_wrote_as_something_else(db, put, take, column, stored, read):
    """Such a row holds up no other: the queue would stand still, or its worker end."""
    odd, good = put(b"1", b"2")
    db.rows(f"UPDATE __alkstore_jobs SET {column} = {stored} WHERE id = {odd} RETURNING id")

    found = {job.id: job for job in take()}

    assert good in found
    assert read == (getattr(found[odd], column) if odd in found else None)
