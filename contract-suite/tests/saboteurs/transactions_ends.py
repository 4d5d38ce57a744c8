"""Faults in how transactions end, and in what they do to other writers."""

import asyncio
import weakref

from sabotage import Saboteur, core, primitive

from alkstore_core import AlkstoreError, CodecError, DatabaseError, InvalidName, requests
from alkstore_core.opentx import spent
from alkstore_core.runtime import quietly

PREFIX = "__alkstore_"


async def saved(tx):
    """Whether the transaction sees a saved offset."""
    session = tx.session
    return any([await session.list_consumers(name) for name in await session.names("stream")])


async def posted(tx):
    """Whether it sees a message of an outbox."""
    return any(name.startswith(PREFIX) for name in await tx.session.names("queue"))


_kept = []


async def _begun_for_nobody(real, runtime):
    try:
        return await real(runtime)
    except asyncio.CancelledError:
        _kept.append(await runtime.engine.begin())
        raise


async def _undone_after_block(real, self, *error):
    tx = self._held[0]
    runtime, committed = tx._runtime, tx.ended_by_caller
    await real(self, *error)
    if committed and any(
        [
            await runtime.engine.auto.list_consumers(s)
            for s in await runtime.engine.auto.names("stream")
        ]
    ):
        for queue in await runtime.engine.auto.names("queue"):
            if queue.startswith(PREFIX):
                for job in await runtime.engine.auto.list_jobs(queue, None, 100, 0):
                    await runtime.engine.auto.delete_job(queue, job.id)


async def _left_is_committed(real, self, kind, error, traceback):
    tx = self._held[0]
    if error is None and not tx.over and await saved(tx):
        await tx.commit()
    await real(self, kind, error, traceback)


async def _raised_is_committed(real, self, kind, error, traceback):
    tx = self._held[0]
    if error is not None and not tx.over:
        await tx.commit()
    await real(self, kind, error, traceback)


async def _half_committed(real, queue, payloads, spec, **wake):
    ids = []
    try:
        for payload in payloads:
            ids += await real.insert_jobs(queue, [payload], spec, **wake)
    except asyncio.CancelledError:
        await real.commit()
        raise
    return ids


async def _cancelled_is_committed(real, self, kind, error, traceback):
    tx = self._held[0]
    if asyncio.current_task().cancelling() and not tx.over:
        await tx.commit()
    await real(self, kind, error, traceback)


async def _commit_gives_up(real, self):
    await asyncio.sleep(0)
    await real(self)


def _lost_is_committed(real, loop, tx):
    async def end():
        if await saved(tx):
            await quietly(tx.commit())
        else:
            tx.drop()

    if not tx.over:
        tx.abandon()
        loop.call_soon_threadsafe(lambda: tx._runtime.spawn(end()))


_lost = weakref.WeakKeyDictionary()


def _kept_when_many(real, loop, tx):
    count = _lost[tx._runtime] = _lost.get(tx._runtime, 0) + 1
    if count < 6:
        real(loop, tx)
    else:
        _kept.append(tx)


async def _fifth_rollback_hangs(real):
    if not real._spent:
        count = real.notes["count"] = real.notes.get("count", 0) + 1
        if count >= 5:
            return
    await real.rollback()


async def _undo_gives_up(real, self):
    await asyncio.sleep(0)
    await real(self)


def goes_on_after(how):
    """A spent handle enqueues outside of any transaction."""

    async def enqueue_tx(real, self, queue, payload, opts=None):
        tx = getattr(self, "_tx", None)
        ended = getattr(tx, "_ended", None)
        if ended is None or how not in ended[1]:
            return await real(self, queue, payload, opts)
        name, payloads, spec, wake = requests.enqueue(queue, payload, opts)
        return (await tx._runtime.engine.auto.insert_jobs(name, payloads, spec, wake=wake))[0]

    return core("txops:TxOps.enqueue_tx", enqueue_tx)


async def _refusal_spoils(real, self, channel, payload=None):
    try:
        await real(self, channel, payload)
    except (CodecError, InvalidName):
        if hasattr(self, "_tx"):
            self._tx._fault = "a call was refused"
        raise


async def _rollback_commits(real, self):
    tx = self._tx
    if not tx.over and await saved(tx):
        await tx.commit()
    else:
        await real(self)


async def _full_is_undone(real, self, kind, error, traceback):
    tx = self._held[0]
    if error is None and not tx.over and await saved(tx) and await posted(tx):
        await tx.end(spent("rolled back"))
        tx._ended_by_caller = True
    await real(self, kind, error, traceback)


async def _error_is_committed(real, self, kind, error, traceback):
    tx = self._held[0]
    if isinstance(error, Exception) and not tx.over:
        await tx.commit()
    await real(self, kind, error, traceback)


async def _value_is_lost(real, self, f):
    await real(self, f)


async def _error_is_wrapped(real, self, f):
    try:
        return await real(self, f)
    except AlkstoreError:
        raise
    except Exception as error:
        raise RuntimeError("the transaction failed") from error


async def _ghost_in_the_queue(real, self, ticket):
    try:
        await real(self, ticket)
    except asyncio.CancelledError:
        if ticket not in self._queue:
            self._queue.append(ticket)
        raise


