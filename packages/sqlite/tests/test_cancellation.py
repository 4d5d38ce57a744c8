"""A cancelled call is whole or absent, strands nothing and leaves the store as good as new."""

import asyncio
import contextlib
import random

import pytest

ROUNDS = 300


async def cancelled(call, dice):
    """Start a call and cancel it at a random moment; its value, or `None` if it was cancelled."""
    task = asyncio.ensure_future(call)
    if dice.random() < 0.5:
        for _ in range(dice.randrange(6)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(dice.uniform(0, 0.003))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        return await task
    return None


async def given_back(store, queue) -> None:
    """Wait until no job is claimed any more: give-backs come at once, not in the same turn."""
    async with asyncio.timeout(5):
        await store.notify("fence", None)  # behind it no cancelled claim is still to be run
        while (await queue.stats()).processing:  # noqa: ASYNC110 - the engine does it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("seed", [1, 2])
async def test_cancelled_enqueues_and_publishes_are_whole_or_absent(store, seed):
    """A bulk write cancelled at any moment has stored all its rows or none."""
    dice = random.Random(seed)
    queue, stream = store.queue("x"), store.stream("x")
    promised = {}
    for number in range(ROUNDS // 2):
        ids = await cancelled(queue.enqueue_many([number] * 3), dice)
        offsets = await cancelled(stream.publish_many([number] * 3), dice)
        promised[number] = (ids, offsets)
    async with asyncio.timeout(5):
        await queue.enqueue("last")

    jobs = [job for job in await queue.jobs(limit=1000) if job.payload != b'"last"']
    events = await stream.read_since(0, 1000)
    for number, (ids, offsets) in promised.items():
        rows = [job.id for job in jobs if job.payload_as(int) == number]
        stored = [event.offset for event in events if event.payload_as(int) == number]
        assert len(rows) in {0, 3}
        assert len(stored) in {0, 3}
        assert ids is None or ids == rows
        assert offsets is None or offsets == stored
    assert any(ids is None for ids, _ in promised.values())


@pytest.mark.parametrize("form", ["claim_one", "claim_batch"])
async def test_a_cancelled_claim_gives_its_jobs_back(store, form):
    """Whatever moment a claim is cancelled in, its jobs are pending again, attempts restored."""
    dice = random.Random(7)
    queue = store.queue("x")
    await queue.enqueue_many(list(range(20)))
    returned = 0
    for number in range(ROUNDS):
        claim = queue.claim_one("me") if form == "claim_one" else queue.claim_batch("me", 5)
        found = await cancelled(claim, dice)
        if found:
            returned += 1
            assert await queue.release_batch(found if isinstance(found, list) else [found]) >= 1
        if number % 10 == 0:
            await given_back(store, queue)
    await given_back(store, queue)

    jobs = await queue.jobs()
    assert {("pending", 0)} == {(job.state, job.attempts) for job in jobs}
    assert 20 == len(jobs)
    assert 0 < returned < ROUNDS
    assert 20 == len(await queue.claim_batch("me", 100))


async def test_a_claim_cancelled_before_it_resumes_gives_its_job_back(store):
    """The result came, but its task is cancelled before it runs again: the job is not lost."""
    queue = store.queue("x")
    await queue.enqueue("tea")
    for turns in range(40):
        task = asyncio.create_task(queue.claim_one("me"))
        # Only the loop's turns are counted here: some number hits the very turn of the result.
        for _ in range(turns):
            await asyncio.sleep(0.0002)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).release()
        await given_back(store, queue)

    assert [("pending", 0)] == [(job.state, job.attempts) for job in await queue.jobs()]


async def test_close_waits_for_give_backs(path):
    """A store closed right after a cancelled claim has given the job back before it is gone."""
    from alkstore_sqlite import SqliteStore  # noqa: PLC0415

    for turns in range(10):
        async with SqliteStore(path) as store:
            queue = store.queue("x")
            await queue.enqueue(turns)
            task = asyncio.create_task(queue.claim_one("me"))
            for _ in range(turns):
                await asyncio.sleep(0.0003)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await task).release()
    async with SqliteStore(path) as store:
        jobs = await store.queue("x").jobs()

    assert {("pending", 0)} == {(job.state, job.attempts) for job in jobs}
    assert 10 == len(jobs)


async def test_cancelled_acks_are_whole_or_absent(store):
    """A cancelled ack has landed or not: a second one tells, and the job is gone once."""
    dice = random.Random(8)
    queue = store.queue("x")
    ids = await queue.enqueue_many(list(range(ROUNDS)))
    handles = await queue.claim_batch("me", ROUNDS)
    again = []
    for handle in handles:
        landed = await cancelled(handle.ack(), dice)
        assert landed in {None, True}
        there = await queue.get_job(handle.job.id)
        if landed:
            assert there is None
        else:
            again.append(handle)
    await queue.ack_batch(again, "me")

    assert ROUNDS == len(ids)
    assert again
    assert [] == await queue.jobs()


