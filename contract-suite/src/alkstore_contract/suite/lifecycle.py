"""Opening and closing stores, and what is refused before and after."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import turns
from alkstore_contract.properties import prop
from alkstore_contract.traces import expect_nothing, write_everything
from alkstore_core import Closed, InvalidName, StopToken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Store

CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "enqueue": lambda store: store.queue("q").enqueue(1),
    "enqueue_many": lambda store: store.queue("q").enqueue_many([1]),
    "claim_one": lambda store: store.queue("q").claim_one("worker"),
    "claim_batch": lambda store: store.queue("q").claim_batch("worker", 2),
    "ack_batch": lambda store: store.queue("q").ack_batch([1], "worker"),
    "cancel": lambda store: store.queue("q").cancel(1),
    "get_job": lambda store: store.queue("q").get_job(1),
    "sweep_expired": lambda store: store.queue("q").sweep_expired(),
    "wakes": lambda store: _await(store.queue("q").wakes()),
    "stats": lambda store: store.queue("q").stats(),
    "jobs": lambda store: store.queue("q").jobs(),
    "dead_jobs": lambda store: store.queue("q").dead_jobs(),
    "redrive": lambda store: store.queue("q").redrive(1),
    "purge_dead": lambda store: store.queue("q").purge_dead(),
    "publish": lambda store: store.stream("s").publish(1),
    "publish_with_key": lambda store: store.stream("s").publish_with_key("key", 1),
    "publish_many": lambda store: store.stream("s").publish_many([1]),
    "read_since": lambda store: store.stream("s").read_since(0, 1),
    "read_from_consumer": lambda store: store.stream("s").read_from_consumer("reader", 1),
    "save_offset": lambda store: store.stream("s").save_offset("reader", 1),
    "get_offset": lambda store: store.stream("s").get_offset("reader"),
    "trim_to": lambda store: store.stream("s").trim_to(1),
    "subscribe": lambda store: _await(store.stream("s").subscribe("reader")),
    "consumers": lambda store: store.stream("s").consumers(),
    "bounds": lambda store: store.stream("s").bounds(),
    "outbox enqueue": lambda store: store.outbox("o").enqueue(1),
    "run_once": lambda store: store.outbox("o").run_once("worker", _deliver),
    "notify": lambda store: store.notify("news", 1),
    "listen": lambda store: _await(store.listen("news")),
    "try_lock": lambda store: store.try_lock("door", "owner", 10),
    "schedule": lambda store: store.schedule("tick", "@every 1s", "q", 1),
    "unschedule": lambda store: store.unschedule("tick"),
    "run_schedules": lambda store: store.run_schedules(StopToken()),
    "schedules": lambda store: store.schedules(),
    "queues": lambda store: store.queues(),
    "streams": lambda store: store.streams(),
    "outboxes": lambda store: store.outboxes(),
    "locks": lambda store: store.locks(),
    "diagnose": lambda store: store.diagnose(),
    "begin_tx": lambda store: _await(store.begin_tx()),
    "with_tx": lambda store: store.with_tx(_deliver),
    "transaction": lambda store: _enter(store.transaction()),
}


async def _await(awaitable: Any) -> object:
    return await awaitable


async def _enter(manager: Any) -> object:
    return await manager.__aenter__()


async def _deliver(_: object) -> None:
    pass


@prop("lifecycle.before_open", decided="Store/Lifecycle")
async def before_open(case: Case) -> None:
    """On a store that was not opened every call raises `Closed`; it can be opened after that."""
    store = case.unopened()
    for name, call in CALLS.items():
        with expect_raises(Closed, f"{name} before open()"):
            await call(store)
    async with store:
        expect_equal(await store.queue("q").jobs(), [], "jobs of the refused calls")


@prop("lifecycle.after_close", decided="Store/Lifecycle")
async def after_close(case: Case) -> None:
    """On a closed store every call raises `Closed`."""
    store, other = await case.store(), await case.store()
    await store.close()
    for name, call in CALLS.items():
        with expect_raises(Closed, f"{name} after close()"):
            await call(store)
    expect_equal(await other.queue("q").jobs(), [], "jobs of the refused calls")


@prop("lifecycle.handles_after_close", decided="Store/Lifecycle")
async def handles_after_close(case: Case) -> None:
    """What was made before its store was closed is refused with `Closed` afterwards."""
    store, other = await case.store(), await case.store()
    await store.queue("q").enqueue_many([1, 2])
    handle: Any = await store.queue("q").claim_one("worker")
    lock: Any = await store.try_lock("door", "owner", 10)
    events = await store.stream("s").subscribe("reader")
    await store.stream("s").publish(1)
    await events.recv()
    tx = await store.begin_tx()
    await store.close()
    uses: dict[str, Callable[[], Awaitable[object]]] = {
        "ack": handle.ack,
        "retry": handle.retry,
        "fail": handle.fail,
        "heartbeat": lambda: handle.heartbeat(10),
        "release": handle.release,
        "renew": lambda: lock.renew(10),
        "release of a lock": lock.release,
        "save_offset": events.save_offset,
        "enqueue_tx": lambda: tx.enqueue_tx("q", 1),
        "commit": tx.commit,
    }
    for name, use in uses.items():
        with expect_raises(Closed, f"{name} after close()"):
            await use()
    expect_equal(await other.stream("s").get_offset("reader"), 0, "the saved offset")
    expect_equal((await other.queue("q").stats()).processing, 1, "jobs that are still claimed")


@prop("lifecycle.unopened_handles", decided="Store/Lifecycle")
async def unopened_handles(case: Case) -> None:
    """`queue`, `stream` and `outbox` need no open store; what they give works once it is open."""
    store = case.unopened()
    queue, stream, outbox = store.queue("q"), store.stream("s"), store.outbox("o")
    for give in (store.queue, store.stream, store.outbox):
        with expect_raises(InvalidName, f"{give.__name__} of an unopened store"):
            give("")
    async with store:
        await queue.enqueue(1)
        await stream.publish(1)
        await outbox.enqueue(1)
        found = (await store.queues(), await store.streams(), await store.outboxes())
        expect_equal(found, (["q"], ["s"], ["o"]), "queues, streams and outboxes")
    for name, give in (("q", store.queue), ("s", store.stream), ("o", store.outbox)):
        expect_equal(give(name).name, name, "after the close")


@prop("lifecycle.open.twice", decided="Store/Lifecycle")
async def open_twice(case: Case) -> None:
    """Opening an open store does nothing: transactions and receivers go on."""
    store = case.unopened()
    async with store:
        async with store.listen("news") as receiver, store.begin_tx() as tx:
            await tx.enqueue_tx("q", 1)
            await tx.notify_tx("news")
            await store.open()
            await asyncio.gather(*(store.open() for _ in range(3)))
            await tx.commit()
            expect(await receiver.recv() is not None, "the receiver ended")
        expect_equal(len(await store.queue("q").jobs()), 1, "jobs")


@prop("lifecycle.open.closed", decided="Store/Lifecycle")
async def open_closed(case: Case) -> None:
    """A closed store stays closed: opening it raises `Closed`; another one takes its place."""
    store = case.unopened()
    async with store:
        await store.queue("q").enqueue(1)
    with expect_raises(Closed, "open() after close()"):
        await store.open()
    async with case.unopened() as fresh:
        expect_equal(len(await fresh.queue("q").jobs()), 1, "jobs that another store finds")


@prop("lifecycle.open.together", decided="Store/Lifecycle")
async def open_together(case: Case) -> None:
    """Clients may open one new database at the same time."""
    stores = [case.unopened() for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    for number, store in enumerate(stores):
        await store.queue("q").enqueue(number)
    counts = [len(await store.queue("q").jobs()) for store in stores]
    expect_equal(counts, [6] * 6, "jobs that each of them sees")
    await asyncio.gather(*(store.close() for store in stores))


@prop("lifecycle.close.again", decided="Store/Lifecycle")
async def close_again(case: Case) -> None:
    """`close` may be called any number of times, at once, and on a store that was never opened."""
    never = case.unopened()
    await never.close()
    await never.close()
    store = case.unopened()
    await store.open()
    await store.queue("q").enqueue(1)
    await asyncio.gather(*(store.close() for _ in range(3)))
    await store.close()
    with expect_raises(Closed, "a call after all that"):
        await store.queue("q").jobs()


@prop("lifecycle.block", decided="Store/Lifecycle")
async def block(case: Case) -> None:
    """`async with` opens the store and closes it, also when the block is left by an error."""
    store = case.unopened()
    raised = LookupError("as it is")

    def throw() -> None:
        raise raised

    with expect_raises(LookupError) as caught:
        async with store as entered:
            expect(entered is store, "the block got something else than the store")
            await store.queue("q").enqueue(1)
            throw()
    expect(caught.error is raised, "another error came out of the block")
    with expect_raises(Closed, "a call after the block"):
        await store.queue("q").jobs()


@prop("lifecycle.close.transactions", decided="Store/Lifecycle")
async def close_transactions(case: Case) -> None:
    """Closing rolls open transactions back, and nothing of them is in anybody's way."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    await store.close()
    with expect_raises(Closed, "the open handle"):
        await tx.commit()
    async with asyncio.timeout(2):
        await other.queue("after").enqueue("a write")
    await expect_nothing(other, "after the close")


