"""Waiting for a moment of the store's time, or for whoever rings before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from alkstore_core.stop import StopToken
    from alkstore_core.store import Store


class Alarm:
    """One task waits, any other may ring. A ring that nobody waits for is kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rung = False
        self._bell: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """End the wait, or the next one."""
        self._rung = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def wait(self, until: float | None = None) -> None:
        """Until it rings, or the moment `until` of `Store.mark()` has come."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            bell = self._bell = loop.create_future()
            sleeper = None
            if until is not None:
                sleeper = loop.create_task(self._store.sleep_until(until))
                sleeper.add_done_callback(self._wake)
            try:
                await bell
            finally:
                self._bell = None
                if sleeper is not None:
                    sleeper.remove_done_callback(self._wake)
                    sleeper.cancel()
            if sleeper is not None and sleeper.done() and not sleeper.cancelled():
                # A clock that cannot wait must not let the waiter spin.
                sleeper.result()
        self._rung = False

    def _wake(self, _: asyncio.Task[Any]) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)


async def until_stopped_or(stop: StopToken, what: Coroutine[Any, Any, None]) -> None:
    """Until `what` has ended, or `stop`, which cancels it."""
    waiting = asyncio.ensure_future(what)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            # A clock that cannot wait must not let the handler spin.
            waiting.result()
    finally:
        waiting.cancel()
        stopping.cancel()


class Backoff:
    """How long to wait before the next try while the database does not answer, in real seconds.

    Doubled from try to try, up to `LONGEST`; begins anew once it has answered.
    """

    FIRST = 0.1
    LONGEST = 5.0

    def __init__(self) -> None:
        self._next = self.FIRST

    def take(self) -> float:
        """The pause now due."""
        pause, self._next = self._next, min(self._next * 2, self.LONGEST)
        return pause

    def reset(self) -> None:
        """It has answered."""
        self._next = self.FIRST
