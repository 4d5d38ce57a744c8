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

# asyncio itself holds tasks weakly, and a thread that was interrupted twice waits no more.
_endings: set[asyncio.Task[None]] = set()


class Submit(Protocol):
    """Has a callback run on the loop, soon."""

    def __call__(self, callback: Callable[[], None], context: contextvars.Context, /) -> None:
        """Do so, or raise `Closed`."""


class _ThisThread(threading.local):
    """The calling thread, as the writer's slot knows it."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """From now on this thread counts as another one."""
        self.caller: Thread = Thread(threading.current_thread().name)


_this = _ThisThread()


class Call(Generic[T]):
    """Runs `work` as a task, in the caller's context, while the calling thread waits.

    When the thread was interrupted, `unseen` undoes the result that it never saw, and `after` is
    run in any case, also when the work had not even begun.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[T]],
        unseen: Callable[[T], Awaitable[object]] | None = None,
        after: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.begun: bool = False
        self._work: Callable[[], Awaitable[T]] | None = work
        self._unseen = unseen
        self._after = after
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
            # From here on an interruption finds the handler below.
            self.begun = True
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
            if error is None:
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
        except asyncio.CancelledError as error:
            # The loop's end cancels the task; what only the work raised is a result like others.
            if self._task is None or not self._task.cancelling():
                self._error = error
        except BaseException as error:  # noqa: BLE001 - it is the waiting thread's.
            self._error = error
        finally:
            del work
            self._running.release()

    def _interrupted(self, submit: Submit) -> None:
        # Not an event: that does not bear an interruption of its own wait.
        over = Lock()
        over.acquire()
        try:
            submit(lambda: self._abandon(over), contextvars.copy_context())
            over.acquire()
        except Closed:
            return
        except BaseException:
            # What ends without this thread is its own no more: the next call waits for it.
            _this.renew()
            raise

    def _abandon(self, over: Lock) -> None:
        # A task that has not begun never will; one that was not even made finds no work.
        self._work = None
        if self._task is not None:
            self._task.cancel()
        ending = asyncio.get_running_loop().create_task(self._end())
        _endings.add(ending)
        ending.add_done_callback(_endings.discard)
        ending.add_done_callback(lambda _: over.release())

    async def _end(self) -> None:
        act_for(self._thread)
        if self._task is not None:
            await asyncio.wait((self._task,))
        self._error = None
        try:
            if self._value and self._unseen is not None:
                await self._unseen(self._value[0])
            if self._after is not None:
                await self._after()
        except Exception as error:  # noqa: BLE001 - must not hide the interruption.
            _log.warning("clean-up after an interrupted call failed: %s", error)
