"""What happens when a wait is cancelled but the thing waited for must not stop half-way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from types import TracebackType

T = TypeVar("T")


async def to_the_end(task: asyncio.Task[T]) -> T:
    """Wait until `task` has ended; only then let a cancellation of the caller go on."""
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    # An error's traceback holds this frame: were the frame to hold the error as well, all the
    # callers' frames with their transactions would live until the collector runs.
    try:
        if cancellation is None:
            return task.result()
        if not task.cancelled():
            task.exception()  # Seen, so that nothing is logged as never retrieved.
        raise cancellation
    finally:
        del task, cancellation


class Closable(Protocol):
    """Something that `async with` has to give back."""

    async def close(self) -> None:
        """Give it back."""


C = TypeVar("C", bound=Closable)


class Attaching(Generic[C]):
    """A receiver on its way: `await` it, or use it with `async with`, which closes it."""

    __slots__ = ("_attach", "_receiver")

    def __init__(self, attach: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._attach = attach
        self._receiver: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._attach().__await__()

    async def __aenter__(self) -> C:
        self._receiver = await self._attach()
        return self._receiver

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._receiver is not None:
            await self._receiver.close()
