"""What runs until it is told to end: by ctrl-C, by SIGTERM, or by whoever reads it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from alkstore_core import StopToken
from alkstore_core.cli.opening import run
from alkstore_core.signals import on_signals

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Coroutine, Generator


def run_until_told(work: Callable[[StopToken], Coroutine[Any, Any, None]]) -> None:
    """Do it until it ends, its token is stopped, or a signal comes, which is an ordinary end.

    What it does to end in order is given the time that it takes; a second signal interrupts that.
    """
    stop = StopToken()

    def told(_: signal.Signals) -> None:
        if stop.stopped:
            raise KeyboardInterrupt
        stop.stop()

    with on_signals(told):
        run(_race(work(stop), stop))


@contextlib.contextmanager
def interrupted_at_once() -> Generator[None]:
    """While it lasts, a signal ends also what waits for standard input in the midst of a loop.

    asyncio's own handler of ctrl-C cancels a task, which the loop would not hear of before there
    is input; SIGTERM would leave no time to tell what was done.
    """

    def interrupt(_: signal.Signals) -> None:
        raise KeyboardInterrupt

    with on_signals(interrupt):
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
