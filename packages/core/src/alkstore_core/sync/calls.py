"""One blocking call: a task on the event loop, and a thread that waits for it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from alkstore_core.errors import Closed
from alkstore_core.slot import Thread, act_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Submit(Protocol):
    """Has a callback run on the loop, soon."""

    def __call__(self, callback: Callable[[], None], context: contextvars.Context, /) -> None:
        """Do so, or raise `Closed`."""


class _ThisThread(threading.local):
    """The calling thread, as the writer's slot knows it."""

    def __init__(self) -> None:
        self.caller = Thread(threading.current_thread().name)


_this = _ThisThread()


class Call(Generic[T]):
    """Runs `work` as a task, in the caller's context, while the calling thread waits.

    `unseen` undoes what came of it when the thread was interrupted and never saw the result.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[T]],
        unseen: Callable[[T], Awaitable[object]] | None,
    ) -> None:
        self._work: Callable[[], Awaitable[T]] | None = work
        self._unseen = unseen
        self._thread = _this.caller
        self._task: asyncio.Task[None] | None = None
        self._value: list[T] = []
        self._error: BaseException | None = None
        # Half as dear as an event; a signal interrupts the wait for either.
        self._running = Lock()
        self._running.acquire()

    def make(self, submit: Submit) -> T:
        """Wait for the end; return or raise what the work did.

        Whatever interrupts the wait, such as a `KeyboardInterrupt`, cancels the work, waits for
        its end, and is raised then. A second interruption is raised at once.

        Raises:
            Closed: the loop has ended.

        """
        try:
            submit(self._start, contextvars.copy_context())
            self._running.acquire()
            if self._value:
                return self._value[0]
        except BaseException:
            self._interrupted(submit)
            raise
        # The error's traceback will hold this frame, and all callers' frames with their handles:
        # were anything here to hold the error, a lost transaction would wait for the collector.
        error, self._error = self._error, None
        try:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise Closed("the store was closed during this call, which was cancelled by that")
            raise error
        finally:
            del error

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.set_name(self._thread.get_name())

    async def _run(self) -> None:
        work, self._work = self._work, None
        act_for(self._thread)
        try:
            if work is not None:
                self._value.append(await work())
        except BaseException as error:  # noqa: BLE001 - it is the waiting thread's.
            self._error = error
        finally:
            del work
            self._running.release()

    def _interrupted(self, submit: Submit) -> None:
        over = threading.Event()
        try:
            submit(lambda: self._abandon(over), contextvars.copy_context())
        except Closed:
            return
        over.wait()

    def _abandon(self, over: threading.Event) -> None:
        self._work = None
        if self._task is None:
            over.set()
            return
        self._task.cancel()
        ending = asyncio.get_running_loop().create_task(self._give_back(self._task))
        ending.add_done_callback(lambda _: over.set())

    async def _give_back(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait((task,))
        self._error = None
        if self._value and self._unseen is not None:
            try:
                await self._unseen(self._value[0])
            except Exception as error:  # noqa: BLE001 - must not hide the interruption.
                _log.warning("clean-up after an interrupted call failed: %s", error)
