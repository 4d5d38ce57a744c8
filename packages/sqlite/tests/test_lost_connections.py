"""Statements of the caller's that are cancelled: the connection is given up, the file is free."""

import asyncio

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_sqlite import SqliteStore, prepare_engine

# Long enough to be cancelled in, short enough not to be waited for.
SLOW = text(
    "WITH RECURSIVE counted(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM counted "
    "WHERE x < 300000) SELECT count(*) FROM counted"
)


async def cancelled(work, begun):
    """Run `work` until it is in its statement, then cancel it."""
    task = asyncio.create_task(work)
    await begun.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_writer_that_waits_gets_its_turn_when_the_holder_is_cancelled(path):
    """Who waits behind a transaction writes once that died in a statement, without a collection."""
    begun = asyncio.Event()

    async def hold(store):
        tx = await store.begin_tx()
        begun.set()
        await tx.connection.execute(SLOW)

    async with SqliteStore(path) as store:
        holding = asyncio.create_task(hold(store))
        await begun.wait()
        waiting = asyncio.create_task(store.queue("work").enqueue("tea"))
        await asyncio.sleep(0)
        holding.cancel()

        with pytest.raises(asyncio.CancelledError):
            await holding
        assert 1 == await waiting


async def test_a_transaction_whose_connection_is_lost_says_so(path):
    """The handle of a lost transaction is refused, and its task may write again at once."""
    async with SqliteStore(path) as store:
        tx = await store.begin_tx()
        await tx.enqueue_tx("work", "tea")
        await tx.connection.invalidate()

        assert 1 == await store.queue("work").enqueue("coffee")
        with pytest.raises(DatabaseError, match="lost with its connection"):
            await tx.commit()
        assert [b'"coffee"'] == [job.payload for job in await store.queue("work").jobs()]


async def test_a_cancelled_statement_of_a_prepared_engine_leaves_no_lock(path):
    """The file is free once the application's own statement was cancelled in its transaction."""
    begun = asyncio.Event()
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{path}"))

    async def work(store):
        async with engine.begin() as connection:
            await store.join(connection).enqueue_tx("work", "tea")
            begun.set()
            await connection.execute(SLOW)

    async with SqliteStore(path) as store:
        await cancelled(work(store), begun)

        assert 1 == await store.queue("work").enqueue("coffee")
        assert [b'"coffee"'] == [job.payload for job in await store.queue("work").jobs()]
    await engine.dispose()


async def test_the_next_transaction_begins_whatever_became_of_the_last(path):
    """Transactions that begin while a cancelled one is still being given up are whole."""

    async def hold(store, begun):
        tx = await store.begin_tx()
        begun.set()
        await tx.connection.execute(SLOW)

    async def write(store, number):
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", number)

    async with SqliteStore(path) as store:
        for number in range(30):
            begun = asyncio.Event()
            holding = asyncio.create_task(hold(store, begun))
            await begun.wait()
            writing = asyncio.create_task(write(store, number))
            await asyncio.sleep(0)
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            await writing

        jobs = await store.queue("work").jobs()
        assert list(range(30)) == [job.payload_as(int) for job in jobs]


async def test_rows_that_a_trigger_keeps_out_are_an_error(path):
    """A row that somebody's trigger ignores is reported to its caller, and to no other."""
    async with SqliteStore(path) as store:
        async with store.transaction() as tx:
            await tx.connection.execute(
                text(
                    "CREATE TRIGGER keep_out BEFORE INSERT ON __alkstore_jobs "
                    "WHEN new.payload = CAST('13' AS BLOB) BEGIN SELECT RAISE(IGNORE); END"
                )
            )

        queue = store.queue("work")
        answers = await asyncio.gather(
            *(queue.enqueue(number) for number in (12, 13, 14)), return_exceptions=True
        )

        assert isinstance(answers[1], DatabaseError)
        jobs = {job.id: job.payload for job in await queue.jobs()}
        assert {answers[0]: b"12", answers[2]: b"14"} == jobs


async def test_a_cancelled_statement_is_no_failed_clean_up(path, caplog):
    """SQLAlchemy closes the connection meanwhile, and that is all there was to do."""
    begun = asyncio.Event()

    async def hold(store):
        async with store.transaction() as tx:
            begun.set()
            await tx.connection.execute(SLOW)

    async with SqliteStore(path) as store:
        for _ in range(3):
            begun.clear()
            await cancelled(hold(store), begun)
        await store.queue("work").enqueue("tea")

    assert [] == [record.message for record in caplog.records if record.name.startswith("alkstore")]


@pytest.mark.parametrize("kind", ["transaction", "connection", "async connection"])
async def test_a_commit_that_the_file_refuses_frees_the_lock(path, sql, kind):
    """A path that names no file for a moment: the commit is refused, and others write on."""
    away = path.with_name("away.db")
    blocking = prepare_engine(create_engine(f"sqlite:///{path}"))
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{path}"))

    async def commit(store):
        if kind == "transaction":
            async with store.transaction() as tx:
                await tx.enqueue_tx("work", "lost")
                path.rename(away)
        elif kind == "connection":
            with blocking.connect() as connection:
                store.join(connection).enqueue_tx("work", "lost")
                path.rename(away)
                connection.commit()
        else:
            async with engine.connect() as connection:
                await store.join(connection).enqueue_tx("work", "lost")
                path.rename(away)
                await connection.commit()

    async with SqliteStore(path) as store:
        await store.queue("work").enqueue("tea")
        with pytest.raises(DatabaseError, match="deleted or replaced"):
            await commit(store)
        away.rename(path)
        sql("BEGIN IMMEDIATE")
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", "coffee")
        assert [b'"tea"', b'"coffee"'] == [job.payload for job in await store.queue("work").jobs()]
    blocking.dispose()
    await engine.dispose()
