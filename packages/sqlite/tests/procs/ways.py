"""The ways to write in one transaction, each with the same five effects.

A way is called with an `inside` that runs when all five are written and nothing is committed;
what it does (return, raise, wait for ever) is the test. It gets the owner of the transaction
and says whether to go on and commit.
"""

import contextlib
import inspect

from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alkstore_sqlite import prepare_engine

JOINED = ("AsyncSession", "AsyncConnection", "Session", "Connection")


async def settled(value):
    """The value of a call that may be plain or awaitable."""
    return await value if inspect.isawaitable(value) else value


async def write_five(tx, execute) -> None:
    """A business row, a job, a keyed event, a notify and a saved offset."""
    await settled(execute(text("INSERT INTO orders (item) VALUES ('tea')")))
    await settled(tx.enqueue_tx("mail", {"item": "tea"}))
    await settled(tx.publish_with_key_tx("sales", "tea", {"item": "tea"}))
    await settled(tx.notify_tx("orders", {"item": "tea"}))
    await settled(tx.save_offset_tx("sales", "audit", 7))


def make_engine(kind, path, *, prepared=True):
    """The application's own engine, async or sync as `kind` needs it."""
    if kind.startswith("Async"):
        engine = create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))
    else:
        engine = create_engine(URL.create("sqlite", database=str(path)))
    return prepare_engine(engine) if prepared else engine


@contextlib.asynccontextmanager
async def owner_of(kind, path, *, prepared=True):
    """A session or connection of the application's own engine; closing it rolls back."""
    engine = make_engine(kind, path, prepared=prepared)
    try:
        match kind:
            case "AsyncSession":
                async with AsyncSession(engine) as owner:
                    yield owner
            case "AsyncConnection":
                async with engine.connect() as owner:
                    yield owner
            case "Session":
                with Session(engine) as owner:
                    yield owner
            case "Connection":
                with engine.connect() as owner:
                    yield owner
    finally:
        await settled(engine.dispose())


async def _begin_tx(store, path, inside) -> None:
    tx = await store.begin_tx()
    await write_five(tx, tx.connection.execute)
    if await inside(tx):
        await tx.commit()


async def _begin_tx_block(store, path, inside) -> None:
    async with store.begin_tx() as tx:
        await write_five(tx, tx.connection.execute)
        if await inside(tx):
            await tx.commit()


async def _with_tx(store, path, inside) -> None:
    async def work(tx) -> None:
        await write_five(tx, tx.connection.execute)
        await inside(tx)

    await store.with_tx(work)


async def _transaction(store, path, inside) -> None:
    async with store.transaction() as tx:
        await write_five(tx, tx.connection.execute)
        await inside(tx)


def _join(kind):
    async def way(store, path, inside) -> None:
        async with owner_of(kind, path) as owner:
            await settled(owner.begin())
            await write_five(store.join(owner), owner.execute)
            if await inside(owner):
                await settled(owner.commit())

    return way


WAYS = {
    "begin_tx": _begin_tx,
    "begin_tx_block": _begin_tx_block,
    "with_tx": _with_tx,
    "transaction": _transaction,
    **{kind: _join(kind) for kind in JOINED},
}
