"""Transactions on the one connection: nobody sees them early, and stepping aside loses nothing."""

import pytest

from alkstore_core import DatabaseError, EnqueueOpts, QueueStats


def beginnings(statements):
    """How often a transaction was begun."""
    return statements.count("BEGIN")


def inserts(statements):
    """How many jobs and events were inserted, however often each."""
    return sum(sql.startswith("INSERT INTO __alkstore_") for sql in statements)


async def test_nothing_is_seen_before_the_commit(store, other):
    """Neither the store's own calls nor another store's see an open transaction."""
    async with store.begin_tx() as tx:
        job_id = await tx.enqueue_tx("q", 1)
        await tx.publish_tx("s", 1)
        await tx.save_offset_tx("s", "c", 1)
        for client in (store, other):
            assert await client.queue("q").get_job(job_id) is None
            assert [] == await client.stream("s").read_since(0, 10)
            assert 0 == await client.stream("s").get_offset("c")
            assert [] == await client.queues()
        await tx.commit()

    for client in (store, other):
        assert job_id == (await client.queue("q").get_job(job_id)).id
        assert [1] == [event.offset for event in await client.stream("s").read_since(0, 10)]
        assert 1 == await client.stream("s").get_offset("c")


async def test_a_transaction_sees_its_own_writes(store):
    """Reads inside see what was written inside, before and after somebody looked from outside."""
    async with store.begin_tx() as tx:
        job_id = await tx.enqueue_tx("q", 1)
        assert job_id == (await tx.get_job_tx("q", job_id)).id
        assert await store.queue("q").get_job(job_id) is None
        assert job_id == (await tx.get_job_tx("q", job_id)).id


async def test_a_rollback_leaves_nothing(store):
    """What is rolled back is gone, whether it was stepping aside at that moment or not."""
    for look in (False, True):
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("q", 1)
            if look:
                await store.queue("q").stats()
        assert [] == await store.queue("q").jobs()
    assert [] == await store.queues()


async def test_ids_and_times_are_what_they_were(store, clock):
    """Done again, a transaction gives the ids, offsets and times that its caller has seen."""
    await store.queue("q").enqueue("before")
    async with store.begin_tx() as tx:
        ids = [await tx.enqueue_tx("q", 1)]
        await clock.advance(10)
        await store.queue("q").stats()
        ids.append(await tx.enqueue_tx("q", 2, EnqueueOpts(delay=5)))
        await clock.advance(10)
        await store.queue("q").stats()
        offset = await tx.publish_tx("s", 3)
        await clock.advance(10)
        await store.queue("q").stats()
        await tx.commit()

    first, second = await store.queue("q").jobs(after_id=1)
    [event] = await store.stream("s").read_since(0, 10)
    assert ids == [first.id, second.id]
    assert (1_000, 1_010, 1_015) == (first.created_at, second.created_at, second.run_at)
    assert (offset, 1_020) == (event.offset, event.created_at)


async def test_a_transaction_goes_on_while_nobody_looks(store, statements):
    """Without a look from outside, every statement of a transaction is executed once."""
    async with store.transaction() as tx:
        for number in range(100):
            await tx.enqueue_tx("q", number)

    assert 1 == beginnings(statements)
    assert 100 == inserts(statements)


async def test_looks_in_a_row_cost_one_repetition(store, statements):
    """However often others look between two calls inside, what was done is done again once."""
    async with store.transaction() as tx:
        for number in range(10):
            await tx.enqueue_tx("q", number)
        for _ in range(100):
            assert 0 == (await store.queue("q").stats()).ready

    assert 2 == beginnings(statements)
    assert 20 == inserts(statements)


async def test_only_changes_are_done_again(store, statements):
    """Reads inside a transaction, and writes that changed nothing, are not repeated."""
    await store.stream("s").save_offset("c", 9)
    async with store.transaction() as tx:
        await tx.enqueue_tx("q", 1)
        for _ in range(10):
            await tx.get_job_tx("q", 1)
            await tx.read_since_tx("s", 0, 10)
            await tx.save_offset_tx("s", "c", 5)
        await store.queue("q").stats()
        statements.clear()

    assert ["BEGIN", "COMMIT"] == [statements[0], statements[-1]]
    assert 3 == len(statements)


async def test_a_look_before_the_first_write_costs_nothing(store, statements):
    """A transaction that has changed nothing has nothing to repeat, and commits."""
    async with store.transaction() as tx:
        assert [] == await tx.read_since_tx("s", 0, 10)
        await store.queue("q").stats()
        statements.clear()

    assert [] == statements


async def test_a_long_transaction_that_is_looked_at_often(store, statements):
    """Three thousand calls, twenty looks: no more statements than looks times changes."""
    async with store.transaction() as tx:
        for number in range(1_500):
            await tx.enqueue_tx("q", number)
            await tx.publish_tx("s", number)
        statements.clear()
        for _ in range(20):
            assert (
                QueueStats(
                    ready=0,
                    delayed=0,
                    processing=0,
                    lapsed=0,
                    expired=0,
                    dead=0,
                    oldest_ready_age_s=None,
                )
                == await store.queue("q").stats()
            )
            assert b"0" == (await tx.get_job_tx("q", 1)).payload

    assert 20 * 3_000 == inserts(statements)
    assert 1_500 == (await store.queue("q").stats()).ready
    assert 1_500 == (await store.stream("s").bounds()).count


@pytest.mark.parametrize("then", ["commit", "go on"])
async def test_a_repetition_that_differs_is_refused(store, database, then):
    """If something else has written to the connection meanwhile, nothing is committed."""
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", "ours")
    assert 0 == (await store.queue("q").stats()).ready
    database.connection.execute("UPDATE sqlite_sequence SET seq = 41")
    database.connection.execute(
        "INSERT INTO __alkstore_jobs SELECT 41, 'q', '1', NULL, 'ready', 0, 0, 0, NULL, 0, 1, 1, 1,"
        " NULL, NULL, NULL, NULL, NULL"
    )

    with pytest.raises(DatabaseError, match="differently"):
        await (tx.commit() if then == "commit" else tx.publish_tx("s", 1))
    await tx.rollback()
    assert [41] == [job.id for job in await store.queue("q").jobs()]


@pytest.mark.parametrize("undone", ["ABORT", "ROLLBACK"])
async def test_a_failed_statement_leaves_no_transaction(store, database, undone):
    """When the database refuses, a call is as if it had not been made, and the next one works;
    also when SQLite has ended the transaction by itself.
    """
    database.connection.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON __alkstore_jobs"
        f" BEGIN SELECT RAISE({undone}, 'no more jobs'); END"
    )
    with pytest.raises(DatabaseError, match="no more jobs") as refused:
        await store.queue("q").enqueue(1)
    assert "IntegrityError" == type(refused.value.__cause__).__name__
    async with store.begin_tx() as tx:
        await tx.publish_tx("s", 1)
        with pytest.raises(DatabaseError, match="no more jobs"):
            await tx.enqueue_tx("q", 1)
        assert [1] == [event.offset for event in await tx.read_since_tx("s", 0, 10)]
        with pytest.raises(DatabaseError, match="nothing was committed"):
            await tx.commit()

    database.connection.execute("DROP TRIGGER refuse")
    assert 1 == await store.queue("q").enqueue(1)
    assert [] == await store.streams()


async def test_a_write_never_gets_into_a_transaction(store, database):
    """Whoever writes without waiting for their turn is refused, and the transaction goes on."""
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("q", 1)
        with pytest.raises(DatabaseError, match="wait for its end"):
            database.write(iter(()))
        await tx.commit()

    assert 1 == (await store.queue("q").stats()).ready
