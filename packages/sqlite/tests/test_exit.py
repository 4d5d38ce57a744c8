"""A program always ends, and a store belongs to one event loop of one process."""

import asyncio
import signal
import threading
import time

import pytest

from alkstore_core import AlkstoreError
from alkstore_sqlite import SqliteStore

pytestmark = pytest.mark.once


@pytest.mark.alone
@pytest.mark.parametrize(
    ("how", "status", "complaint"),
    [
        ("forgets", 0, ""),
        ("raises", 1, "ZeroDivisionError: the program's own"),
        ("raises_inside", 1, "ZeroDivisionError: the program's own"),
        ("exits", 7, ""),
    ],
)
async def test_a_program_that_forgets_to_close_ends(path, spawn, how, status, complaint):
    """A script that never closes its store ends within 5 s with its own status and error."""
    child = spawn("endings.py", path, how)
    await child.expect("ending")
    began = time.monotonic()
    await child.rest(within=10)

    assert time.monotonic() - began < 5
    assert status == child.process.returncode
    assert complaint in child.stderr
    async with SqliteStore(path) as store:
        assert len(await store.queue("x").jobs()) in {0, 3}


@pytest.mark.alone
@pytest.mark.parametrize("how", ["waits", "waits_inside", "writes"])
async def test_an_interrupted_program_ends(path, spawn, how):
    """A script that gets SIGINT ends within 5 s as one that was interrupted."""
    child = spawn("endings.py", path, how)
    await child.expect("ending")
    await asyncio.sleep(0.05)
    child.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    await child.rest(within=10)

    assert time.monotonic() - began < 5
    assert child.process.returncode in {1, 130, -signal.SIGINT}
    assert "KeyboardInterrupt" in child.stderr
    async with SqliteStore(path) as store:
        await store.queue("x").enqueue("the next")


@pytest.mark.parametrize("how", ["closes", "closes_at_once"])
async def test_a_proper_close_leaves_nothing(path, spawn, how):
    """After `close` no thread is left, and `-X dev -W error` has nothing to complain about."""
    child = spawn("endings.py", path, how, flags=["-X", "dev", "-W", "error"])
    await child.expect("ending")

    assert "MainThread" == await child.expect("threads")
    assert [] == await child.succeed()
    assert "" == child.stderr


def in_another_loop(call) -> BaseException | None:
    """Await a call on an event loop of its own, in a thread of its own; its error, if any."""
    outcome = []

    async def attempt():
        try:
            async with asyncio.timeout(3):
                await call()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            return error

    thread = threading.Thread(target=lambda: outcome.append(asyncio.run(attempt())))
    thread.start()
    thread.join(10)
    assert outcome, "it hangs"
    return outcome[0]


CALLS = {
    "enqueue": lambda store: store.queue("x").enqueue("strange"),
    "jobs": lambda store: store.queue("x").jobs(),
    "claim": lambda store: store.queue("x").claim_one("strange"),
    "notify": lambda store: store.notify("x", 1),
    "listen": lambda store: store.listen("x"),
    "subscribe": lambda store: store.stream("x").subscribe("strange"),
    "begin_tx": lambda store: store.begin_tx(),
    "try_lock": lambda store: store.try_lock("x", "strange", 60),
    "open": lambda store: store.open(),
    "close": lambda store: store.close(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_another_event_loop_is_refused(store, call):
    """A call from another event loop is an error that says so; the store works on."""
    error = await asyncio.to_thread(in_another_loop, lambda: CALLS[call](store))

    assert isinstance(error, AlkstoreError)
    assert "event loop" in str(error)
    async with asyncio.timeout(3):
        job_id = await store.queue("x").enqueue("mine")
        handle = await store.queue("x").claim_one("me")
    assert job_id == handle.job.id


async def test_a_handle_of_another_event_loop_is_refused(store):
    """A transaction and a claim of one loop cannot be used from another."""
    await store.queue("x").enqueue("tea")
    handle = await store.queue("x").claim_one("me")
    async with store.begin_tx() as tx:
        for call in (lambda: tx.enqueue_tx("x", 1), tx.commit, tx.rollback):
            error = await asyncio.to_thread(in_another_loop, call)
            assert isinstance(error, AlkstoreError)
        await tx.enqueue_tx("x", "mine")
        await tx.commit()
    assert isinstance(await asyncio.to_thread(in_another_loop, handle.ack), AlkstoreError)

    assert await handle.ack()
    assert [b'"mine"'] == [job.payload for job in await store.queue("x").jobs()]


async def test_threads_may_share_a_file_with_stores_of_their_own(store, path):
    """Another loop in another thread opens its own store on the same file."""

    async def elsewhere() -> None:
        async with SqliteStore(path) as own:
            await own.queue("x").enqueue("theirs")

    async with store.queue("x").wakes() as wakes:
        assert await asyncio.to_thread(in_another_loop, elsewhere) is None
        async with asyncio.timeout(5):
            await wakes.recv()

    assert [b'"theirs"'] == [job.payload for job in await store.queue("x").jobs()]


@pytest.mark.parametrize("how", ["keeps", "drops"])
async def test_a_fork_is_refused_and_harms_nobody(path, spawn, integrity, how):
    """In a forked child every call is an error that says so; the parent's store works on."""
    child = spawn("forker.py", path, how)
    refusals = [await child.expect("child") for _ in range(5)]

    for refusal in refusals:
        assert refusal.startswith("refused")
        assert "fork" in refusal
    assert "53" == await child.expect("parent")
    assert [] == await child.succeed()
    assert "ok" == integrity()
    async with SqliteStore(path) as store:
        assert 53 == len(await store.queue("x").jobs())
