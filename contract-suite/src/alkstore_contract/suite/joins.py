"""Transactions that the caller owns, and the caller's rows in ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import expect_no_wake, expect_waiting
from alkstore_contract.properties import prop
from alkstore_contract.suite.transactions_ends import USES
from alkstore_contract.traces import (
    CHANNEL,
    done,
    expect_everything,
    expect_nothing,
    write_everything,
)
from alkstore_core import Closed, CodecError, DatabaseError, InvalidName, Wake

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_contract.harness import JoinKind
    from alkstore_core import Store

KINDS: Final[tuple[JoinKind, ...]] = ("AsyncConnection", "AsyncSession", "Connection", "Session")


async def _is_taken(case: Case, kind: JoinKind) -> bool:
    """Whether this engine joins such a transaction; one that does not is shown to refuse."""
    joins = case.facts.sql_join
    if joins == "both" or (joins == "async" and kind.startswith("Async")):
        return True
    store = await case.store()
    if joins == "none":
        expect(not hasattr(store, "join"), "there is a `join`, but the facts say there is none")
        async with store.begin_tx() as tx:
            expect(not hasattr(tx, "connection"), "the handle has a `connection` without `join`")
    else:
        with expect_raises(DatabaseError, "join(object())"):
            _join(store, object())
    return False


def _join(store: Store, subject: Any) -> Any:
    joining: Any = store
    return joining.join(subject)


@prop("joins.commit", decided="Transactions/The caller's", cases=KINDS)
async def commit(case: Case, kind: JoinKind) -> None:
    """The caller's commit makes the caller's row and all that joined it visible together."""
    if not await _is_taken(case, kind):
        return
    store, other = await case.store(), await case.store()
    caller = await case.caller(kind)
    await write_everything(_join(store, caller.subject))
    await caller.write("row")
    await done(_join(store, caller.subject).enqueue_tx("more", 1))
    await expect_nothing(other, "before the caller's commit")
    await caller.commit()
    expect_equal(len(await other.queue("more").jobs()), 1, "jobs of a second join")
    expect_equal(await case.harness.written(case.address), ["row"], "the caller's rows")
    await expect_everything(other, "after the caller's commit")


@prop("joins.rollback", decided="Transactions/The caller's", cases=KINDS)
async def rollback(case: Case, kind: JoinKind) -> None:
    """The caller's rollback undoes the caller's row and all that joined it."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    await caller.write("row")
    await write_everything(_join(store, caller.subject))
    await caller.rollback()
    expect_equal(await case.harness.written(case.address), [], "the caller's rows")
    await expect_nothing(store, "after the caller's rollback")


@prop("joins.savepoint", decided="Transactions/The caller's", cases=KINDS)
async def savepoint(case: Case, kind: JoinKind) -> None:
    """What joined inside a savepoint shares its fate: undone, or kept, or undone with the whole."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    for released in (False, True):
        await caller.write("row")
        joined = _join(store, caller.subject)
        await done(joined.enqueue_tx("outer", 1))
        nested = await done(caller.subject.begin_nested())
        await done(joined.enqueue_tx("inner", 1))
        await done(nested.commit() if released else nested.rollback())
        await done(joined.enqueue_tx("outer", 2))
        await (caller.rollback() if released else caller.commit())
    outer, inner = [len(await store.queue(name).jobs()) for name in ("outer", "inner")]
    expect_equal(outer, 2, "jobs beside the savepoint that was rolled back")
    expect_equal(inner, 0, "jobs of a rolled-back savepoint, or of a rolled-back whole")


@prop("joins.methods", decided="Transactions/The caller's", cases=KINDS)
async def methods(case: Case, kind: JoinKind) -> None:
    """A joined object has every `_tx` method of a handle, and its reads see its own writes."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    tx = _join(store, caller.subject)
    expect_equal([use for use in USES if not hasattr(tx, use)], [], "methods it lacks")
    job_id = await done(tx.enqueue_tx("work", 1))
    ids = await done(tx.enqueue_many_tx("work", [2, 3]))
    expect_equal(sorted([job_id, *ids]), [job_id, *ids], "ids in input order")
    message = await done(tx.outbox_enqueue_tx("letters", 4))
    first = await done(tx.publish_tx("log", 5))
    second = await done(tx.publish_with_key_tx("log", "key", 6))
    more = await done(tx.publish_many_tx("log", [7, 8]))
    expect_equal(sorted({first, second, *more}), [first, second, *more], "ascending offsets")
    expect_equal((len(ids), len(more)), (2, 2), "ids and offsets of the bulk forms")
    await done(tx.save_offset_tx("log", "reader", second))
    await done(tx.notify_tx("news", 9))
    job = await done(tx.get_job_tx("work", job_id))
    expect_equal(job.payload, b"1", "get_job_tx")
    expect_equal(await done(tx.get_offset_tx("log", "reader")), second, "get_offset_tx")
    events = await done(tx.read_since_tx("log", 0, 10))
    expect_equal([e.offset for e in events], [first, second, *more], "read_since_tx")
    events = await done(tx.read_from_consumer_tx("log", "reader", 10))
    expect_equal([e.offset for e in events], more, "read_from_consumer_tx")
    await caller.commit()
    expect(await store.outbox("letters").backing.get_job(message), "the message is lost")


@prop("joins.wakes.after", decided="Transactions/The caller's", cases=KINDS)
async def wakes_after(case: Case, kind: JoinKind) -> None:
    """A listener wakes after the caller's commit and not before it."""
    if not await _is_taken(case, kind):
        return
    store, other = await case.store(), await case.store()
    async with store.listen(CHANNEL) as near, other.listen(CHANNEL) as far:
        waiting = [asyncio.ensure_future(receiver.recv()) for receiver in (near, far)]
        caller = await case.caller(kind)
        await write_everything(_join(store, caller.subject))
        await expect_nothing(other, "before the caller's commit")
        for task in waiting:
            await expect_waiting(task, "a wake came before the caller's commit")
        await caller.commit()
        for task in waiting:
            expect_equal(await task, Wake(channel=CHANNEL), "the wake")
        await expect_everything(other, "when the wake has come")


