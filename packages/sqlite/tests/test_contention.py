"""Who waits for whom: nobody for ever, readers for nobody."""

import asyncio
import time

import pytest
import pytest_asyncio

from alkstore_core import DatabaseError, EnqueueOpts
from alkstore_sqlite import SqliteOpts, SqliteStore

pytestmark = pytest.mark.once


HAVE_TWIN = {
    "enqueue": (lambda store: store.queue("x").enqueue(1), "enqueue_tx"),
    "enqueue_many": (lambda store: store.queue("x").enqueue_many([1]), "enqueue_many_tx"),
    "publish": (lambda store: store.stream("x").publish(1), "publish_tx"),
    "publish_with_key": (
        lambda store: store.stream("x").publish_with_key("k", 1),
        "publish_with_key_tx",
    ),
    "publish_many": (lambda store: store.stream("x").publish_many([1]), "publish_many_tx"),
    "save_offset": (lambda store: store.stream("x").save_offset("c", 1), "save_offset_tx"),
    "notify": (lambda store: store.notify("x", 1), "notify_tx"),
    "outbox_enqueue": (lambda store: store.outbox("x").enqueue(1), "outbox_enqueue_tx"),
}
HAVE_NO_TWIN = {
    "begin_tx": lambda store: store.begin_tx(),
    "with_tx": lambda store: store.with_tx(lambda tx: tx.notify_tx("x", 1)),
    "claim_one": lambda store: store.queue("x").claim_one("me"),
    "claim_batch": lambda store: store.queue("x").claim_batch("me", 2),
    "ack_batch": lambda store: store.queue("x").ack_batch([1], "me"),
    "cancel": lambda store: store.queue("x").cancel(1),
    "redrive": lambda store: store.queue("x").redrive(1),
    "sweep_expired": lambda store: store.queue("x").sweep_expired(),
    "purge_dead": lambda store: store.queue("x").purge_dead(),
    "trim_to": lambda store: store.stream("x").trim_to(1),
    "try_lock": lambda store: store.try_lock("x", "me", 5),
    "schedule": lambda store: store.schedule("x", "@every 1s", "x", 1),
    "unschedule": lambda store: store.unschedule("x"),
}
READS = {
    "get_job": lambda store: store.queue("x").get_job(1),
    "jobs": lambda store: store.queue("x").jobs(),
    "dead_jobs": lambda store: store.queue("x").dead_jobs(),
    "stats": lambda store: store.queue("x").stats(),
    "read_since": lambda store: store.stream("x").read_since(0, 10),
    "read_from_consumer": lambda store: store.stream("x").read_from_consumer("c", 10),
    "get_offset": lambda store: store.stream("x").get_offset("c"),
    "consumers": lambda store: store.stream("x").consumers(),
    "bounds": lambda store: store.stream("x").bounds(),
    "schedules": lambda store: store.schedules(),
    "queues": lambda store: store.queues(),
    "streams": lambda store: store.streams(),
    "locks": lambda store: store.locks(),
    "diagnose": lambda store: store.diagnose(),
}


@pytest_asyncio.fixture
async def impatient(path):
    """A store whose writes wait 0.3 s for their turn."""
    async with SqliteStore(path, opts=SqliteOpts(busy_timeout=0.3)) as store:
        yield store


@pytest.mark.parametrize("call", HAVE_TWIN)
async def test_a_write_beside_ones_own_transaction_names_its_twin(store, call):
    """A task that holds a handle learns at once which `*_tx` method it wanted."""
    write, twin = HAVE_TWIN[call]
    async with store.begin_tx():
        async with asyncio.timeout(1):
            with pytest.raises(DatabaseError, match=rf"\b{twin}\b"):
                await write(store)

    assert [] == await store.queues()
    assert [] == await store.streams()
    async with asyncio.timeout(1):
        await write(store)


@pytest.mark.parametrize("call", HAVE_NO_TWIN)
async def test_a_write_beside_ones_own_transaction_is_for_later(store, call):
    """A call without a `*_tx` form says at once that it has to wait for the transaction."""
    async with store.begin_tx() as tx:
        async with asyncio.timeout(1):
            with pytest.raises(DatabaseError, match=r"\bafter\b.*\btransaction\b|one transaction"):
                await HAVE_NO_TWIN[call](store)
        await tx.enqueue_tx("y", 1)
        await tx.commit()

    assert ["y"] == await store.queues()
    async with asyncio.timeout(1):
        await HAVE_NO_TWIN[call](store)


async def test_a_handles_ops_beside_ones_own_transaction_are_for_later(store):
    """Ops of a claimed job or a held lock say so too, and the claim stays as it was."""
    await store.queue("x").enqueue(1)
    handle = await store.queue("x").claim_one("me")
    lock = await store.try_lock("x", "me", 60)

    async with store.begin_tx():
        for call in (
            handle.ack,
            handle.retry,
            handle.fail,
            lambda: handle.heartbeat(60),
            handle.release,
            lambda: lock.renew(60),
            lock.release,
        ):
            async with asyncio.timeout(1):
                with pytest.raises(DatabaseError, match="after"):
                    await call()

    assert await lock.release()
    assert await handle.ack()


@pytest.mark.parametrize("call", READS)
async def test_reads_do_not_wait_for_a_writer(store, call):
    """While a handle holds the write lock its own task and others read the committed state."""
    await store.queue("x").enqueue("before")
    expected = await READS[call](store)

    async with store.begin_tx() as tx:
        await tx.enqueue_tx("x", "inside")
        await tx.publish_tx("x", "inside")
        async with asyncio.timeout(1):
            assert expected == await READS[call](store)
            assert expected == await asyncio.create_task(READS[call](store))