@prop("lifecycle.close.receivers", decided="Store/Lifecycle", cases=("waiting", "iterating"))
async def close_receivers(case: Case, how: str) -> None:
    """Closing ends every receiver of the store: `recv` gives `None`, `async for` is over."""
    store = await case.store()
    receivers: list[Any] = [
        await store.listen("news"),
        await store.queue("q").wakes(),
        await store.outbox("o").backing.wakes(),
        await store.stream("s").subscribe("reader"),
    ]

    async def iterate(receiver: Any) -> None:
        async for item in receiver:
            expect_equal(item, None, "what an iteration gave, although nothing had happened")

    tasks: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(receiver.recv() if how == "waiting" else iterate(receiver))
        for receiver in receivers
    ]
    await turns()
    await store.close()
    for task in tasks:
        expect_equal(await task, None, f"a receiver that was {how}")
    for receiver in receivers:
        expect_equal(await receiver.recv(), None, "recv after the end")
        await receiver.close()


@prop("lifecycle.close.give_backs", decided="Store/Lifecycle", cases=(1, 2, 3, 5, 8, 13))
async def close_give_backs(case: Case, started: int) -> None:
    """Closing waits for jobs on their way back: after a cancelled claim nobody misses one."""
    store, other = await case.store(), await case.store()
    await store.queue("q").enqueue_many([1, 2, 3])
    claiming = asyncio.ensure_future(store.queue("q").claim_batch("worker", 3))
    for _ in range(started):
        await asyncio.sleep(0)
    cancelled = claiming.cancel()
    await store.close()
    await asyncio.wait((claiming,))
    handles = await other.queue("q").claim_batch("other", 3)
    expected = [1, 1, 1] if cancelled else []
    expect_equal(
        [handle.job.attempts for handle in handles], expected, "attempts of the next claim"
    )


