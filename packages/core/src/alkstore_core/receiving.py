"""What all receivers have in common: how they end."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Self

from alkstore_core.errors import DatabaseError
from alkstore_core.integers import check_class
from alkstore_core.stop import StopToken

if TYPE_CHECKING:
    from types import TracebackType

    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Subscription


class Receiver:
    """A subscription that ends with `close`, with its stop token, or with its store.

    A receiver that is lost without `close` leaves nothing behind either.
    """

    __slots__ = ("__weakref__", "_ended", "_lost", "_runtime", "_subscription")

    def __init__(
        self, runtime: Runtime, subscription: Subscription, stop: StopToken | None
    ) -> None:
        if stop is not None:
            try:
                check_class("stop", stop, StopToken)
            except DatabaseError:
                subscription.close()
                raise
        self._runtime = runtime
        self._subscription = subscription
        self._ended = False
        self._lost: weakref.finalize[..., Receiver] | None = None
        if not runtime.is_open or (stop is not None and stop.stopped):
            self.end()
            return
        runtime.receivers.add(self)
        if stop is not None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(_end_on(stop, weakref.ref(self)))
            self._lost = weakref.finalize(self, _cancel, loop, task)
            self._lost.atexit = False

    def end(self) -> None:
        """End now; a pending `recv` returns `None`. Idempotent."""
        self._ended = True
        self._subscription.close()
        if self._lost is not None:
            self._lost()

    async def close(self) -> None:
        """The receiver has ended: `recv` gives `None`, for ever. Idempotent."""
        self._runtime.check_home()
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def _end_on(stop: StopToken, reference: weakref.ref[Receiver]) -> None:
    await stop.wait()
    receiver = reference()
    if receiver is not None:
        receiver.end()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    # The collector runs in whichever thread it pleases, also after the loop is gone.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(task.cancel)
