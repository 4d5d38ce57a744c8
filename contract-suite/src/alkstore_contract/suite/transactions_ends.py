"""How transactions end: by hand, with a block, by an error, a cancellation, or by being lost."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import end, expect_no_wake, turns
from alkstore_contract.properties import prop
from alkstore_contract.traces import (
    CHANNEL,
    expect_everything,
    expect_nothing,
    write_everything,
)
from alkstore_core import DatabaseError

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store, TxHandle


class OurError(Exception):
    """Something of the application's."""


class OurExit(BaseException):
    """Something that no `except Exception` catches."""


def _throw(error: BaseException) -> None:
    raise error


@prop("transactions.rollback", decided="Transactions/One transaction")
async def rollback(case: Case) -> None:
    """After `rollback` nothing of the transaction is left and nobody was woken."""
    store, other = await case.store(), await case.store()
    async with other.listen(CHANNEL) as receiver:
        tx = await store.begin_tx()
        await write_everything(tx)
        await tx.rollback()
        await expect_nothing(other, "after rollback() returned")
        await expect_no_wake(receiver, other, store, "a rollback woke a receiver")


@prop("transactions.block_left", decided="Transactions/Our own")
async def block_left(case: Case) -> None:
    """Leaving the block of `begin_tx` without a commit rolls back."""
    store, other = await case.store(), await case.store()
    async with store.begin_tx() as tx:
        await write_everything(tx)
    await expect_nothing(other, "after the block")
    with expect_raises(DatabaseError, "the handle after its block"):
        await tx.commit()


@prop("transactions.block_committed", decided="Transactions/Our own")
async def block_committed(case: Case) -> None:
    """Leaving the block of `begin_tx` after a commit keeps what was committed."""
    store, other = await case.store(), await case.store()
    async with store.begin_tx() as tx:
        await write_everything(tx)
        await tx.commit()
    await expect_everything(other, "after the block")


@prop("transactions.block_raised", decided="Transactions/Our own", cases=(OurError, OurExit))
async def block_raised(case: Case, error: type[BaseException]) -> None:
    """An error that leaves the block of `begin_tx` rolls back and goes on as it is."""
    store, other = await case.store(), await case.store()
    raised = error("as it is")
    with expect_raises(error) as caught:
        async with store.begin_tx() as tx:
            await write_everything(tx)
            _throw(raised)
    expect(caught.error is raised, "another error came out of the block")
    await expect_nothing(other, "after the block")


@prop("transactions.transaction.commits", decided="Transactions/Our own")
async def transaction_commits(case: Case) -> None:
    """The block of `transaction` commits when it ends well."""
    store, other = await case.store(), await case.store()
    async with store.transaction() as tx:
        await write_everything(tx)
    await expect_everything(other, "after the block")


@prop(
    "transactions.transaction.raised",
    decided="Transactions/Our own",
    cases=(OurError, OurExit, asyncio.CancelledError),
)
async def transaction_raised(case: Case, error: type[BaseException]) -> None:
    """The block of `transaction` rolls back on whatever leaves it, which goes on as it is."""
    store, other = await case.store(), await case.store()
    raised = error("as it is")
    with expect_raises(error) as caught:
        async with store.transaction() as tx:
            await write_everything(tx)
            _throw(raised)
    expect(caught.error is raised, "another error came out of the block")
    await expect_nothing(other, "after the block")


@prop("transactions.with_tx.value", decided="Transactions/Our own")
async def with_tx_value(case: Case) -> None:
    """`with_tx` commits what the function did and gives back what it returned."""
    store, other = await case.store(), await case.store()
    value = object()

    async def work(tx: TxHandle) -> object:
        await write_everything(tx)
        return value

    expect(await store.with_tx(work) is value, "with_tx gave something else back")
    await expect_everything(other, "after with_tx returned")


@prop(
    "transactions.with_tx.raised",
    decided="Transactions/Our own",
    cases=(OurError, OurExit, asyncio.CancelledError),
)
async def with_tx_raised(case: Case, error: type[BaseException]) -> None:
    """`with_tx` rolls back on whatever the function raises, and raises just that."""
    store, other = await case.store(), await case.store()
    raised = error("as it is")

    async def work(tx: TxHandle) -> None:
        await write_everything(tx)
        raise raised

    with expect_raises(error) as caught:
        await store.with_tx(work)
    expect(caught.error is raised, "another error came out of with_tx")
    await expect_nothing(other, "after with_tx raised")


@prop("transactions.cancelled", decided="Transactions/One transaction")
async def cancelled(case: Case) -> None:
    """A task that is cancelled within its transaction leaves nothing of it."""
    store, other = await case.store(), await case.store()
    written = asyncio.Event()

    async def work(tx: TxHandle) -> None:
        await write_everything(tx)
        written.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(store.with_tx(work))
    await written.wait()
    task.cancel()
    with expect_raises(asyncio.CancelledError, "the cancelled task"):
        await task
    await expect_nothing(other, "after the cancelled task ended")


@prop("transactions.dropped", decided="Transactions/Our own")
async def dropped(case: Case) -> None:
    """A handle whose last reference is lost is rolled back, and it woke nobody."""
    store, other = await case.store(), await case.store()
    async with other.listen(CHANNEL) as receiver:
        tx = await store.begin_tx()
        await write_everything(tx)
        del tx
        gc.collect()
        # On an engine with one writer this waits until the lost transaction is over.
        await store.queue("after").enqueue("a write")
        await expect_nothing(other, "after the handle was lost")
        await expect_no_wake(receiver, other, store, "a lost handle woke a receiver")


