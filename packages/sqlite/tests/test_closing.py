"""Closing: everything accepted is finished, everything open ends, one file is left."""

import asyncio

import pytest

from alkstore_core import Closed
from alkstore_sqlite import SqliteStore


async def test_a_closed_store_stays_closed(path):
    """`close` is idempotent and final; the file is opened again by another store."""
    store = SqliteStore(path)
    await store.open()
    await store.queue("work").enqueue("tea")
    await asyncio.gather(store.close(), store.close())
    await store.close()

    with pytest.raises(Closed):
        await store.open()
    async with SqliteStore(path) as another:
        assert 1 == (await another.queue("work").stats()).ready


async def test_closing_an_unopened_store_is_harmless(path):
    """`close` before `open` makes nothing and breaks nothing."""
    await SqliteStore(path).close()

    assert not path.exists()


async def test_close_rolls_open_handles_back(path):
    """A handle that is open when its store closes is rolled back and of no use any more."""
    store = SqliteStore(path)
    await store.open()
    tx = await store.begin_tx()
    await tx.enqueue_tx("work", "tea")
    async with asyncio.timeout(5):
        await store.close()

    with pytest.raises(Closed):
        await tx.commit()
    async with SqliteStore(path) as another:
        assert [] == await another.queue("work").jobs()


async def test_close_leaves_one_file(path):
    """After the last store of a file has closed, everything is in that one file."""
    async with SqliteStore(path) as store:
        await store.queue("work").enqueue_many(list(range(100)))
        async with store.transaction() as tx:
            await tx.publish_tx("events", 1)

    assert ["app.db"] == [entry.name for entry in path.parent.iterdir()]


async def test_closing_while_others_wait_ends_their_wait(path):
    """Tasks that wait for a turn when the store closes hear `Closed` at once."""
    store = SqliteStore(path)
    await store.open()
    tx = await store.begin_tx()
    waiting = [
        asyncio.create_task(store.queue("x").enqueue(1)),
        asyncio.create_task(store.with_tx(lambda other: other.enqueue_tx("x", 2))),
    ]
    await asyncio.wait(waiting, timeout=0.05)
    async with asyncio.timeout(3):
        await store.close()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert [Closed, Closed] == [type(outcome) for outcome in outcomes]
    with pytest.raises(Closed):
        await tx.commit()


async def test_a_close_in_full_load_loses_nothing_and_hangs_nobody(path):
    """Every call that is under way when the store closes has its effect or raises `Closed`."""
    store = SqliteStore(path)
    await store.open()
    promised, refused = [], []

    async def enqueue() -> None:
        while True:
            try:
                promised.append(await store.queue("x").enqueue("auto"))
            except Closed as error:
                refused.append(error)
                return

    async def transact() -> None:
        while True:
            try:
                async with store.transaction() as tx:
                    job_id = await tx.enqueue_tx("x", "handle")
            except Closed as error:
                refused.append(error)
                return
            promised.append(job_id)

    async def receive() -> None:
        async with store.queue("x").wakes() as wakes:
            async for _ in wakes:
                pass

    tasks = [
        asyncio.create_task(work())
        for work, number in ((enqueue, 20), (transact, 5), (receive, 5))
        for _ in range(number)
    ]
    await asyncio.wait(tasks, timeout=0.2)
    async with asyncio.timeout(5):
        await store.close()
        await asyncio.gather(*tasks)

    assert 25 == len(refused)
    assert promised
    async with SqliteStore(path) as another:
        jobs = await another.queue("x").jobs(limit=1_000_000)
    assert set(promised) <= {job.id for job in jobs}


async def test_a_close_that_is_cancelled_closes(path):
    """A cancelled `close` has closed the store all the same before the cancellation goes on."""
    store = SqliteStore(path)
    await store.open()
    await store.queue("x").enqueue("tea")
    task = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    with pytest.raises(Closed):
        await store.queue("x").jobs()
    assert ["app.db"] == [entry.name for entry in path.parent.iterdir()]
