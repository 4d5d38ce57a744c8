"""How a consumer's handler is called for an event: alone, or in a transaction with its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_core.transactions import TxHandle
from alkstore_core.values import StreamEvent
from alkstore_core.worker.checks import checked_middlewares
from alkstore_core.worker.handlers import Callee, wrapped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from alkstore_core.store import Store
    from alkstore_core.streams import StreamHandle
    from alkstore_core.worker.handlers import Handler, Middleware
    from alkstore_core.worker.threads import Threads


class EventCalls:
    """Calls a consumer's handler for one event at a time.

    One that asks for a `TxHandle` is called in a transaction that saves the event's offset, too.

    Raises:
        TypeError: the handler's signature cannot be served, or `middlewares` are none.

    """

    def __init__(
        self,
        store: Store,
        stream: StreamHandle,
        name: str,
        handler: Handler,
        threads: Threads,
        middlewares: Iterable[Middleware[StreamEvent]],
        returned: Callable[[], None],
    ) -> None:
        """Prepare; `returned` is called after the handler, and raises if that is no answer."""
        self._store = store
        self._stream = stream.name
        self._name = name
        self._tx: TxHandle | None = None
        callee = Callee(
            handler,
            store,
            {StreamEvent: lambda event: event, TxHandle: lambda _: self._tx},
            lambda event: event,
        )
        self._call: Callable[[StreamEvent], Awaitable[object]] = wrapped(
            callee.call(threads), checked_middlewares(middlewares)
        )
        self._returned = returned
        self.in_tx: bool = TxHandle in callee.asked
        self.called: bool = False
        """Whether the last call came as far as to the handler."""

    async def __call__(self, event: StreamEvent) -> None:
        """Call the handler, and commit if it runs in a transaction."""
        self.called = not self.in_tx
        await (self._call_in_tx if self.in_tx else self._call_to_the_end)(event)

    async def _call_to_the_end(self, event: StreamEvent) -> None:
        await self._call(event)
        self._returned()

    async def _call_in_tx(self, event: StreamEvent) -> None:
        stream, name = self._stream, self._name
        async with self._store.transaction() as tx:
            # Takes the row, so that whoever else does the same at this moment waits for us.
            await tx.save_offset_tx(stream, name, 0)
            if await tx.get_offset_tx(stream, name) >= event.offset:
                return
            # Before the handler: should it commit by itself, then with the offset.
            await tx.save_offset_tx(stream, name, event.offset)
            self._tx = tx
            self.called = True
            try:
                await self._call_to_the_end(event)
            finally:
                self._tx = None
        if not tx._tx.committed:  # noqa: SLF001 - of core, as this; for others the commit's word.
            raise RuntimeError(
                f"the handler of consumer {name!r} of stream {stream!r} rolled its transaction "
                "back and returned, so its event is not handled: raise instead, such as Retry or "
                "Fail"
            )
