"""The model's queues, by examples worked out by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from alkstore_contract.model.jobs import PLAIN, Job, Options, Stamps, backoff
from alkstore_contract.model.numbers import later
from alkstore_contract.model.queues import Queues

NEVER = 9_223_372_036_854_775_807


def job(id_, *, now=100, queue="work", stamps=PLAIN, **options):
    """Return a job as it is enqueued."""
    return Job.enqueued(now, id_, queue, b"null", Options(**options), stamps)


def queues(*jobs):
    """Return a table with these jobs."""
    table = Queues()
    for one in jobs:
        table.enqueue(one)
    return table


def ids(jobs):
    """Return their ids."""
    return [one.id for one in jobs]


def test_a_sum_stops_at_the_ends_of_the_range():
    """What would leave 64 bits is the last second, or the first."""
    assert later(100, 5) == 105
    assert later(100, NEVER) == NEVER
    assert later(-100, -(2**63)) == -(2**63)


@pytest.mark.parametrize(
    ("options", "run_at"),
    [
        ({}, 100),
        ({"delay": 5}, 105),
        ({"delay": -5}, 95),
        ({"delay": NEVER}, NEVER),
        ({"run_at": 7}, 7),
        ({"delay": 5, "run_at": 7}, 105),
    ],
)
def test_when_a_job_is_ready(options, run_at):
    """`delay` counts from now and wins over `run_at`; neither means now."""
    assert job(1, **options).run_at == run_at


@pytest.mark.parametrize(
    ("asked", "stamped", "gets"), [(None, 3, 3), (None, 0, 1), (5, 3, 5), (0, 3, 1), (-2, 3, 1)]
)
def test_how_many_attempts_a_job_has(asked, stamped, gets):
    """The enqueue's wish, else the queue's; at least one."""
    one = job(1, stamps=Stamps(attempts=stamped), max_attempts=asked)
    assert one.max_attempts == gets


def test_the_order_of_claims():
    """Priority descending, then ready time, then id."""
    table = queues(job(1, run_at=50), job(2, run_at=40), job(3, priority=9), job(4, run_at=40))
    assert ids(table.claim(100, "work", "ann", 3)) == [3, 2, 4]
    assert ids(table.claim(100, "work", "ann", 3)) == [1]
    assert ids(table.claim(100, "work", "ann", 3)) == []


def test_what_is_not_claimable():
    """Delayed, expired, of another queue, under a live claim; and nothing for 0 or less."""
    table = queues(job(1, delay=1), job(2, expires=0), job(3, queue="mail"), job(4))
    assert ids(table.claim(100, "work", "ann", 9)) == [4]
    assert ids(table.claim(100, "work", "ann", 9)) == []
    assert ids(table.claim(101, "work", "ann", 0)) == []
    assert ids(table.claim(101, "work", "ann", -1)) == []
    assert ids(table.claim(101, "work", "ann", 1)) == [1]


def test_a_claim_lasts_through_its_deadline():
    """It counts as an attempt, and the job is claimable one second after the deadline."""
    table = queues(job(1, stamps=Stamps(visibility=10)))
    (claimed,) = table.claim(100, "work", "ann", 1)
    assert (claimed.attempts, claimed.claim.since, claimed.claim.until) == (1, 100, 110)
    assert table.claim(110, "work", "bob", 1) == []
    assert table.heartbeat(110, (1, 1), 5)
    assert table.claim(115, "work", "bob", 1) == []
    assert table.claim(116, "work", "bob", 1)[0].attempts == 2
    assert not table.ack(116, (1, 1))
    assert table.ack(116, (1, 2))
    assert table.get("work", 1) is None


def test_a_job_without_attempts_left_is_not_handed_out():
    """A claim that meets it buries it; one that runs dry has met it."""
    table = queues(job(1, max_attempts=1, stamps=Stamps(visibility=10)))
    table.claim(100, "work", "ann", 1)
    assert table.claim(111, "work", "ann", 1) == []
    spent = table.live[1]
    (dead,) = table.leftover(111, spent, dry=True)
    assert (dead.died_at, dead.last_error) == (111, "max attempts exceeded")
    assert table.leftover(111, spent, dry=False) == [dead, spent]
    table.adopt(dead)
    assert ids(table.dead_jobs("work")) == [1]
    assert table.jobs("work") == []


def test_a_lapsed_job_that_is_not_handed_out_may_be_pending_again():
    """Either is right; an expired one is buried by nobody but the sweep."""
    table = queues(job(1, expires=5, max_attempts=1, stamps=Stamps(visibility=10)))
    table.claim(100, "work", "ann", 1)
    lapsed = table.live[1]
    assert table.leftover(111, lapsed, dry=True) == [lapsed, evolve(lapsed, claim=None)]


@pytest.mark.parametrize(
    ("base", "attempt", "bounds"),
    [
        (5, 1, (2, 5)),
        (5, 2, (5, 10)),
        (5, 3, (10, 20)),
        (5, 10, (1280, 2560)),
        (5, 11, (1800, 3600)),
        (1, 1, (0, 1)),
        (0, 4, (0, 0)),
        (-3, 1, (0, 0)),
        (5000, 1, (1800, 3600)),
    ],
)
def test_the_wait_after_an_attempt(base, attempt, bounds):
    """Base, twice the base, … up to an hour; from half of it on."""
    assert backoff(base, attempt) == bounds


def test_a_retry_makes_pending_or_dead():
    """With attempts left the job waits; without, it is dead with the error, or the standard one."""
    table = queues(job(1, max_attempts=2), job(2, max_attempts=1))
    table.claim(100, "work", "ann", 2)
    assert table.retry(100, (1, 1), "boom", 7)
    again = table.live[1]
    assert (again.claim, again.run_at, again.last_error, again.attempts) == (None, 107, "boom", 1)
    assert table.retry(100, (2, 1), None, 7)
    assert table.dead[2].last_error == "max attempts exceeded"
    assert not table.retry(100, (2, 1), None, 7)


def test_fail_buries_and_release_undoes():
    """`fail` is at once, with the error or the standard one; `release` restores the attempt."""
    table = queues(job(1), job(2), job(3))
    table.claim(100, "work", "ann", 3)
    assert table.fail(100, (1, 1), None)
    assert table.fail(100, (2, 1), "why")
    assert [table.dead[id_].last_error for id_ in (1, 2)] == ["failed", "why"]
    assert table.release(100, (3, 1))
    assert table.live[3] == job(3)


def test_ack_by_id_is_fenced_by_worker_queue_and_deadline():
    """Repeats and strangers do not count."""
    table = queues(job(1), job(2), job(3, queue="mail"), job(4))
    table.claim(100, "work", "ann", 1)
    table.claim(100, "work", "bob", 1)
    table.claim(100, "mail", "ann", 1)
    assert table.ack_ids(401, "work", [1], "ann") == 0
    assert table.ack_ids(400, "work", [1, 1, 2, 3, 4, 9], "ann") == 1
    assert ids(table.jobs("work")) == [2, 4]


def test_a_sweep_buries_what_is_expired_and_forgets_what_is_old():
    """In any state; retention is exceeded, not reached."""
    kept = Stamps(retention=10)
    table = queues(job(1, expires=5, stamps=kept), job(2, expires=5), job(3, expires=6))
    table.claim(100, "work", "ann", 1)
    assert table.sweep(104, "work") == 0
    assert table.sweep(105, "work") == 2
    assert [(d.id, d.last_error) for d in table.dead_jobs("work")] == [
        (1, "expired"),
        (2, "expired"),
    ]
    assert table.sweep(115, "work") == 1
    assert ids(table.dead_jobs("work")) == [1, 2, 3]
    assert table.sweep(116, "work") == 0
    assert ids(table.dead_jobs("work")) == [2, 3]
    assert table.purge("work", 115) == 1
    assert table.purge("work", None) == 1


def test_a_redriven_job_is_a_fresh_one():
    """New id, no attempts, due now, no expiry; payload, headers, priority and stamps stay."""
    table = queues(job(1, priority=4, expires=50, headers={"a": "b"}, max_attempts=7))
    table.claim(100, "work", "ann", 1)
    table.fail(100, (1, 1), None)
    assert table.redrive(120, "mail", 1, 2) is None
    fresh = table.redrive(120, "work", 1, 2)
    assert fresh == job(2, now=120, priority=4, headers={"a": "b"}, max_attempts=7)
    assert table.dead == {}
    assert table.redrive(120, "work", 2, 3) is None


def test_each_job_is_counted_once():
    """Under a live claim a job is processing, also past its expiry."""
    short = Stamps(visibility=10)
    table = queues(
        job(1, expires=5, stamps=short),
        job(2, stamps=short),
        job(3),
        job(4, delay=20),
        job(5, delay=20, expires=5),
        job(6, run_at=80),
    )
    table.claim(100, "work", "ann", 3)
    assert table.stats(105, "work").processing == 3
    stats = table.stats(111, "work")
    assert (stats.ready, stats.delayed, stats.processing) == (1, 1, 1)
    assert (stats.lapsed, stats.expired, stats.dead) == (1, 2, 0)
    assert stats.oldest_ready_age_s == 11
    assert queues().stats(111, "work").oldest_ready_age_s is None


def test_only_jobs_of_the_queue_are_seen_and_cancelled():
    """Dead ones are seen too, and not cancelled."""
    table = queues(job(1), job(2))
    table.claim(100, "work", "ann", 1)
    table.fail(100, (1, 1), None)
    assert table.get("work", 1).died_at == 100
    assert table.get("mail", 1) is None
    assert not table.cancel("work", 1)
    assert not table.cancel("mail", 2)
    assert table.cancel("work", 2)
    assert table.names() == {"work"}
