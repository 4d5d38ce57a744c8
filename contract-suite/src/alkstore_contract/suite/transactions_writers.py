"""What a refused call leaves behind, and who may write while a transaction is open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import expect_waiting, turns
from alkstore_contract.properties import prop
from alkstore_contract.traces import NOTHING, expect_nothing, traces
from alkstore_core import (
    AlkstoreError,
    CodecError,
    DatabaseError,
    EnqueueOpts,
    InvalidName,
    ReservedName,
    StopToken,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Store

AT_ONCE = 2.0
"""Seconds: far less than anybody waits for a turn, far more than a refusal takes."""

REFUSED: dict[str, tuple[type[AlkstoreError], str, tuple[Any, ...]]] = {
    "empty queue": (InvalidName, "enqueue_tx", ("", 1)),
    "reserved queue": (ReservedName, "enqueue_tx", ("__alkstore_x", 1)),
    "payload": (CodecError, "enqueue_tx", ("work", {1, 2})),
    "second payload": (CodecError, "enqueue_many_tx", ("work", [1, float("nan")])),
    "no number": (DatabaseError, "enqueue_tx", ("work", 1, EnqueueOpts(delay=2**63))),
    "headers": (CodecError, "publish_tx", ("log", 1, {"a": 1})),
    "empty key": (InvalidName, "publish_with_key_tx", ("log", "", 1)),
    "empty outbox": (InvalidName, "outbox_enqueue_tx", (" ", 1)),
    "reserved outbox": (ReservedName, "outbox_enqueue_tx", ("__alkstore_x", 1)),
    "channel": (InvalidName, "notify_tx", ("a\0b", 1)),
    "consumer": (InvalidName, "save_offset_tx", ("log", "", 1)),
    "no offset": (DatabaseError, "read_since_tx", ("log", True, 1)),
}


@prop("transactions.refused", decided="Errors", cases=tuple(REFUSED))
async def refused(case: Case, what: str) -> None:
    """A call that a check refuses writes nothing and leaves the transaction as usable as before."""
    error, call, arguments = REFUSED[what]
    store, other = await case.store(), await case.store()
    async with store.begin_tx() as tx:
        before = await tx.enqueue_tx("work", "before")
        with expect_raises(error, f"{call}{arguments!r}"):
            await getattr(tx, call)(*arguments)
        after = await tx.enqueue_tx("work", "after")
        await tx.commit()
    jobs = await other.queue("work").jobs()
    expect_equal([job.id for job in jobs], [before, after], "the jobs of the committed transaction")
    expect_equal(await other.stream("log").read_since(0, 10), [], "events of a refused call")


WRITES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "enqueue_tx": lambda store: store.queue("work").enqueue(1),
    "enqueue_many_tx": lambda store: store.queue("work").enqueue_many([1, 2]),
    "publish_tx": lambda store: store.stream("log").publish(1),
    "publish_with_key_tx": lambda store: store.stream("log").publish_with_key("key", 1),
    "publish_many_tx": lambda store: store.stream("log").publish_many([1, 2]),
    "notify_tx": lambda store: store.notify("news", 1),
    "save_offset_tx": lambda store: store.stream("log").save_offset("reader", 7),
    "outbox_enqueue_tx": lambda store: store.outbox("letters").enqueue(1),
}


@prop("transactions.writers.own_write", decided="Transactions/One writer", cases=tuple(WRITES))
async def own_write(case: Case, instead: str) -> None:
    """A task that writes beside its own open transaction never waits for itself.

    With one writer it is refused at once, by an error that names the `_tx` method; with several
    the write is a transaction of its own.
    """
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await tx.enqueue_tx("mine", 1)
    async with asyncio.timeout(AT_ONCE):
        if case.facts.single_writer:
            with expect_raises(DatabaseError, f"the auto-commit form of {instead}") as raised:
                await WRITES[instead](store)
            text = str(raised.error)
            expect(instead in text, f"the refusal does not say to use {instead}: {text}")
            await tx.commit()
            await expect_nothing(other, "after the refusal")
            expect_equal(len(await other.queue("mine").jobs()), 1, "the refused task's own jobs")
        else:
            await WRITES[instead](store)
            await tx.rollback()
            expect_equal(await other.queue("mine").jobs(), [], "jobs that were rolled back")
            if instead != "notify_tx":
                left = await traces(other)
                expect(left != NOTHING, "the write vanished with the transaction beside it")


OTHERS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "claim": lambda store: store.queue("work").claim_one("worker"),
    "ack_batch": lambda store: store.queue("work").ack_batch([1], "worker"),
    "cancel": lambda store: store.queue("work").cancel(1),
    "sweep": lambda store: store.queue("work").sweep_expired(),
    "redrive": lambda store: store.queue("work").redrive(1),
    "purge": lambda store: store.queue("work").purge_dead(),
    "run_once": lambda store: store.outbox("letters").run_once("worker", _deliver),
    "trim": lambda store: store.stream("log").trim_to(1),
    "lock": lambda store: store.try_lock("door", "owner", 10),
    "schedule": lambda store: store.schedule("tick", "@every 1h", "work", 1),
    "unschedule": lambda store: store.unschedule("tick"),
    "run_schedules": lambda store: store.run_schedules(_stopped()),
}


async def _deliver(_: object) -> None:
    pass


def _stopped() -> StopToken:
    stop = StopToken()
    stop.stop()
    return stop


@prop("transactions.writers.own_other", decided="Transactions/One writer", cases=tuple(OTHERS))
async def own_other(case: Case, call: str) -> None:
    """A call without a `_tx` form never waits for an open transaction of its own task.

    With one writer it is refused at once, by an error that says when to call it; with several
    it works.
    """
    store = await case.store()
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("mine", 1)
        async with asyncio.timeout(AT_ONCE):
            if case.facts.single_writer:
                with expect_raises(DatabaseError, call):
                    await OTHERS[call](store)
            else:
                await OTHERS[call](store)
        await tx.commit()
    expect_equal(len(await store.queue("mine").jobs()), 1, "jobs of the transaction")


async def _begin(store: Store) -> None:
    tx = await store.begin_tx()
    await tx.enqueue_tx("second", 1)
    await tx.commit()


async def _transaction(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.enqueue_tx("second", 1)


BEGINS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "begin_tx": _begin,
    "transaction": _transaction,
    "with_tx": lambda store: store.with_tx(lambda tx: tx.enqueue_tx("second", 1)),
}


@prop("transactions.writers.second_begin", decided="Transactions/One writer", cases=tuple(BEGINS))
async def second_begin(case: Case, how: str) -> None:
    """A task that begins a second transaction while it holds one never waits for itself.

    With one writer it is refused at once; with several both live, each with its own end.
    """
    store = await case.store()
    first = await store.begin_tx()
    await first.enqueue_tx("first", 1)
    async with asyncio.timeout(AT_ONCE):
        if case.facts.single_writer:
            with expect_raises(DatabaseError, f"a second {how}"):
                await BEGINS[how](store)
        else:
            await BEGINS[how](store)
    await first.rollback()
    jobs = [len(await store.queue(name).jobs()) for name in ("first", "second")]
    expect_equal(jobs, [0, 0 if case.facts.single_writer else 1], "jobs of both")


@prop("transactions.writers.turns", decided="Transactions/One writer")
async def writers_turns(case: Case) -> None:
    """Other tasks' transactions wait for an open one, first come first served, or need not wait.

    With one writer they wait and go on in the order in which they came; with several they are
    through while the first one is still open.
    """
    store = await case.store()
    first = await store.begin_tx()
    await first.enqueue_tx("first", 1)
    others = []
    for number in range(5):
        others.append(asyncio.ensure_future(_enqueue_in_tx(store, number)))
        await turns()
    if case.facts.single_writer:
        for other in others:
            await expect_waiting(other, "two transactions were open on an engine with one writer")
        await first.commit()
        await asyncio.gather(*others)
        order = [int(job.payload) for job in await store.queue("work").jobs()]
        expect_equal(order, [0, 1, 2, 3, 4], "the order in which they had their turn")
    else:
        await asyncio.gather(*others)
        expect_equal(len(await store.queue("work").jobs()), 5, "while the first one is open")
        await first.commit()


async def _enqueue_in_tx(store: Store, number: int) -> None:
    async with store.transaction() as tx:
        await tx.enqueue_tx("work", number)


@prop("transactions.writers.other_tasks", decided="Transactions/One writer")
async def other_tasks(case: Case) -> None:
    """Auto-commit writes of other tasks come through, after an open transaction or beside it."""
    store = await case.store()
    first = await store.begin_tx()
    await first.enqueue_tx("first", 1)
    writes = [asyncio.ensure_future(write(store)) for write in WRITES.values()]
    if case.facts.single_writer:
        for write in writes:
            await expect_waiting(write, "a write went by an open transaction")
        await first.commit()
    await asyncio.gather(*writes)
    if not case.facts.single_writer:
        await first.commit()
    expect_equal(len(await store.queue("work").jobs()), 3, "jobs of the others")
    expect_equal(len(await store.stream("log").read_since(0, 10)), 4, "events of the others")
    expect_equal(len(await store.queue("first").jobs()), 1, "jobs of the first")


@prop("transactions.writers.given_up", decided="Transactions/One writer")
async def given_up(case: Case) -> None:
    """A task that gave up waiting for its turn is in nobody's way."""
    store = await case.store()
    first = await store.begin_tx()
    await first.enqueue_tx("work", 1)
    waiting = [asyncio.ensure_future(_enqueue_in_tx(store, number)) for number in range(3)]
    await turns()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await first.commit()
    async with asyncio.timeout(AT_ONCE):
        await _enqueue_in_tx(store, 4)
    cancelled = sum(task.cancelled() for task in waiting)
    count = len(await store.queue("work").jobs())
    expect_equal(count, 2 + len(waiting) - cancelled, "jobs of those that did not give up")


@prop(
    "transactions.writers.bounded", decided="Transactions/One writer", group="process", seconds=60
)
async def writers_bounded(case: Case) -> None:
    """Nobody waits for ever for an open transaction.

    With one writer the wait ends with an error that names the task that holds it; with several
    there is none.
    """
    store = await case.store()
    begun, over = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("work", 1)
            begun.set()
            await over.wait()
            await tx.commit()

    holder = asyncio.create_task(hold(), name="the slow one")
    await begun.wait()
    if case.facts.single_writer:
        async with asyncio.timeout(30):
            with expect_raises(DatabaseError, "an endless wait") as raised:
                await store.queue("work").enqueue(2)
        text = str(raised.error)
        expect("the slow one" in text, f"the refusal does not name the holder's task: {text}")
    else:
        async with asyncio.timeout(AT_ONCE):
            await store.queue("work").enqueue(2)
    over.set()
    await holder
    expected = 1 if case.facts.single_writer else 2
    expect_equal(len(await store.queue("work").jobs()), expected, "jobs at the end")
