"""Queues and job handles: what core decides before the engine stores."""

import pytest

from alkstore_core import (
    CodecError,
    DatabaseError,
    EnqueueOpts,
    Job,
    JobHandle,
    JobState,
    QueueOpts,
    ScheduleOpts,
)


@pytest.fixture
def queue(store):
    """A queue of two attempts."""
    return store.queue("q", QueueOpts(visibility_timeout_s=10, max_attempts=2, backoff_base_s=8))


async def claimed(queue, payload=1):
    """A handle on a fresh job."""
    await queue.enqueue(payload)
    return await queue.claim_one("w")


async def test_handle_options_are_stamped(engine, queue):
    """A job carries the options of the handle that enqueued it."""
    await queue.enqueue({"a": [1, None]})

    expected = Job(
        id=1,
        queue="q",
        payload=b'{"a":[1,null]}',
        headers=None,
        state=JobState.PENDING,
        priority=0,
        run_at=1_000,
        created_at=1_000,
        expires_at=None,
        attempts=0,
        max_attempts=2,
        visibility_timeout_s=10,
        backoff_base_s=8,
        dead_letter_retention_s=None,
        worker_id=None,
        claimed_at=None,
        claim_expires_at=None,
        last_error=None,
        died_at=None,
    )
    assert expected == await queue.get_job(1)


async def test_enqueue_options_go_over_the_handle(queue):
    """Options of one enqueue win over the handle's."""
    opts = EnqueueOpts(delay=5, priority=3, max_attempts=9, expires=60, headers={"trace": "x"})
    number = await queue.enqueue(1, opts)

    job = await queue.get_job(number)
    assert (1_005, 3, 9, 1_060) == (job.run_at, job.priority, job.max_attempts, job.expires_at)
    assert {"trace": "x"} == job.headers


async def test_transaction_stamps_plain_defaults(store, queue):
    """`enqueue_tx` knows no handle: it stamps 300 s, 3 attempts, backoff from 5 s."""
    number = await store.with_tx(lambda tx: tx.enqueue_tx("q", 1))

    job = await queue.get_job(number)
    assert (300, 3, 5) == (job.visibility_timeout_s, job.max_attempts, job.backoff_base_s)


async def test_enqueue_many_is_one_round_trip_in_order(engine, queue):
    """A batch costs one call of the engine, and its ids come in input order."""
    engine.calls.clear()

    assert [1, 2, 3] == await queue.enqueue_many(["a", "b", "c"])
    assert [] == await queue.enqueue_many([])

    assert ["insert_jobs"] == engine.calls
    assert [b'"a"', b'"b"', b'"c"'] == [job.payload for job in await queue.jobs()]


async def test_enqueue_many_names_the_payload_that_failed(engine, queue):
    """One payload that is not JSON fails the batch, and the error says which."""
    with pytest.raises(CodecError, match="payload 1: "):
        await queue.enqueue_many([1, float("inf")])
    with pytest.raises(DatabaseError, match="not one str"):
        await queue.enqueue_many("abc")

    assert {} == engine.data.jobs


async def test_claim_without_extent_touches_nothing(engine, queue):
    """A claim of 0 or fewer jobs is empty and does not reach the engine."""
    engine.calls.clear()

    assert [] == await queue.claim_batch("w", 0)
    assert [] == await queue.claim_batch("w", -(2**63))

    assert [] == engine.calls


async def test_claim_of_any_size_is_one_bounded_call(engine, queue, monkeypatch):
    """A claim of 2**63-1 jobs is one call for at most 100,000."""
    limits = []

    async def claim(queue, worker, limit):
        limits.append(limit)
        return []

    monkeypatch.setattr(engine.auto, "claim", claim, raising=False)

    assert [] == await queue.claim_batch("w", 2**63 - 1)
    assert [100_000] == limits


async def test_claims_come_as_handles(queue):
    """A claim gives handles in claim order, each with the job as it was claimed."""
    await queue.enqueue_many(["a", "b"])

    first, second = await queue.claim_batch("w", 5)

    assert isinstance(first, JobHandle)
    assert ['"a"', '"b"'] == [first.job.payload.decode(), second.job.payload.decode()]
    assert ("w", 1, 1_010) == (
        first.job.worker_id,
        first.job.attempts,
        first.job.claim_expires_at,
    )
    assert None is await queue.claim_one("w")


async def test_ack_is_one_shot(engine, queue):
    """`ack` deletes; afterwards the handle is settled and every call gives `False`."""
    handle = await claimed(queue)
    assert not handle.settled

    assert True is await handle.ack()

    engine.calls.clear()
    assert handle.settled
    assert [False] * 5 == [
        await handle.ack(),
        await handle.retry(),
        await handle.fail(),
        await handle.heartbeat(5),
        await handle.release(),
    ]
    assert [] == engine.calls
    assert None is await queue.get_job(1)


