"""Calls that share a commit: one that fails is no other's business."""

import asyncio

import pytest

from alkstore_core import DatabaseError


@pytest.mark.parametrize("verdict", ["ABORT", "FAIL", "ROLLBACK"])
async def test_a_failing_statement_does_not_touch_its_neighbours(store, sql, verdict):
    """Of 50 calls in one group the one that the database refuses fails, and only that one."""
    await store.queue("x").enqueue(0)
    sql(
        "CREATE TRIGGER picky BEFORE INSERT ON __alkstore_jobs "
        "WHEN NEW.payload = CAST('13' AS BLOB) "
        f"BEGIN SELECT RAISE({verdict}, 'unlucky'); END"
    )

    outcomes = await asyncio.gather(
        *(store.queue("x").enqueue(number) for number in range(1, 51)), return_exceptions=True
    )

    refused = {n for n, outcome in enumerate(outcomes, 1) if isinstance(outcome, Exception)}
    assert {13} == refused
    assert isinstance(outcomes[12], DatabaseError)
    assert "unlucky" in str(outcomes[12].__cause__)
    promised = {outcome: n for n, outcome in enumerate(outcomes, 1) if n != 13}
    jobs = await store.queue("x").jobs()
    assert promised == {job.id: job.payload_as(int) for job in jobs if job.payload != b"0"}
    assert 50 == len(jobs)


async def test_a_bulk_call_that_fails_half_way_leaves_nothing(store, sql):
    """A bulk enqueue one of whose rows is refused stores none of them."""
    sql(
        "CREATE TRIGGER picky BEFORE INSERT ON __alkstore_jobs "
        "WHEN NEW.payload = CAST('13' AS BLOB) BEGIN SELECT RAISE(FAIL, 'unlucky'); END"
    )

    with pytest.raises(DatabaseError):
        await store.queue("x").enqueue_many(list(range(20)))
    ids = await store.queue("x").enqueue_many([1, 2])

    assert ids == [job.id for job in await store.queue("x").jobs()]


async def test_a_failed_statement_spoils_its_transaction(store, sql):
    """After a statement that the database refused nothing of its transaction can be committed."""
    sql(
        "CREATE TRIGGER picky BEFORE INSERT ON __alkstore_jobs "
        "WHEN NEW.payload = CAST('13' AS BLOB) BEGIN SELECT RAISE(ABORT, 'unlucky'); END"
    )

    tx = await store.begin_tx()
    await tx.enqueue_tx("x", 12)
    with pytest.raises(DatabaseError):
        await tx.enqueue_tx("x", 13)
    with pytest.raises(DatabaseError, match="nothing was committed"):
        await tx.commit()
    await store.queue("x").enqueue(14)

    assert [b"14"] == [job.payload for job in await store.queue("x").jobs()]


async def test_calls_of_one_group_get_their_own_answers(store):
    """Of hundreds of calls of all kinds made at once each gets what it alone would have got."""
    queue, stream = store.queue("x"), store.stream("x")
    await queue.enqueue_many(list(range(100)))
    handles = await queue.claim_batch("me", 100)
    for handle in handles[::2]:
        await handle.retry(delay=0)
    handles[::2] = await queue.claim_batch("me", 100)
    calls = {}
    for number in range(100):
        calls["enqueue", number] = queue.enqueue(f"job {number}")
        calls["many", number] = queue.enqueue_many([number, number])
        calls["publish", number] = stream.publish_with_key(f"key {number}", number)
        calls["ack", number] = handles[number].ack()
        calls["again", number] = queue.ack_batch([handles[number].job.id], "stranger")
        calls["lock", number] = store.try_lock(f"lock {number % 10}", f"owner {number}", 60)

    answers = dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))

    for number in range(100):
        assert f"job {number}" == (await queue.get_job(answers["enqueue", number])).payload_as(str)
        first, second = answers["many", number]
        assert first < second
        assert number == (await queue.get_job(second)).payload_as(int)
        [event] = await stream.read_since(answers["publish", number] - 1, 1)
        assert (f"key {number}", number) == (event.key, event.payload_as(int))
        assert answers["ack", number] is True
        assert 0 == answers["again", number]
    owners = [number for number in range(100) if answers["lock", number] is not None]
    assert list(range(10)) == sorted(number % 10 for number in owners)
