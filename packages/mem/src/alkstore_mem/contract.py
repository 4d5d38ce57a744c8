"""The engine as the conformance kit sees it; needs the extra `contract`."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, ClassVar

from alkstore_contract import Facts, Harness
from alkstore_mem.contract_raw import RawRows
from alkstore_mem.database import MemDatabase
from alkstore_mem.store import MemStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_contract import RawRun, RawWorkload
    from alkstore_core import Clock, Store


class MemHarness(Harness):
    """A database of its own, under a name that only this harness knows."""

    distribution: ClassVar[str] = "alkstore-mem"
    facts: ClassVar[Facts] = Facts(
        notify_limit=None,
        durability="volatile",
        reach="process",
        receiver_closes_on="close",
        single_writer=True,
        sql_join="none",
    )

    def __init__(self) -> None:
        self._databases: dict[str, MemDatabase] = {}
        self._numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def home(self) -> AsyncIterator[str]:
        """A new database's name."""
        address = f"mem-{next(self._numbers)}"
        self._databases[address] = MemDatabase()
        try:
            yield address
        finally:
            del self._databases[address]

    def store(self, address: str, clock: Clock | None) -> Store:
        """A store on that database."""
        return MemStore(clock=clock, database=self._databases[address])

    @contextlib.asynccontextmanager
    async def raw(self, address: str, workload: RawWorkload) -> AsyncIterator[RawRun]:
        """The plain `sqlite3` module on the database's one connection."""
        work = RawRows(self._databases[address].connection).runs()[workload]

        async def run(count: int) -> int:
            return work(count)

        yield run