@prop("lifecycle.close.under_way", decided="Store/Lifecycle")
async def close_under_way(case: Case) -> None:
    """Calls that are under way when the store is closed end: done, or refused with `Closed`."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await tx.enqueue_tx("q", "open")
    calls = [asyncio.ensure_future(store.queue("q").enqueue(number)) for number in range(5)]
    calls += [asyncio.ensure_future(_enqueue_in_tx(store)) for _ in range(5)]
    await turns()
    await store.close()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    strange = [end for end in ended if not isinstance(end, int | Closed)]
    expect_equal(strange, [], "calls that ended otherwise")
    done = sum(isinstance(end, int) for end in ended)
    expect_equal(len(await other.queue("q").jobs()), done, "jobs of the calls that went through")


async def _enqueue_in_tx(store: Store) -> int:
    async with store.transaction() as tx:
        return await tx.enqueue_tx("q", "waiting")


@prop("lifecycle.close.others", decided="Store/Lifecycle")
async def close_others(case: Case) -> None:
    """Closing one client touches no other: its transactions, receivers and claims live on."""
    store, other = await case.store(), await case.store()
    await other.queue("q").enqueue(1)
    handle: Any = await other.queue("q").claim_one("worker")
    async with other.stream("s").subscribe("reader") as events:
        waiting = asyncio.ensure_future(events.recv())
        await turns()
        tx = await other.begin_tx()
        await tx.publish_tx("s", 1)
        await store.close()
        await tx.commit()
        expect(await waiting is not None, "the other client's receiver ended")
    expect(await handle.ack(), "the other client's claim is gone")
