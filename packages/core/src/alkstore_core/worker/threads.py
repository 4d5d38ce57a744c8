"""Threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_core.worker.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_log = logging.getLogger(__name__)

_Call = tuple["asyncio.Future[Any]", "Callable[[], Any]"]


class Threads:
    """As many threads as were ever needed at once; daemons, unlike those of an executor.

    A handler that never returns must not keep the process from ending: its claim lapses, and
    somebody else does the job.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    @property
    def busy(self) -> int:
        """How many calls have not returned, whether or not somebody still waits for them."""
        return self._busy

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in a thread, with the caller's context variables.

        Cancelling this ends the waiting, not the call.
        """
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        future: asyncio.Future[T] = loop.create_future()
        if self._busy == self._started:
            self._start(loop)
        self._busy += 1
        self._calls.put((future, lambda: context.run(function, *args, **kwargs)))
        return await future

    def close(self) -> None:
        """Idle threads end, busy ones once their call returns."""
        for _ in range(self._started):
            self._calls.put(None)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        name = f"{self._name}-{self._started + 1}"
        threading.Thread(target=self._serve, args=(loop,), name=name, daemon=True).start()
        self._started += 1

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (call := self._calls.get()) is not None:
            future, work = call
            value: Any = None
            error: BaseException | None = None
            try:
                value = work()
            except (StopIteration, KeyboardInterrupt) as caught:
                # No future carries the first: it would end the coroutine that awaits it. The
                # other one is no Ctrl-C in a thread, for which the waiter would take it.
                error = RuntimeError(f"the handler raised {type(caught).__name__}")
                error.__cause__ = caught
            except BaseException as caught:  # noqa: BLE001 - it is the waiter's to judge.
                error = caught
            # The loop may be gone; then nobody waits for the answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._answer, future, value, error)
            del call, future, work, value, error

    def _answer(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._busy -= 1
        if future.done():
            if error is not None:
                _log.warning(
                    "%s: raised after it was given up",
                    self._name,
                    exc_info=error,
                    extra=event("thread.raised_late"),
                )
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
