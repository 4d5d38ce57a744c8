"""What runs until it is told to end: by ctrl-C, by SIGTERM, or by whoever reads it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

from alkstore_core import StopToken
from alkstore_core.cli.opening import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable


def run_until_told(work: Callable[[StopToken], Coroutine[Any, Any, None]]) -> None:
    """Do it until it ends, its token is stopped, or a signal comes, which is an ordinary end."""
    stop = StopToken()
    with _on((signal.SIGINT, signal.SIGTERM), stop.stop):
        run(_race(work(stop), stop))


@contextlib.contextmanager
def interrupted_at_once() -> Generator[None]:
    """While it lasts, ctrl-C ends also what waits for standard input in the midst of a loop.

    asyncio's own handler cancels a task, which the loop would not hear of before there is input.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    with _on((signal.SIGINT,), interrupt):
        yield


async def _race(work: Coroutine[Any, Any, None], stop: StopToken) -> None:
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not working.done():
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


@contextlib.contextmanager
def _on(numbers: Iterable[signal.Signals], act: Callable[[], None]) -> Generator[None]:
    """Act at a signal; Python gives them to the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: act()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set by Python and cannot be set by it.
            if handler is not None:
                signal.signal(number, handler)
