"""What the type checker has to know of blocking stores. Checked by mypy, run by nobody.

An ignored error that is no error is one (`warn_unused_ignores`): so each comment below says
that the line beside it must not pass.
"""

from typing import assert_type

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from alkstore_core import Job, Store, StreamEvent, TxHandle, Wake, open_store
from alkstore_core.overview import Overview, overview
from alkstore_core.sql.join import JoinedSyncTx
from alkstore_core.sql.store import SqlTxHandle
from alkstore_core.sync import SyncJobHandle, SyncLock, SyncQueue, SyncStore, SyncTxHandle
from alkstore_sqlite import SqliteStore


def calls() -> None:
    """Each call has the exact type of what the asynchronous one gives when awaited."""
    with SyncStore(SqliteStore("app.db")) as store:
        assert_type(store, SyncStore[SqliteStore])
        assert_type(store.wrapped, SqliteStore)
        queue = store.queue("q")
        assert_type(queue, SyncQueue)
        assert_type(queue.enqueue({"a": 1}), int)
        assert_type(queue.claim_one("w"), SyncJobHandle | None)
        assert_type(queue.get_job(1), Job | None)
        assert_type(store.try_lock("l", "me", 60), SyncLock | None)
        assert_type(store.call(overview, store.wrapped), Overview)
        assert_type(store.outbox("o").run_once("w", lambda handle: handle.job), bool)
        with store.listen("c") as wakes:
            assert_type(wakes.recv(timeout=1.5), Wake | None)
        for event in store.stream("s").subscribe("me").until_idle(5):
            assert_type(event, StreamEvent)
        store.call(overview)  # type: ignore[call-arg]
        queue.enqueue()  # type: ignore[call-arg]


def transactions(session: Session, connection: Connection) -> None:
    """A handle knows of which store it is, and a session can be joined where that can be done."""
    store = SyncStore(SqliteStore("app.db"))
    with store.transaction() as tx:
        assert_type(tx, SyncTxHandle[SqlTxHandle])
        assert_type(tx.enqueue_tx("q", 1), int)
        tx.call(lambda inner: inner.connection.execute)  # type: ignore[arg-type, return-value]
    assert_type(store.with_tx(lambda tx: tx.publish_many_tx("s", [1])), list[int])
    assert_type(store.join(session), JoinedSyncTx)
    assert_type(store.join(connection).enqueue_tx("q", 1), int)
    store.join(5)  # type: ignore[call-overload]
    SyncStore(5)  # type: ignore[type-var]


def any_store() -> None:
    """A store of which only the contract is known begins transactions and joins nothing."""
    with SyncStore(open_store("sqlite:///app.db")) as store:
        assert_type(store, SyncStore[Store])
        assert_type(store.begin_tx(), SyncTxHandle[TxHandle])
        store.join(object())  # type: ignore[misc]