async def test_failed_call_may_be_repeated(engine, queue):
    """A settling call that raised has not settled the handle."""
    handle = await claimed(queue)
    engine.faults["ack"].append(DatabaseError("connection lost"))
    with pytest.raises(DatabaseError):
        await handle.ack()

    assert not handle.settled
    assert await handle.ack()


async def test_lapsed_claim_is_refused(clock, queue):
    """After the deadline every call gives `False` and changes nothing."""
    await queue.enqueue_many([1, 2, 3, 4])
    ack, retry, fail, beat = await queue.claim_batch("w", 4)
    await clock.advance(11)

    assert [False, False, False, False] == [
        await ack.ack(),
        await retry.retry("e"),
        await fail.fail("e"),
        await beat.heartbeat(5),
    ]
    assert ack.settled
    assert not beat.settled
    assert 4 == len(await queue.jobs(JobState.PROCESSING))


async def test_retry_waits_with_backoff(queue):
    """A retry with attempts left waits between half and all of base * 2**(attempt-1)."""
    handle = await claimed(queue)

    assert await handle.retry("broken pipe")

    job = await queue.get_job(1)
    assert (JobState.PENDING, "broken pipe") == (job.state, job.last_error)
    assert 1_004 <= job.run_at <= 1_008


@pytest.mark.parametrize(("delay", "run_at"), [(30, 1_030), (0, 1_000), (-(2**63), 1_000)])
async def test_retry_after_a_given_delay(queue, delay, run_at):
    """A given delay wins over the backoff; 0 or less means at once."""
    handle = await claimed(queue)

    await handle.retry(delay=delay)

    job = await queue.get_job(1)
    assert (run_at, None) == (job.run_at, job.last_error)


@pytest.mark.parametrize(("error", "last_error"), [("e", "e"), (None, "max attempts exceeded")])
async def test_retry_without_attempts_left_buries(queue, error, last_error):
    """A retry after the last attempt is a dead job, with its error or the engine's."""
    handle = await claimed(queue)
    await handle.retry(delay=0)
    handle = await queue.claim_one("w")

    assert await handle.retry(error, delay=99)

    job = await queue.get_job(1)
    assert (JobState.DEAD, last_error, 2) == (job.state, job.last_error, job.attempts)


@pytest.mark.parametrize(("error", "last_error"), [("e", "e"), ("", ""), (None, "failed")])
async def test_fail_buries_at_once(queue, error, last_error):
    """`fail` makes a dead job whatever attempts are left."""
    handle = await claimed(queue)

    assert await handle.fail(error)

    job = await queue.get_job(1)
    assert (JobState.DEAD, last_error) == (job.state, job.last_error)


async def test_error_texts_may_hold_anything(queue):
    """A text that no database stores is escaped and cut, and the move lands."""
    handle = await claimed(queue)

    assert await handle.fail("\0\ud800" + "x" * 100_000)

    error = (await queue.get_job(1)).last_error
    assert error.startswith(r"\x00\ud800xxx")
    assert 8192 == len(error)


async def test_exceptions_are_error_texts(queue):
    """An exception is as good as its text."""
    handle = await claimed(queue)

    await handle.retry(ValueError("no"))

    assert "ValueError: no" == (await queue.get_job(1)).last_error


async def test_heartbeat_sets_the_deadline_anew(queue):
    """A heartbeat is repeatable and counts from now, not from the old deadline."""
    handle = await claimed(queue)

    assert await handle.heartbeat(100)
    assert await handle.heartbeat(20)

    assert 1_020 == (await queue.get_job(1)).claim_expires_at
    assert not handle.settled


async def test_release_restores_the_attempt(queue):
    """A released job is as if never claimed."""
    handle = await claimed(queue)

    assert await handle.release()

    job = await queue.get_job(1)
    assert (JobState.PENDING, 0, 1_000) == (job.state, job.attempts, job.run_at)


async def test_a_lapsed_claim_is_not_given_back(clock, queue):
    """A claim that lapsed has used its attempt: `release` is refused like every other call."""
    handle = await claimed(queue)
    await clock.advance(11)

    assert not await handle.release()

    job = await queue.get_job(1)
    assert (JobState.PROCESSING, 1) == (job.state, job.attempts)


async def test_ack_batch_counts_what_it_deleted(clock, store, queue):
    """Handles by their claim, ids by worker; strangers and repeats are ignored."""
    await queue.enqueue_many(range(6))
    other = store.queue("other")
    await other.enqueue(1)
    foreign = await other.claim_one("w")
    a, b, c, d = await queue.claim_batch("w", 4)
    await queue.claim_one("somebody else")
    await b.retry(delay=99)

    acked = await queue.ack_batch(
        [a, a, a.job.id, b, c.job.id, c.job.id, 5, 6, 99, -1, foreign, 2**63 - 1], "w"
    )

    assert 2 == acked
    assert a.settled
    assert not foreign.settled
    assert [2, 4, 5, 6] == [job.id for job in await queue.jobs()]
    assert await d.ack()


