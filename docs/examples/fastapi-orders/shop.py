"""The shop's database: its tables, its sessions and its store.

The only module that knows which engine there is. `ORDERS_DATABASE` names the database:
`sqlite:///orders.db`, or `postgresql://user:password@host/orders`. Run it once to make the tables.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alkstore_core.sql import SqlStore
from alkstore_postgres import PostgresStore
from alkstore_sqlite import SqliteStore, prepare_engine

DATABASE = os.environ.get("ORDERS_DATABASE", "sqlite:///orders.db")

CONFIRMATIONS = "confirmations"  # a queue
WEBHOOKS = "webhooks"  # an outbox
ORDERS = "orders"  # a stream


class Base(DeclarativeBase):
    """The shop's own tables; alkstore's lie beside them."""


class Order(Base):
    """What somebody ordered. `reference` is the client's number for it, used once."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(unique=True)
    item: Mapped[str]
    state: Mapped[str]


class Shop(NamedTuple):
    """A process's way to the database."""

    store: SqlStore
    writing: async_sessionmaker[AsyncSession]
    reading: async_sessionmaker[AsyncSession]


def connect(url: str) -> tuple[SqlStore, AsyncEngine, AsyncEngine]:
    """A store, an engine for what writes, and one for what only reads."""
    if url.startswith("postgresql://"):
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:", 1))
        return PostgresStore(engine), engine, engine
    path = url.removeprefix("sqlite:///")
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{path}"))
    return SqliteStore(path), engine, create_async_engine(f"sqlite+aiosqlite:///{path}")


@asynccontextmanager
async def open_shop(url: str = DATABASE) -> AsyncIterator[Shop]:
    """Open the database, and close it at the end of the block."""
    store, writing, reading = connect(url)
    try:
        async with store:
            yield Shop(store, async_sessionmaker(writing), async_sessionmaker(reading))
    finally:
        await reading.dispose()
        await writing.dispose()


async def create_tables(url: str = DATABASE) -> None:
    """Make the shop's tables. A real shop migrates; the store makes its own when it is opened."""
    _, writing, reading = connect(url)
    async with writing.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await reading.dispose()
    await writing.dispose()


if __name__ == "__main__":
    asyncio.run(create_tables())
