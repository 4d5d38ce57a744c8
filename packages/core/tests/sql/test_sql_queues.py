"""Jobs between enqueue and their end."""

import pytest

from alkstore_core import JobState
from alkstore_core.spi import Claim
from alkstore_core.sql import queues

FOREVER = 2**63 - 1


def claim_of(job):
    """The claim that made a handle of `job`."""
    return Claim(job.id, job.attempts)


def test_a_plain_job_is_pending_now(db, put):
    """Without options a job is ready at once, never expires and carries what it was given."""
    (job_id,) = put(b'{"n":1}', priority=7, headers='{"a":"b"}', dead_letter_retention_s=60)
    job = db(queues.get_job, "q", job_id)
    assert (b'{"n":1}', {"a": "b"}, JobState.PENDING) == (job.payload, job.headers, job.state)
    assert (7, 1_000, 1_000, None) == (job.priority, job.run_at, job.created_at, job.expires_at)
    assert (0, 3, 300, 5, 60) == (
        job.attempts,
        job.max_attempts,
        job.visibility_timeout_s,
        job.backoff_base_s,
        job.dead_letter_retention_s,
    )
    assert (None, None, None, None, None) == (
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
        job.last_error,
        job.died_at,
    )


@pytest.mark.parametrize("payloads", [(b"1",), (b"1", b"2")], ids=["one", "many"])
@pytest.mark.parametrize(
    ("options", "run_at", "expires_at", "stored"),
    [
        ({"delay": 5}, 1_005, None, "delayed"),
        ({"delay": 0}, 1_000, None, "ready"),
        ({"delay": -5}, 995, None, "ready"),
        ({"delay": FOREVER}, FOREVER, None, "delayed"),
        ({"delay": FOREVER - 1_000}, FOREVER, None, "delayed"),
        ({"delay": FOREVER - 1_001}, FOREVER - 1, None, "delayed"),
        ({"delay": -(2**63)}, -(2**63) + 1_000, None, "ready"),
        ({"run_at": 1_001}, 1_001, None, "delayed"),
        ({"run_at": 1_000}, 1_000, None, "ready"),
        ({"run_at": -(2**63)}, -(2**63), None, "ready"),
        ({"run_at": FOREVER}, FOREVER, None, "delayed"),
        ({"expires": 9}, 1_000, 1_009, "ready"),
        ({"expires": -9}, 1_000, 991, "ready"),
        ({"expires": FOREVER}, 1_000, FOREVER, "ready"),
        ({"delay": 5, "expires": 9}, 1_005, 1_009, "delayed"),
    ],
)
def test_times_are_stamped_and_saturate(db, put, payloads, options, run_at, expires_at, stored):
    """Ready time and expiry are integers of the range, whatever is added to now."""
    put(*payloads, **options)
    expected = (run_at, "integer", expires_at, stored)
    found = db.rows(
        "SELECT run_at, typeof(run_at), expires_at, state FROM __alkstore_jobs ORDER BY id"
    )
    assert [expected] * len(payloads) == found


def test_ids_come_in_input_order_and_are_never_given_twice(db, put):
    """A batch's ids ascend with its payloads, also after the table was emptied."""
    payloads = [b"%d" % number for number in range(1_000)]
    ids = put(*payloads)
    assert payloads == [db(queues.get_job, "q", job_id).payload for job_id in ids]
    db.connection.exec_driver_sql("DELETE FROM __alkstore_jobs")
    assert put()[0] > ids[-1]
    assert put(b"1", b"2")[0] > ids[-1] + 1


def test_nothing_is_stored_for_no_payloads(db, spec):
    """An empty batch is an empty list."""
    assert [] == db(queues.insert_jobs, "q", [], spec())


