"""Receivers for code that blocks: they wait, or wait for so long."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Generic, Self, TypeVar, final

from alkstore_core.values import StreamEvent, Wake

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType
    from typing import Any

    from alkstore_core.completion import Attaching
    from alkstore_core.streams import EventReceiver, StreamHandle
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.wakes import WakeReceiver

T = TypeVar("T")


class _Pending(Generic[T]):
    """The `recv` that is under way. It goes on while nobody waits for it.

    So neither a time-out nor an interruption can lose what is on its way, and a wait that is
    shorter than a query still gets somewhere.
    """

    def __init__(self, receive: Callable[[], Coroutine[Any, Any, T | None]]) -> None:
        self._receive = receive
        self._task: asyncio.Task[T | None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, seconds: float | None) -> bool:
        """Whether it has an answer by then."""
        self._loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = self._loop.create_task(self._receive())
        done, _ = await asyncio.wait((self._task,), timeout=seconds)
        return bool(done)

    def take(self) -> T | None:
        """The answer, which is the caller's from now on."""
        task, self._task = self._task, None
        try:
            return None if task is None or task.cancelled() else task.result()
        finally:
            # It may hold an error whose traceback holds this frame.
            del task

    def forget(self) -> None:
        """Nobody will ever ask. Called in whichever thread the collector runs."""
        if self._task is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)


class SyncReceiver(Generic[T]):
    """What wakes and events have in common: an iterator, and a context manager that closes."""

    __slots__ = ("__weakref__", "_bridge", "_pending", "_receiver", "_turn")

    def __init__(
        self,
        bridge: Bridge,
        receiver: WakeReceiver | EventReceiver,
        receive: Callable[[], Coroutine[Any, Any, T | None]],
    ) -> None:
        self._bridge = bridge
        self._receiver = receiver
        self._pending = _Pending(receive)
        self._turn = threading.Lock()
        weakref.finalize(self, self._pending.forget).atexit = False

    def recv(self, timeout: float | None = None) -> T | None:
        """Wait for the next one; `None` once the receiver has ended.

        A wait that was interrupted or timed out loses nothing. Threads take turns.

        Raises:
            TimeoutError: nothing came for `timeout` seconds.
            DatabaseError: the database refused; call again to go on at the same place.

        """
        # Of two threads that wait for one answer both would take it.
        if not self._turn.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise TimeoutError(f"other threads waited for all of the {timeout} s")
        try:
            if not self._bridge.call(self._pending.wait, timeout):
                raise TimeoutError(f"nothing came within {timeout} s")
            return self._pending.take()
        finally:
            self._turn.release()

    def close(self) -> None:
        """The receiver has ended: `recv` gives `None`, for ever. Idempotent."""
        self._bridge.finish(self._receiver.close, self._receiver.close)

    def until_idle(self, timeout: float) -> Iterator[T]:
        """Iterate until nothing has come for `timeout` seconds, or the receiver has ended."""
        while True:
            try:
                item = self.recv(timeout)
            except TimeoutError:
                return
            if item is None:
                return
            yield item

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self.recv()
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@final
class SyncWakeReceiver(SyncReceiver[Wake]):
    """Wakes of one channel or queue, as `WakeReceiver`: "something changed, read again"."""

    __slots__ = ()

    def __init__(self, bridge: Bridge, receiver: WakeReceiver) -> None:
        super().__init__(bridge, receiver, receiver.recv)


@final
class SyncEventReceiver(SyncReceiver[StreamEvent]):
    """A consumer's events in order, as `EventReceiver`, from its saved offset on."""

    __slots__ = ("_consumer", "_last", "_stream")

    def __init__(
        self, bridge: Bridge, receiver: EventReceiver, stream: StreamHandle, consumer: str
    ) -> None:
        super().__init__(bridge, receiver, receiver.recv)
        self._stream = stream
        self._consumer = consumer
        self._last: int | None = None

    def recv(self, timeout: float | None = None) -> StreamEvent | None:
        """Wait for the next event; `None` once the receiver has ended.

        A wait that was interrupted or timed out loses nothing. Threads take turns.

        Raises:
            TimeoutError: nothing came for `timeout` seconds.
            DatabaseError: the database refused; call again to go on at the same place.

        """
        event = super().recv(timeout)
        if event is not None:
            self._last = event.offset
        return event

    def save_offset(self) -> None:
        """The consumer stands at the event that `recv` gave last; without one nothing happens."""
        # Not by way of the receiver: it may be ahead, by an event that nobody here has seen.
        if self._last is not None:
            self._bridge.call(self._stream.save_offset, self._consumer, self._last)


def attached_wakes(bridge: Bridge, attaching: Attaching[WakeReceiver]) -> SyncWakeReceiver:
    """The receiver, attached; an interrupted caller leaves none."""
    return bridge.take(
        attaching.__aenter__, _close, lambda receiver: SyncWakeReceiver(bridge, receiver)
    )


def attached_events(
    bridge: Bridge, attaching: Attaching[EventReceiver], stream: StreamHandle, consumer: str
) -> SyncEventReceiver:
    """As `attached_wakes`, of a stream's consumer."""
    return bridge.take(
        attaching.__aenter__,
        _close,
        lambda receiver: SyncEventReceiver(bridge, receiver, stream, consumer),
    )


async def _close(receiver: WakeReceiver | EventReceiver) -> None:
    await receiver.close()