async def test_ack_batch_fences_handles_by_claim(clock, queue):
    """A handle whose job was claimed again acks nothing, even for the same worker."""
    stale = await claimed(queue)
    await clock.advance(11)
    fresh = await queue.claim_one("w")

    assert 0 == await queue.ack_batch([stale], "w")
    assert 1 == await queue.ack_batch([fresh], "w")


async def test_ack_batch_takes_any_number(engine, queue):
    """Any number of handles and ids goes in pieces of 1,000."""
    await queue.enqueue_many(range(2_500))
    handles = await queue.claim_batch("w", 2_500)
    engine.calls.clear()

    assert 2_500 == await queue.ack_batch([*handles, *range(1, 40_001)], "w")
    assert (3, 40) == (engine.calls.count("ack"), engine.calls.count("ack_ids"))


async def test_ack_batch_that_failed_can_be_repeated(engine, queue):
    """What a failed piece did not settle is settled by the next call."""
    await queue.enqueue_many(range(1_500))
    handles = await queue.claim_batch("w", 1_500)
    gone = engine.hold("after", "ack")
    gone.open()
    engine.faults["ack"] += [DatabaseError("connection lost")]
    with pytest.raises(DatabaseError):
        await queue.ack_batch(handles, "w")

    assert 1_500 == await queue.ack_batch(handles, "w")


async def test_release_batch_gives_back(store, queue):
    """Jobs of this queue are given back and counted; settled and foreign ones are ignored."""
    await queue.enqueue_many([1, 2, 3])
    a, b, c = await queue.claim_batch("w", 3)
    await c.ack()
    foreign = await claimed(store.queue("other"))

    assert 2 == await queue.release_batch([a, b, b, c, foreign])
    assert a.settled
    assert [0, 0] == [job.attempts for job in await queue.jobs()]
    with pytest.raises(DatabaseError, match="takes job handles, not int"):
        await queue.release_batch([1])


async def test_heartbeat_batch_extends_what_is_live(engine, store, queue, clock):
    """Several claims in one round trip; returned are those that are still ours, by id."""
    await queue.enqueue_many([1, 2, 3, 4])
    a, b, c, d = await queue.claim_batch("w", 4)
    await c.ack()
    await queue.cancel(d.job.id)
    foreign = await claimed(store.queue("other"))
    await clock.advance(10)
    engine.calls.clear()

    assert [a, b] == await queue.heartbeat_batch([b, a, a, c, d, foreign], 1_000)
    assert ["extend"] == engine.calls
    assert [2_010, 2_010] == [job.claim_expires_at for job in await queue.jobs()]
    assert [] == await queue.heartbeat_batch([], 5)
    await clock.advance(1_001)
    assert [] == await queue.heartbeat_batch([a, b], 1_000)


async def test_heartbeat_batch_works_in_pieces(engine, queue):
    """Any number, in pieces of 1,000."""
    await queue.enqueue_many(range(2_500))
    handles = await queue.claim_batch("w", 2_500)

    assert handles == await queue.heartbeat_batch(handles, 60)
    assert 3 == engine.calls.count("extend")


@pytest.mark.parametrize("extend", [0, -1, True, 1.5])
async def test_heartbeat_batch_checks_its_arguments(queue, extend):
    """A duration above 0, and handles."""
    with pytest.raises(DatabaseError, match="extend must be"):
        await queue.heartbeat_batch([], extend)
    with pytest.raises(DatabaseError, match="heartbeat_batch takes job handles, not int"):
        await queue.heartbeat_batch([1], 60)


async def test_sweep_works_in_pieces(engine, clock, store):
    """A sweep moves every expired job and then deletes what is past its retention."""
    queue = store.queue("q", QueueOpts(dead_letter_retention_s=50))
    await queue.enqueue_many(range(2_500), EnqueueOpts(expires=10))
    await queue.enqueue(1)
    await clock.advance(10)

    assert 2_500 == await queue.sweep_expired()
    assert 3 == engine.calls.count("sweep")
    assert 2_500 == (await queue.stats()).dead

    await clock.advance(51)
    assert 0 == await queue.sweep_expired()
    assert 0 == (await queue.stats()).dead
    assert 1 == (await queue.stats()).ready