@pytest.mark.parametrize(
    "payload",
    [
        b'"\\u0000"',
        b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
        '"😀 ü \u2028 \x7f"'.encode(),
        b'"\\ud83d\\ude00"',
        b'{"$":[1,2.50,1e5,"$[0]"]}',
        b"123456789012345678901234567890",
        b'""',
    ],
)
def test_the_exact_bytes_come_back(db, put, payload):
    """A payload is stored byte for byte, alone or in a batch."""
    ids = [*put(payload), *put(payload, payload)]
    assert [payload] * 3 == [db(queues.get_job, "q", job_id).payload for job_id in ids]
    assert {("blob",)} == set(db.rows("SELECT typeof(payload) FROM __alkstore_jobs"))


@pytest.mark.parametrize("others", [0, 2], ids=["one", "many"])
def test_ack_is_fenced_by_claim_and_deadline(db, put, take, others):
    """Only a live claim acks, through the last second of its deadline, and only once."""
    put(*[b"1"] * (1 + others))
    claims = [claim_of(job) for job in take()]
    stale = [Claim(claim.id, claim.attempt + 1) for claim in claims]
    assert 0 == db(queues.ack, "q", stale)
    assert 0 == db(queues.ack, "other", claims)
    db.now = 1_301
    assert 0 == db(queues.ack, "q", claims)
    db.now = 1_300
    assert 1 + others == db(queues.ack, "q", claims)
    assert 0 == db(queues.ack, "q", claims)


def test_ack_counts_each_job_once(db, put, take):
    """Strangers and repeats in a batch are ignored."""
    put(b"1", b"2", b"3")
    first, second, third = [claim_of(job) for job in take()]
    batch = [first, first, Claim(999, 1), Claim(third.id, 2), second]
    assert 2 == db(queues.ack, "q", batch)
    assert [(third.id,)] == db.rows("SELECT id FROM __alkstore_jobs")


@pytest.mark.parametrize("again", [[1], [0, 2], [0, 1, 2]])
def test_a_batch_may_hold_claims_of_several_attempts(db, put, take, again):
    """Each claim of a batch is acked by its own attempt, and only by that."""
    put(b"1", b"2", b"3")
    claims = [claim_of(job) for job in take()]
    for index in again:
        assert db(queues.requeue, "q", claims[index], 0, None)
    newer = {job.id: claim_of(job) for job in take()}
    assert 3 - len(again) == db(queues.ack, "q", claims)
    assert len(again) == db(queues.ack, "q", [newer.get(claim.id, claim) for claim in claims])


def test_many_acks_are_one_statement(db, put, take):
    """Forty thousand claims are acked at once."""
    put(*[b"1"] * 40_000)
    assert 40_000 == db(queues.ack, "q", [claim_of(job) for job in take(40_000)])


def test_bare_ids_are_fenced_by_worker_and_deadline(db, put, take):
    """An id acks while the worker who names it holds a live claim on it."""
    put(b"1", b"2", b"3")
    (mine,) = take(1, "me")
    (theirs,) = take(1, "they")
    ids = [mine.id, mine.id, theirs.id, theirs.id + 1, 999]
    assert 0 == db(queues.ack_ids, "other", ids, "me")
    db.now = 1_301
    assert 0 == db(queues.ack_ids, "q", ids, "me")
    db.now = 1_300
    assert 1 == db(queues.ack_ids, "q", ids, "me")
    assert [(theirs.id,), (theirs.id + 1,)] == db.rows("SELECT id FROM __alkstore_jobs")


@pytest.mark.parametrize("others", [0, 2], ids=["one", "many"])
def test_extend_counts_from_now(db, put, take, others):
    """A live claim ends `seconds` from now, not from its old deadline; a lapsed one stays."""
    ids = put(*[b"1"] * (1 + others))
    claims = [claim_of(job) for job in take()]
    db.now = 1_300
    assert ids == db(queues.extend, "q", claims, 10)
    assert 1_310 == db(queues.get_job, "q", ids[0]).claim_expires_at
    assert ids == db(queues.extend, "q", claims, FOREVER)
    assert FOREVER == db(queues.get_job, "q", ids[0]).claim_expires_at
    assert ids == db(queues.extend, "q", claims, 1)
    db.now = 1_302
    assert [] == db(queues.extend, "q", claims, 10)
    assert 1_301 == db(queues.get_job, "q", ids[0]).claim_expires_at