@prop("transactions.dropped.again", decided="Transactions/Our own")
async def dropped_again(case: Case) -> None:
    """Lost handles use nothing up: the same task begins one transaction after the other."""
    store = await case.store()
    for number in range(8):
        tx = await store.begin_tx()
        await tx.enqueue_tx("lost", number)
        del tx
    async with store.transaction() as tx:
        await tx.enqueue_tx("work", 1)
    expect_equal(await store.queue("lost").jobs(), [], "jobs of lost handles")
    expect_equal(len(await store.queue("work").jobs()), 1, "jobs of the last transaction")


USES = (
    "enqueue_tx",
    "enqueue_many_tx",
    "outbox_enqueue_tx",
    "publish_tx",
    "publish_with_key_tx",
    "publish_many_tx",
    "notify_tx",
    "save_offset_tx",
    "get_job_tx",
    "get_offset_tx",
    "read_since_tx",
    "read_from_consumer_tx",
)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "enqueue_tx": ("work", 1),
    "enqueue_many_tx": ("work", [1]),
    "outbox_enqueue_tx": ("letters", 1),
    "publish_tx": ("log", 1),
    "publish_with_key_tx": ("log", "key", 1),
    "publish_many_tx": ("log", [1]),
    "notify_tx": ("news", 1),
    "save_offset_tx": ("log", "reader", 1),
    "get_job_tx": ("work", 1),
    "get_offset_tx": ("log", "reader"),
    "read_since_tx": ("log", 0, 1),
    "read_from_consumer_tx": ("log", "reader", 1),
}


async def _expect_spent(tx: TxHandle, how: str) -> None:
    for use in USES:
        with expect_raises(DatabaseError, f"{use} {how}"):
            await getattr(tx, use)(*_ARGUMENTS[use])
    with expect_raises(DatabaseError, f"commit {how}"):
        await tx.commit()


@prop("transactions.spent.commit", decided="Transactions/Our own")
async def spent_commit(case: Case) -> None:
    """After `commit` every further use of the handle is refused, and adds nothing."""
    store = await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    await tx.commit()
    await _expect_spent(tx, "after commit")
    await tx.rollback()
    await expect_everything(store, "after everything was tried on a committed handle")


@prop("transactions.spent.rollback", decided="Transactions/Our own")
async def spent_rollback(case: Case) -> None:
    """After `rollback` every further use is refused, except that a second one does nothing."""
    store = await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    await tx.rollback()
    await tx.rollback()
    await _expect_spent(tx, "after rollback")
    await expect_nothing(store, "after everything was tried on a rolled-back handle")


@prop("transactions.commit.cancelled", decided="Store/Cancellation")
async def commit_cancelled(case: Case) -> None:
    """A commit that has begun ends before its caller's cancellation goes on."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    committing = asyncio.ensure_future(tx.commit())
    await asyncio.sleep(0)
    await end(committing)
    await expect_everything(other, "after the cancelled commit ended")


@prop("transactions.rollback.cancelled", decided="Store/Cancellation")
async def rollback_cancelled(case: Case) -> None:
    """A rollback that has begun ends before its caller's cancellation goes on."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await write_everything(tx)
    undoing = asyncio.ensure_future(tx.rollback())
    await asyncio.sleep(0)
    await end(undoing)
    # A handle that was still open would be in the way of another client's write.
    async with asyncio.timeout(2):
        await other.queue("after").enqueue("a write")
    with expect_raises(DatabaseError, "the handle"):
        await tx.commit()
    await expect_nothing(other, "after the cancelled rollback ended")


@prop("transactions.begin.cancelled", decided="Store/Cancellation", cases=(0, 1, 2, 5))
async def begin_cancelled(case: Case, started: int) -> None:
    """A cancelled begin leaves no open transaction behind."""
    store, other = await case.store(), await case.store()
    for _ in range(10):
        beginning = asyncio.ensure_future(_begin_and_forget(store))
        for _ in range(started):
            await asyncio.sleep(0)
        await end(beginning)
    async with asyncio.timeout(2):
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", 1)
        await other.queue("work").enqueue(2)
    expect_equal(len(await other.queue("work").jobs()), 2, "jobs of the two that came after")


async def _begin_and_forget(store: Store) -> None:
    await store.begin_tx()


@prop("transactions.call.cancelled", decided="Transactions/Our own", cases=(0, 1, 2, 3, 5, 8))
async def call_cancelled(case: Case, started: int) -> None:
    """A call that is cancelled half-way never lets a part of the transaction be committed."""
    store, other = await case.store(), await case.store()
    tx = await store.begin_tx()
    await tx.enqueue_tx("work", "before")
    calling = asyncio.ensure_future(tx.enqueue_many_tx("work", ["a", "b", "c"]))
    for _ in range(started):
        await asyncio.sleep(0)
    await end(calling)
    try:
        await tx.commit()
    except DatabaseError:
        expect(calling.cancelled(), "the call went well, the commit was refused")
        legal: tuple[int, ...] = (0,)
        await tx.rollback()
    else:
        legal = (1, 4) if calling.cancelled() else (4,)
    count = len(await other.queue("work").jobs())
    expect(count in legal, f"{count} jobs are committed, legal were {legal}")
    async with asyncio.timeout(2):
        await other.queue("after").enqueue("the writer is free")


@prop("transactions.ends.turns", decided="Transactions/One writer")
async def ends_turns(case: Case) -> None:
    """When `commit` or `rollback` has returned, the next transaction can begin at once."""
    store, other = await case.store(), await case.store()
    for client in (store, other) * 3:
        tx = await client.begin_tx()
        await tx.enqueue_tx("work", 1)
        await tx.commit()
        tx = await client.begin_tx()
        await tx.enqueue_tx("work", 1)
        await tx.rollback()
        await turns()
    expect_equal(len(await store.queue("work").jobs()), 6, "committed jobs")