async def test_listing_by_state(queue):
    """Jobs are listed by state, from an id on, and at most so many."""
    await queue.enqueue_many(range(5))
    handle = await queue.claim_one("w")
    await queue.claim_one("w")
    await handle.fail()

    assert [2, 3, 4, 5] == [job.id for job in await queue.jobs()]
    assert [3, 4] == [job.id for job in await queue.jobs("pending", limit=2)]
    assert [5] == [job.id for job in await queue.jobs(JobState.PENDING, after_id=4)]
    assert [2] == [job.id for job in await queue.jobs("processing")]
    assert [1] == [job.id for job in await queue.jobs("dead")]
    assert [1] == [job.id for job in await queue.dead_jobs()]
    assert [] == await queue.jobs(limit=0)
    assert [] == await queue.dead_jobs(limit=-1)
    with pytest.raises(DatabaseError, match="state must be"):
        await queue.jobs("ready")


async def test_redrive_makes_a_fresh_job(queue):
    """A redriven job has a new id; what is not a dead job of this queue is `None`."""
    handle = await claimed(queue)
    await handle.fail()

    assert 2 == await queue.redrive(1)
    assert None is await queue.redrive(1)
    assert None is await queue.redrive(2)
    assert 0 == (await queue.get_job(2)).attempts


async def test_purge_dead_works_in_pieces(engine, clock, queue):
    """Dead jobs that died before a time are deleted, or all of them."""
    await queue.enqueue_many(range(1_200), EnqueueOpts(expires=5))
    await clock.advance(5)
    await queue.sweep_expired()

    assert 0 == await queue.purge_dead(before=1_005)
    assert 1_200 == await queue.purge_dead(before=1_006)
    assert 0 == await queue.purge_dead()


async def test_cancel_deletes_a_live_job_of_this_queue(store, queue):
    """Live jobs of this queue are deleted, claimed or not; no others."""
    handle = await claimed(queue)
    await queue.enqueue(2)

    assert False is await store.queue("other").cancel(1)
    assert [True, True, False] == [await queue.cancel(n) for n in (1, 2, 3)]
    assert False is await handle.ack()


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.0, "1", None])
async def test_numbers_are_i64_at_every_entry(engine, store, queue, value):
    """What is no i64 raises before storage is touched, with the detail as cause."""
    handle = await claimed(queue)
    lock = await store.try_lock("l", "o", 5)
    tx = await store.begin_tx()
    stream = store.stream("s")
    engine.calls.clear()
    calls = [
        lambda: queue.claim_batch("w", value),
        lambda: queue.ack_batch([value], "w"),
        lambda: queue.cancel(value),
        lambda: queue.get_job(value),
        lambda: queue.redrive(value),
        lambda: queue.jobs(limit=value),
        lambda: queue.jobs(after_id=value),
        lambda: queue.dead_jobs(limit=value),
        lambda: handle.heartbeat(value),
        lambda: stream.read_since(value, 1),
        lambda: stream.read_since(0, value),
        lambda: stream.read_from_consumer("c", value),
        lambda: stream.save_offset("c", value),
        lambda: stream.trim_to(value),
        lambda: store.try_lock("l", "o", value),
        lambda: lock.renew(value),
        lambda: tx.get_job_tx("q", value),
        lambda: tx.save_offset_tx("s", "c", value),
        lambda: tx.read_since_tx("s", value, 1),
        lambda: tx.read_since_tx("s", 0, value),
        lambda: tx.read_from_consumer_tx("s", "c", value),
        lambda: queue.enqueue(1, EnqueueOpts(priority=value)),
        lambda: tx.enqueue_tx("q", 1, EnqueueOpts(priority=value)),
        lambda: store.schedule("s", "@every 1s", "q", 1, ScheduleOpts(priority=value)),
    ]
    if value is not None:
        calls += [
            lambda: handle.retry(delay=value),
            lambda: queue.purge_dead(before=value),
            lambda: queue.enqueue(1, EnqueueOpts(delay=value)),
        ]
    for call in calls:
        with pytest.raises(DatabaseError) as caught:
            await call()
        assert isinstance(caught.value.__cause__, (TypeError, OverflowError))

    assert [] == engine.calls


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
async def test_durations_are_above_zero(engine, store, queue, value):
    """A lease or a claim of no length is refused."""
    handle = await claimed(queue)
    lock = await store.try_lock("l", "o", 5)
    engine.calls.clear()
    for call in (
        lambda: handle.heartbeat(value),
        lambda: store.try_lock("m", "o", value),
        lambda: lock.renew(value),
    ):
        with pytest.raises(DatabaseError) as caught:
            await call()
        assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(DatabaseError):
        store.queue("q", QueueOpts(visibility_timeout_s=value))

    assert [] == engine.calls


async def test_heartbeat_batch_tells_claims_of_one_job_apart(clock, queue):
    """A lapsed claim is not live because a later one of the same job is."""
    await queue.enqueue(1)
    lapsed = await queue.claim_one("w")
    await clock.advance(301)
    live = await queue.claim_one("w")

    assert [live] == await queue.heartbeat_batch([lapsed, live], 10)
    assert [] == await queue.heartbeat_batch([lapsed], 10)
