"""Signals that tell what runs to end."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

ENDS: Final = (signal.SIGTERM, signal.SIGINT)
"""Those by which a process is asked to end, by its supervisor or at its terminal."""


@contextlib.contextmanager
def on_signals(
    act: Callable[[signal.Signals], None], numbers: Iterable[signal.Signals] = ENDS
) -> Generator[None]:
    """Call `act` at each of these signals; afterwards all is as it was.

    It is called between two steps of whatever the main thread does: it may raise there, and must
    not wait. In another thread, to which Python gives no signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda got, _: act(signal.Signals(got))) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set by Python and cannot be set by it.
            if handler is not None:
                signal.signal(number, handler)
