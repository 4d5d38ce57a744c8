"""The engine as the conformance kit sees it; needs the extra `contract`."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, ClassVar

from alkstore_contract import Facts, Harness
from dictstore.database import DictDatabase
from dictstore.engine import DictStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_core import Clock, Store


class DictHarness(Harness):
    """A database for each case. An address is the key under which the harness keeps it."""

    distribution: ClassVar[str] = "dictstore"
    facts: ClassVar[Facts] = Facts(
        notify_limit=None,
        durability="volatile",
        reach="process",
        receiver_closes_on="close",
        single_writer=True,
        sql_join="none",
    )

    def __init__(self) -> None:
        self._databases: dict[str, DictDatabase] = {}

    @contextlib.asynccontextmanager
    async def home(self) -> AsyncIterator[str]:
        """A database that ends with the block."""
        address = uuid.uuid4().hex
        self._databases[address] = DictDatabase()
        try:
            yield address
        finally:
            del self._databases[address]

    def store(self, address: str, clock: Clock | None) -> Store:
        """A client of the database at an address."""
        return DictStore(self._databases[address], clock=clock)