async def _locked_at_once(real, self, call, instead, **urgent):
    if call == "publish_many" and self._holder is not None and not self._holder.mine:
        raise DatabaseError("the database is locked")
    await real(self, call, instead, **urgent)


def waits_for_itself(name):
    """One call is not refused beside its task's own transaction."""

    async def turn(real, self, call, *args, **urgent):
        if call != name:
            await real(self, call, *args, **urgent)

    return core("runtime:Runtime.turn", turn)


def _last_first(real, self, lease):
    if self._holder is lease:
        self._queue.reverse()
    real(self, lease)


SABOTEURS = {
    "transactions.begin.cancelled": Saboteur(
        core("opentx:begin", _begun_for_nobody),
        also={
            "cancellation.leaks": "it cancels begins",
            "cancellation.transaction": "it cancels begins",
            "transactions.writers.given_up": "it cancels begins",
        },
    ),
    "transactions.block_committed": Saboteur(
        core("transactions:BeginTx.__aexit__", _undone_after_block),
        also={"transactions.invisible": "it commits in such a block as well"},
    ),
    "transactions.block_left": Saboteur(core("transactions:BeginTx.__aexit__", _left_is_committed)),
    "transactions.block_raised": Saboteur(
        core("transactions:BeginTx.__aexit__", _raised_is_committed)
    ),
    "transactions.call.cancelled": Saboteur(
        primitive("insert_jobs", _half_committed, where="tx"),
        also={"cancellation.transaction": "it cancels at that moment, too"},
    ),
    "transactions.cancelled": Saboteur(
        core("transactions:Transaction.__aexit__", _cancelled_is_committed)
    ),
    "transactions.commit.cancelled": Saboteur(core("opentx:OpenTx.commit", _commit_gives_up)),
    "transactions.dropped": Saboteur(
        core("transactions:_dropped", _lost_is_committed), stateful=True
    ),
    "transactions.dropped.again": Saboteur(
        core("transactions:_dropped", _kept_when_many),
        also={
            "cancellation.leaks": "it drops as many",
            "transactions.begin.cancelled": "it drops as many",
        },
    ),
    "transactions.ends.turns": Saboteur(
        primitive("rollback", _fifth_rollback_hangs),
        also={
            "cancellation.leaks": "it has as many",
            "transactions.begin.cancelled": "it has as many",
            "transactions.dropped.again": "it loses even more",
            "streams.no_skip.concurrent": "so many of its transactions are rolled back",
            "copy.resumed": "it is interrupted as often",
        },
    ),
    "transactions.refused": Saboteur(
        core("txops:TxOps.notify_tx", _refusal_spoils),
        also={
            "payloads.refused_tx": "it is refused in a transaction as well",
            "notify.payload.codec": "it is refused in a transaction as well",
        },
    ),
    "transactions.rollback": Saboteur(
        core("transactions:TxHandle.rollback", _rollback_commits),
        also={
            "transactions.rollback.cancelled": "its rollback commits as well",
            "transactions.spent.rollback": "its rollback commits as well",
        },
        stateful=True,
    ),
    "transactions.rollback.cancelled": Saboteur(core("opentx:OpenTx.rollback", _undo_gives_up)),
    "transactions.spent.commit": Saboteur(goes_on_after("committed"), stateful=True),
    "transactions.spent.rollback": Saboteur(goes_on_after("rolled back"), stateful=True),
    "transactions.transaction.commits": Saboteur(
        core("transactions:Transaction.__aexit__", _full_is_undone),
        also={
            "cancellation.leaks": "it commits by such a block",
            "transactions.with_tx.value": "it commits by such a block",
            "cancellation.transaction": "it commits by such a block",
        },
        stateful=True,
    ),
    "transactions.transaction.raised": Saboteur(
        core("transactions:Transaction.__aexit__", _error_is_committed),
        also={"transactions.with_tx.raised": "it rolls back by such a block"},
        stateful=True,
    ),
    "transactions.with_tx.value": Saboteur(
        core("store:Store.with_tx", _value_is_lost), stateful=True
    ),
    "transactions.with_tx.raised": Saboteur(
        core("store:Store.with_tx", _error_is_wrapped), stateful=True
    ),
    "transactions.writers.bounded": Saboteur(
        core("slot:WriterSlot._expire", lambda real, self, waiter: None)
    ),
    "transactions.writers.given_up": Saboteur(core("slot:WriterSlot._wait", _ghost_in_the_queue)),
    "transactions.writers.other_tasks": Saboteur(
        core("slot:WriterSlot.turn", _locked_at_once),
        also={
            "streams.no_skip.concurrent": "its batches wait for transactions",
        },
        stateful=True,
    ),
    "transactions.writers.own_other": Saboteur(waits_for_itself("trim_to"), stateful=True),
    "transactions.writers.own_write": Saboteur(waits_for_itself("save_offset"), stateful=True),
    "transactions.writers.second_begin": Saboteur(
        core(
            "slot:WriterSlot._refuse_holder",
            lambda real, self, advice: None if advice.startswith("begin") else real(self, advice),
        ),
        stateful=True,
    ),
    "transactions.writers.turns": Saboteur(core("slot:WriterSlot.release", _last_first)),
}
