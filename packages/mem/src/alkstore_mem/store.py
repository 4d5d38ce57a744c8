"""`MemStore`: one process, nothing on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_core import DatabaseError, Store
from alkstore_core.integers import check_class
from alkstore_mem.database import MemDatabase
from alkstore_mem.engine import MemEngine

if TYPE_CHECKING:
    from alkstore_core import Clock


class MemStore(Store):
    """A store in this process's memory, for tests: all of the contract, and no file.

    Stores of one event loop that are given the same `database` are clients of that database;
    without one the store has a database of its own, which is gone when the store is closed.
    With an injected `clock` that clock stamps and judges everything. There is no `join` and no
    `connection`: nothing but stores can reach this database.
    """

    def __init__(self, *, clock: Clock | None = None, database: MemDatabase | None = None) -> None:
        """Prepare; the database is made by `open()` or `async with`."""
        if database is not None:
            check_class("database", database, MemDatabase)
        super().__init__(MemEngine(database, clock))


def engine_from_url(url: str, *, clock: Clock | None = None) -> MemStore:
    """An unopened store with a database of its own; `url` is `mem:` and nothing else.

    Raises:
        DatabaseError: the URL has another shape.

    """
    if url.lower() != "mem:":
        raise DatabaseError(
            "a memory store's URL is mem: and nothing after it; stores that are to share a "
            "database are constructed as MemStore(database=...)"
        )
    return MemStore(clock=clock)
