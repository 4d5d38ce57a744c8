"""What the type checker has to know of transactions. Checked by mypy, run by nobody.

An ignored error that is no error is one (`warn_unused_ignores`): so each comment below says
that the line beside it must not pass.
"""

from typing import assert_type

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from alkstore_core import Store
from alkstore_core.sql.join import JoinedSyncTx, JoinedTx
from alkstore_core.sql.store import SqlTxHandle
from alkstore_sqlite import SqliteStore


async def joined_async(
    store: SqliteStore, session: AsyncSession, connection: AsyncConnection
) -> None:
    """Joined to an async transaction the calls are awaited, and there is no end to call."""
    assert_type(store.join(session), JoinedTx)
    assert_type(store.join(connection), JoinedTx)
    assert_type(await store.join(session).enqueue_tx("q", 1), int)
    assert_type(await store.join(session).publish_many_tx("s", [1]), list[int])
    await store.join(session).commit()  # type: ignore[attr-defined]
    await store.join(connection).rollback()  # type: ignore[attr-defined]
    await store.join(session).claim_tx("q", "w")  # type: ignore[attr-defined]


def joined_sync(store: SqliteStore, session: Session, connection: Connection) -> None:
    """Joined to a blocking transaction the calls are plain, and there is no end to call."""
    assert_type(store.join(session), JoinedSyncTx)
    assert_type(store.join(connection), JoinedSyncTx)
    assert_type(store.join(session).enqueue_tx("q", 1), int)
    assert_type(store.join(session).publish_many_tx("s", [1]), list[int])
    store.join(session).commit()  # type: ignore[attr-defined]
    store.join(connection).rollback()  # type: ignore[attr-defined]


async def handles(store: SqliteStore) -> None:
    """A handle of a SQL store has the connection, whichever way it was begun."""
    async with store.begin_tx() as tx:
        assert_type(tx, SqlTxHandle)
        assert_type(tx.connection, AsyncConnection)
    async with store.transaction() as tx:
        assert_type(tx.connection, AsyncConnection)
    assert_type((await store.begin_tx()).connection, AsyncConnection)

    async def work(tx: SqlTxHandle) -> str:
        assert_type(tx.connection, AsyncConnection)
        return "done"

    assert_type(await store.with_tx(work), str)


async def any_store(store: Store) -> None:
    """A store of which only the contract is known joins nothing and shows no connection."""
    store.join(object())  # type: ignore[attr-defined]
    async with store.begin_tx() as tx:
        tx.connection  # type: ignore[attr-defined]  # noqa: B018 - looking is the error