def test_requeue_makes_pending_again(db, put, take):
    """A retried job waits its delay, keeps its attempts and expiry, and says why it failed."""
    put(expires=9_000)
    (job,) = take()
    db.now = 1_010
    assert db(queues.requeue, "q", claim_of(job), 30, "boom")
    job = db(queues.get_job, "q", job.id)
    assert (JobState.PENDING, 1_040, 1, "boom") == (
        job.state,
        job.run_at,
        job.attempts,
        job.last_error,
    )
    assert (10_000, None, None, None) == (
        job.expires_at,
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
    )
    assert [] == take()
    db.now = 1_040
    assert [2] == [job.attempts for job in take()]


@pytest.mark.parametrize("delay", [0, -(2**63)])
def test_requeue_without_delay_is_claimable_at_once(db, put, take, delay):
    """A delay of 0 or less leaves nothing to wait for."""
    put()
    (job,) = take()
    assert db(queues.requeue, "q", claim_of(job), delay, None)
    assert [job.id] == [again.id for again in take()]


def test_requeue_is_fenced(db, put, take):
    """A stale or lapsed claim changes nothing."""
    put()
    (job,) = take()
    assert not db(queues.requeue, "q", Claim(job.id, 2), 0, "boom")
    db.now = 1_301
    assert not db(queues.requeue, "q", claim_of(job), 0, "boom")
    assert job == db(queues.get_job, "q", job.id)


def test_release_is_as_if_never_claimed(db, put, take):
    """A job that is given back has its attempt again and its place in the queue."""
    put(b"1", b"2")
    jobs = take()
    db(queues.requeue, "q", claim_of(jobs[0]), 0, "boom")
    again = take(1)
    assert 1 == db(queues.release, "q", [claim_of(again[0])])
    job = db(queues.get_job, "q", jobs[0].id)
    assert (JobState.PENDING, 1, "boom", None, None, None) == (
        job.state,
        job.attempts,
        job.last_error,
        job.worker_id,
        job.claimed_at,
        job.claim_expires_at,
    )


def test_release_of_a_lapsed_claim_is_refused(db, put, take):
    """A claim that has lapsed has used its attempt."""
    put()
    (job,) = take()
    db.now = 1_301
    assert 0 == db(queues.release, "q", [claim_of(job)])
    db.now = 1_300
    assert 0 == db(queues.release, "other", [claim_of(job)])
    assert 1 == db(queues.release, "q", [claim_of(job)])


def test_unseen_claims_are_given_back_unless_another_came(db, put, take):
    """A claim nobody got to see cannot be late; once somebody else claimed, it is theirs."""
    put(b"1", b"2")
    first, second = take()
    db.now = 5_000
    assert 1 == db(queues.release_unseen, "q", [claim_of(first)])
    assert 2 == len(take())
    assert 0 == db(queues.release_unseen, "q", [claim_of(second)])
    assert 2 == db(queues.get_job, "q", second.id).attempts


def test_release_before_the_ready_time_waits_for_it(db, put, take):
    """A job given back when time stands before its `run_at` is delayed, not ready."""
    put(delay=10)
    db.now = 1_010
    (job,) = take()
    db.now = 1_005
    db(queues.release, "q", [claim_of(job)])
    assert [("delayed", 0)] == db.rows("SELECT state, attempts FROM __alkstore_jobs")


def test_delete_and_get_see_one_queue(db, put, take):
    """`get_job` and `delete_job` know the jobs of their queue only, in any live state."""
    first, second = put(b"1", b"2")
    take(1)
    assert None is db(queues.get_job, "other", first)
    assert not db(queues.delete_job, "other", first)
    assert JobState.PROCESSING is db(queues.get_job, "q", first).state
    assert db(queues.delete_job, "q", first)
    assert db(queues.delete_job, "q", second)
    assert not db(queues.delete_job, "q", second)
    assert None is db(queues.get_job, "q", first)
