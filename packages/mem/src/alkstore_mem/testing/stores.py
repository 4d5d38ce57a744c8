"""A store that a plain fixture can hand to an async test."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from alkstore_core.runtime import Runtime
from alkstore_mem.database import MemDatabase
from alkstore_mem.store import MemStore
from alkstore_mem.testing.at_once import at_once

if TYPE_CHECKING:
    import asyncio

    from alkstore_core import Clock
    from alkstore_core.spi import Session


class _SelfOpening(Runtime):
    """Opens at the first call, on the loop on which that is made.

    A fixture does not know that loop: each plugin for async tests has its own way to it.
    """

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The loop on which it is open."""
        return self._home if self.is_open else None

    def session(self) -> Session:
        """The auto-commit session."""
        if self._state == "new":
            # Nothing in memory has to be waited for.
            at_once(self.open())
        return super().session()


@final
class SelfOpeningStore(MemStore):
    """A store with a database of its own, which is open as soon as it is used."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._own = MemDatabase()
        super().__init__(clock=clock, database=self._own)
        self._opening = _SelfOpening(self._runtime.engine)
        self._runtime = self._opening

    def finish(self) -> None:
        """Close it, as far as its loop is still there, and forget everything."""
        loop = self._opening.home
        if loop is not None and not loop.is_closed() and not loop.is_running():
            loop.run_until_complete(self.close())
        self._own.discard()