@prop("joins.wakes.none", decided="Transactions/The caller's", cases=KINDS)
async def wakes_none(case: Case, kind: JoinKind) -> None:
    """A transaction that the caller rolled back wakes nobody."""
    if not await _is_taken(case, kind):
        return
    store, other = await case.store(), await case.store()
    async with store.listen(CHANNEL) as near, other.listen(CHANNEL) as far:
        caller = await case.caller(kind)
        await write_everything(_join(store, caller.subject))
        await caller.rollback()
        for receiver, client in ((near, store), (far, other)):
            await expect_no_wake(receiver, client, store, "a rolled-back transaction woke somebody")


@prop("joins.not_ours", decided="Transactions/The caller's", cases=KINDS)
async def not_ours(case: Case, kind: JoinKind) -> None:
    """A joined object cannot end the caller's transaction: it has no `commit` and no `rollback`."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    joined = _join(store, caller.subject)
    ends = [name for name in ("commit", "rollback", "close") if hasattr(joined, name)]
    expect_equal(ends, [], "what it could end the caller's transaction with")


@prop("joins.one_each", decided="Transactions/The caller's", cases=KINDS)
async def one_each(case: Case, kind: JoinKind) -> None:
    """A joined object serves one transaction; the caller's next one is joined anew."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    first = _join(store, caller.subject)
    await done(first.enqueue_tx("work", 1))
    await caller.commit()
    with expect_raises(DatabaseError, "a joined object after the caller's commit"):
        await done(first.enqueue_tx("work", 2))
    await caller.write("row")
    with expect_raises(DatabaseError, "a joined object in the caller's next transaction"):
        await done(first.enqueue_tx("work", 3))
    await done(_join(store, caller.subject).enqueue_tx("work", 4))
    await caller.commit()
    jobs = [job.payload for job in await store.queue("work").jobs()]
    expect_equal(jobs, [b"1", b"4"], "jobs of both transactions")


@prop("joins.refused", decided="Errors", cases=KINDS)
async def refused(case: Case, kind: JoinKind) -> None:
    """A call that a check refuses leaves the caller's transaction usable."""
    if not await _is_taken(case, kind):
        return
    store = await case.store()
    caller = await case.caller(kind)
    await caller.write("row")
    joined = _join(store, caller.subject)
    with expect_raises(InvalidName, "a queue without a name"):
        await done(joined.enqueue_tx("", 1))
    with expect_raises(CodecError, "a payload that is not JSON"):
        await done(joined.publish_tx("log", {1}))
    await write_everything(joined)
    await caller.commit()
    expect_equal(await case.harness.written(case.address), ["row"], "the caller's rows")
    await expect_everything(store, "after two refusals and the caller's commit")


@prop("joins.closed", decided="Store/Lifecycle", cases=KINDS)
async def closed(case: Case, kind: JoinKind) -> None:
    """A store that is not open joins nothing, and what it joined before takes no more calls."""
    if not await _is_taken(case, kind):
        return
    store, other = await case.store(), await case.store()
    caller = await case.caller(kind)
    await caller.write("row")
    joined = _join(other, caller.subject)
    await other.close()
    with expect_raises(Closed, "a call on an object of a closed store"):
        await done(joined.enqueue_tx("work", 1))
    for stranger in (other, case.unopened()):
        with expect_raises(Closed, "join"):
            _join(stranger, caller.subject)
    await done(_join(store, caller.subject).enqueue_tx("work", 2))
    await caller.commit()
    expect_equal(len(await store.queue("work").jobs()), 1, "jobs through the store that is open")


@prop("joins.others", decided="Transactions/The caller's")
async def others(case: Case) -> None:
    """Something that is no transaction of a kind that the engine joins is refused."""
    store = await case.store()
    if case.facts.sql_join == "none":
        expect(not hasattr(store, "join"), "there is a `join`, but the facts say there is none")
        return
    for stranger in (object(), None, store, "connection"):
        with expect_raises(DatabaseError, f"join of a {type(stranger).__name__}"):
            _join(store, stranger)


_CREATE = "CREATE TABLE of_the_caller (value VARCHAR(20))"
_INSERT = "INSERT INTO of_the_caller (value) VALUES ('row')"
_SELECT = "SELECT value FROM of_the_caller"


@prop("joins.connection", decided="Transactions/Our own")
async def connection(case: Case) -> None:
    """The caller's rows through `tx.connection` share the fate of our transaction."""
    store, other = await case.store(), await case.store()
    if case.facts.sql_join == "none":
        async with store.begin_tx() as tx:
            expect(not hasattr(tx, "connection"), "a handle without SQL has a `connection`")
        return
    await _execute(store, _CREATE, commits=True)
    for commits, rows in ((False, 0), (True, 1)):
        await _execute(store, _INSERT, commits=commits)
        async with other.begin_tx() as tx:
            handle: Any = tx
            found = (await handle.connection.exec_driver_sql(_SELECT)).all()
        await (expect_everything if commits else expect_nothing)(other, f"committed: {commits}")
        expect_equal(len(found), rows, f"the caller's rows, committed: {commits}")


async def _execute(store: Store, sql: str, *, commits: bool) -> None:
    async with store.begin_tx() as tx:
        handle: Any = tx
        await handle.connection.exec_driver_sql(sql)
        if sql == _INSERT:
            await write_everything(tx)
        if commits:
            await tx.commit()