async def test_cancelled_transactions_are_whole_or_absent(store):
    """A transaction cancelled anywhere, its commit included, has both its rows or neither."""
    dice = random.Random(9)
    queue, stream = store.queue("x"), store.stream("x")

    async def transact(number) -> bool:
        async with store.transaction() as tx:
            await tx.enqueue_tx("x", number)
            await tx.publish_tx("x", number)
        return True

    returned = [n for n in range(ROUNDS) if await cancelled(transact(n), dice)]
    async with asyncio.timeout(5):
        await transact(ROUNDS)

    jobs = [job.payload_as(int) for job in await queue.jobs(limit=1000)]
    events = [event.payload_as(int) for event in await stream.read_since(0, 1000)]
    assert jobs == events
    assert set(returned) | {ROUNDS} <= set(jobs)
    assert len(returned) < ROUNDS


async def test_a_cancelled_begin_frees_its_turn(store):
    """Cancelled while it waits or while it begins, `begin_tx` keeps neither turn nor lock."""
    dice = random.Random(10)
    for _ in range(ROUNDS):
        tx = await cancelled(store.begin_tx(), dice)
        if tx is not None:
            await tx.rollback()
    async with asyncio.timeout(5):
        tx = await store.begin_tx()
        for turns in range(20):
            waiting = asyncio.create_task(_begun(store))
            await asyncio.sleep(0)
            if turns % 2:
                waiting.cancel()
                await asyncio.wait([waiting])
            else:
                await tx.rollback()
                waiting.cancel()
                await asyncio.wait([waiting])
                tx = await store.begin_tx()
        await tx.enqueue_tx("x", 1)
        await tx.commit()

    assert 1 == len(await store.queue("x").jobs())


async def _begun(store) -> None:
    async with store.begin_tx():
        await asyncio.Event().wait()


async def test_a_cancelled_commit_ends_before_the_cancellation_goes_on(store, descriptors):
    """Once a commit has started it ends, however often its task is cancelled meanwhile."""
    opened = []
    for number in range(40):
        tx = await store.begin_tx()
        await tx.enqueue_tx("x", number)
        task = asyncio.create_task(tx.commit())
        await asyncio.sleep(0)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        payloads = [job.payload_as(int) for job in await store.queue("x").jobs()]
        assert list(range(number + 1)) == payloads
        opened.append(descriptors())

    assert opened[-1] <= opened[0]


@pytest.mark.parametrize("kind", ["AsyncSession", "AsyncConnection"])
async def test_a_cancelled_call_leaves_the_joined_transaction_to_its_owner(store, path, ways, kind):
    """The owner whose call was cancelled may commit what was written before it."""
    dice = random.Random(13)
    for number in range(30):
        async with ways.owner_of(kind, path) as owner:
            await owner.begin()
            tx = store.join(owner)
            await tx.enqueue_tx("x", number)
            await cancelled(tx.publish_many_tx("x", [number, number]), dice)
            await owner.commit()

    jobs = [job.payload_as(int) for job in await store.queue("x").jobs()]
    events = [event.payload_as(int) for event in await store.stream("x").read_since(0, 100)]
    assert list(range(30)) == jobs
    assert {events.count(number) for number in range(30)} <= {0, 2}


async def test_cancelled_joined_transactions_leave_no_lock(store, path, ways):
    """The application's transactions, cancelled at random, leave the file to the next writer."""
    dice = random.Random(11)

    async def transact(owner, number) -> None:
        async with owner.begin():
            tx = store.join(owner)
            await tx.enqueue_tx("x", number)
            await tx.publish_tx("x", number)

    for number in range(60):
        async with ways.owner_of("AsyncConnection", path) as owner:
            await cancelled(transact(owner, number), dice)
    async with asyncio.timeout(5), ways.owner_of("AsyncConnection", path) as owner:
        await transact(owner, 60)
        await store.queue("x").enqueue(61)

    jobs = [job.payload_as(int) for job in await store.queue("x").jobs(limit=1000)]
    events = [event.payload_as(int) for event in await store.stream("x").read_since(0, 1000)]
    assert [*events, 61] == jobs


async def test_a_storm_of_cancellations_leaks_nothing(store, descriptors):
    """After hundreds of cancelled calls of every kind no descriptor is left over."""
    dice = random.Random(12)
    queue, stream = store.queue("x"), store.stream("x")
    await queue.enqueue_many(list(range(50)))

    async def storm(rounds) -> None:
        for _ in range(rounds):
            call = dice.choice(
                [
                    lambda: queue.enqueue(1),
                    lambda: queue.claim_batch("me", 3),
                    lambda: stream.publish(1),
                    lambda: stream.read_since(0, 10),
                    lambda: store.notify("x", 1),
                    lambda: store.try_lock("x", "me", 60),
                    lambda: store.listen("x"),
                    queue.wakes,
                    lambda: stream.subscribe("me"),
                    store.begin_tx,
                    lambda: store.with_tx(lambda tx: tx.publish_tx("x", 1)),
                ]
            )
            found = await cancelled(call(), dice)
            if hasattr(found, "rollback"):
                await found.rollback()
            elif hasattr(found, "recv"):
                await found.close()

    await storm(100)
    before = descriptors()
    await storm(ROUNDS)
    after = descriptors()

    assert after <= before
    async with asyncio.timeout(5):
        await store.with_tx(lambda tx: tx.enqueue_tx("x", "last"))
