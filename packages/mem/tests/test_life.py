"""A store's life: made quickly, found by its URL, gone without a trace."""

import asyncio
import gc
import sqlite3
import threading
import time
import weakref
from pathlib import Path

import pytest

from alkstore_core import Closed, DatabaseError, Store, open_store
from alkstore_mem import MemDatabase, MemStore
from alkstore_mem.database import _image
from alkstore_mem.engine import _compiler


async def use(store):
    """A call of most kinds."""
    async with store:
        await store.queue("q").enqueue(1)
        await (await store.queue("q").claim_one("w")).ack()
        await store.stream("s").publish(1)
        await store.stream("s").read_from_consumer("c", 1)
        await store.with_tx(lambda tx: tx.enqueue_tx("q", 2))


async def test_opening_makes_nothing_twice():
    """A process makes the schema and compiles each statement once, for all its stores."""
    await use(MemStore())
    compiled = len(_compiler._done)
    for _ in range(20):
        await use(MemStore())

    assert 1 == _image.cache_info().misses
    assert compiled == len(_compiler._done)


def held():
    """How many threads and descriptors this process has."""
    return threading.active_count(), len(list(Path("/dev/fd").iterdir()))


async def test_a_store_has_no_file_and_no_thread():
    """Open stores take neither descriptors nor threads."""
    await use(MemStore())
    before = held()
    stores = [MemStore() for _ in range(20)]
    for store in stores:
        await store.open()
        await store.queue("q").enqueue(1)

    assert before == held()
    for store in stores:
        await store.close()


async def test_constructing_makes_nothing():
    """Before `open` there is no database, and calls are refused."""
    store = MemStore()
    with pytest.raises(Closed, match=r"call open\(\) first"):
        await store.queues()

    assert store._runtime.engine._database._connection is None
    await store.close()


async def test_a_closed_store_stays_closed():
    """`close` is idempotent and final, and frees the database of a store that had its own."""
    store = MemStore()
    await store.open()
    await store.queue("q").enqueue(1)
    database = store._runtime.engine._database
    connection = database.connection
    await asyncio.gather(store.close(), store.close())
    await store.close()

    for call in (store.open, store.queues):
        with pytest.raises(Closed):
            await call()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    with pytest.raises(DatabaseError, match="gone with its store"):
        database.connection  # noqa: B018 - asking is enough


async def test_a_shared_database_outlives_its_stores(database):
    """As long as it is referenced, the next store finds what the last one committed."""
    for expected in (1, 2):
        async with MemStore(database=database) as store:
            await store.queue("q").enqueue(1)
            assert expected == (await store.queue("q").stats()).ready


async def test_ids_are_not_reused_by_the_next_store(database):
    """A job's id is not given again, also after all jobs and all stores were gone."""
    async with MemStore(database=database) as store:
        await store.queue("q").enqueue_many([1, 2, 3])
        handles = await store.queue("q").claim_batch("w", 3)
        assert 3 == await store.queue("q").ack_batch(handles, "w")
    async with MemStore(database=database) as store:
        assert 4 == await store.queue("q").enqueue(4)


async def test_a_forgotten_database_is_closed():
    """A database goes with its last reference, and so does a store that was never closed."""
    database = MemDatabase()
    async with MemStore(database=database) as store:
        await store.queue("q").enqueue(1)
    connection = database.connection
    forgotten = MemStore()
    await forgotten.open()
    left = weakref.ref(forgotten._runtime.engine._database)
    del database, store, forgotten
    gc.collect()

    assert left() is None
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


async def test_an_open_store_keeps_its_database():
    """A store on a database that nobody else references works."""
    async with MemStore(database=MemDatabase()) as store:
        gc.collect()

        assert 1 == await store.queue("q").enqueue(1)


async def test_all_is_well():
    """There is nothing that an operator should know."""
    async with MemStore() as store:
        assert [] == await store.diagnose()


async def test_the_engine_is_found_by_its_url(clock):
    """`open_store("mem:")` gives an unopened store with a database of its own."""
    store = open_store("mem:", clock=clock)

    assert isinstance(store, MemStore)
    async with store:
        await store.queue("q").enqueue(1)
        [job] = await store.queue("q").jobs()
        assert 1_000 == job.created_at


@pytest.mark.parametrize("url", ["mem:x", "mem://", "mem:///app.db", "mem+x:"])
def test_a_url_says_no_more_than_mem(url):
    """Whatever follows the colon would be without a meaning, and is refused."""
    with pytest.raises(DatabaseError, match="mem: and nothing after it"):
        open_store(url)


def test_a_database_is_a_memdatabase():
    """Anything else is refused when the store is constructed."""
    with pytest.raises(DatabaseError, match="database must be a MemDatabase, not str"):
        MemStore(database="shared")


def test_there_is_nothing_to_join():
    """Nothing but stores can reach the database, so there is neither `join` nor `connection`."""
    assert issubclass(MemStore, Store)
    assert not hasattr(MemStore, "join")


async def test_a_transaction_has_no_connection(store):
    """As for the store."""
    async with store.begin_tx() as tx:
        assert not hasattr(tx, "connection")


async def test_time_is_the_hosts_unless_a_clock_is_given(store):
    """Whole seconds of the host, or of the clock."""
    async with MemStore() as by_the_host:
        before = int(time.time())
        assert before <= await by_the_host._runtime.engine.now() <= int(time.time())
    assert 1_000 == await store._runtime.engine.now()


async def test_notify_has_no_limit(store):
    """A payload is checked and dropped, so its size does not matter."""
    await store.notify("c", "x" * 100_000)
