"""What runs until it is told to end: by ctrl-C, by SIGTERM, or by whoever reads it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from alkstore_core import StopToken

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def until_told() -> Generator[StopToken]:
    """A token that SIGINT and SIGTERM stop, here where a signal is the ordinary end."""
    stop = StopToken()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: stop.stop()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


async def pause(stop: StopToken, seconds: float) -> bool:
    """Wait so long, or until it is stopped; whether it was."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.stopped
