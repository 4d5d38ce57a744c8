"""What the type checker has to know of the memory engine. Checked by mypy, run by nobody."""

from typing import assert_type

from alkstore_core import TxHandle
from alkstore_mem import MemDatabase, MemStore


async def nothing_to_join(store: MemStore) -> None:
    """Neither `join` nor `connection` is there to be used by mistake."""
    async with store.transaction() as tx:
        assert_type(tx, TxHandle)
        tx.connection  # type: ignore[attr-defined]  # noqa: B018
    store.join(object())  # type: ignore[attr-defined]


def shared() -> MemStore:
    """A database is given by name."""
    MemStore(None)  # type: ignore[call-arg]
    return MemStore(database=MemDatabase())