async def test_other_tasks_wait_for_their_turn(store):
    """Writes of other tasks go through as soon as the open handle has ended."""
    async with store.begin_tx() as tx:
        waiting = [
            asyncio.create_task(store.queue("x").enqueue("beside")),
            asyncio.create_task(store.with_tx(lambda other: other.enqueue_tx("x", "after"))),
            asyncio.create_task(store.queue("x").claim_one("me")),
        ]
        await tx.enqueue_tx("x", "inside")
        done, _ = await asyncio.wait(waiting, timeout=0.05)
        assert set() == done
        await tx.commit()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)

    jobs = await store.queue("x").jobs()
    assert [b'"after"', b'"beside"', b'"inside"'] == sorted(job.payload for job in jobs)


@pytest.mark.parametrize("call", ["enqueue", "begin_tx", "claim_one"])
async def test_a_wait_for_the_turn_ends_and_names_the_holder(impatient, call):
    """After `busy_timeout` a waiting task gets an error that names the task in its way."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with impatient.begin_tx():
            begun.set()
            await let_go.wait()

    holder = asyncio.create_task(hold(), name="the-slow-import")
    await begun.wait()
    started = time.monotonic()
    calls = {name: write for name, (write, _) in HAVE_TWIN.items()} | HAVE_NO_TWIN
    async with asyncio.timeout(5):
        with pytest.raises(DatabaseError, match="the-slow-import"):
            await calls[call](impatient)
    waited = time.monotonic() - started
    let_go.set()
    await holder

    assert 0.29 <= waited < 2
    await calls[call](impatient)


async def test_a_foreign_lock_is_an_error_after_the_timeout_and_reads_go_on(impatient, path, spawn):
    """A program that keeps SQLite's write lock costs writers `busy_timeout`, readers nothing."""
    await impatient.queue("x").enqueue("before")
    holder = spawn("holder.py", path)
    await holder.expect("held")

    for write in (
        lambda: impatient.queue("x").enqueue("during"),
        impatient.begin_tx,
        lambda: impatient.queue("x").claim_one("me"),
    ):
        started = time.monotonic()
        with pytest.raises(DatabaseError, match="locked"):
            async with asyncio.timeout(5):
                await write()
        assert 0.29 <= time.monotonic() - started < 2
    for read in READS.values():
        async with asyncio.timeout(0.25):
            await read(impatient)
    holder.tell("enough")
    await holder.expect("released")

    await impatient.queue("x").enqueue("after")
    payloads = [job.payload for job in await impatient.queue("x").jobs()]
    assert [b'"before"', b'"after"'] == payloads


async def test_a_foreign_lock_that_ends_in_time_is_no_error(store, path, spawn):
    """A write that is waiting when the foreign program lets go goes through."""
    holder = spawn("holder.py", path)
    await holder.expect("held")
    waiting = asyncio.create_task(store.queue("x").enqueue("patient"))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert set() == done
    holder.tell("enough")
    await holder.expect("released")

    async with asyncio.timeout(3):
        assert 1 == await waiting


async def test_a_joined_transaction_waits_for_a_foreign_lock(store, path, spawn, ways):
    """The application's own prepared engine waits for the lock the same fair way."""
    holder = spawn("holder.py", path)
    await holder.expect("held")

    async def write() -> None:
        async with ways.owner_of("AsyncSession", path) as owner, owner.begin():
            await store.join(owner).enqueue_tx("x", "patient")

    waiting = asyncio.create_task(write())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert set() == done
    holder.tell("enough")
    await holder.expect("released")
    async with asyncio.timeout(3):
        await waiting

    assert 1 == len(await store.queue("x").jobs())


async def test_a_transaction_begun_with_a_read_can_write_later(store, path, ways):
    """A joined transaction that read first does not fail when others commit before it writes."""
    async with ways.owner_of("AsyncSession", path) as owner:
        tx = store.join(owner)
        assert 0 == await tx.get_offset_tx("x", "c")
        between = asyncio.create_task(store.queue("x").enqueue("between"))
        await asyncio.wait([between], timeout=0.05)
        await tx.enqueue_tx("x", "joined")
        await owner.commit()
        await between

    assert 2 == len(await store.queue("x").jobs())


async def test_writes_of_many_tasks_and_transactions_interleave(store):
    """Handles and auto-commit writes of 60 tasks take turns; each does its work once."""

    async def auto(number) -> None:
        for _ in range(5):
            await store.queue("x").enqueue(number)

    async def handle(number) -> None:
        for _ in range(5):
            async with store.transaction() as tx:
                await tx.enqueue_tx("x", number)
                await tx.publish_tx("x", number)

    async with asyncio.timeout(30):
        await asyncio.gather(*map(auto, range(30)), *map(handle, range(30, 60)))

    stats = await store.queue("x").stats()
    assert 300 == stats.ready
    assert 150 == (await store.stream("x").bounds()).count


async def test_a_delayed_enqueue_does_not_hold_the_turn(store):
    """Delays are rows, not waits: an hour's delay returns at once."""
    async with asyncio.timeout(1):
        await store.queue("x").enqueue(1, EnqueueOpts(delay=3600))

    assert 1 == (await store.queue("x").stats()).delayed
