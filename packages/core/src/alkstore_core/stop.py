"""Asking long-running calls to end."""

from __future__ import annotations

import asyncio
import contextlib


class StopToken:
    """Stopped once, for ever, for everybody who holds it: tasks, loops and threads alike.

    Lock-free on purpose: `stop` may run in a signal handler, in the middle of any other call.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._waiters: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Stop; every `wait` returns soon. Idempotent; callable from any thread or signal."""
        # The flag first: who registers after the snapshot below sees it.
        self._stopped = True
        for waiter, loop in self._waiters.copy().items():
            # A loop that closed under its waiter has nobody to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, waiter)

    async def wait(self) -> None:
        """Return once stopped. A cancelled wait leaves nothing behind."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters[waiter] = loop
        try:
            if not self._stopped:
                await waiter
        finally:
            del self._waiters[waiter]


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
