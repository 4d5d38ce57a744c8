"""Signals that tell what runs to end."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import FrameType

ENDS: Final = (signal.SIGTERM, signal.SIGINT)
"""Those by which a process is asked to end, by its supervisor or at its terminal."""


@contextlib.contextmanager
def on_signals(
    act: Callable[[signal.Signals], None], numbers: Iterable[signal.Signals] = ENDS
) -> Generator[None]:
    """Call `act` at each of these signals; afterwards all is as it was.

    It is called between two steps of whatever the main thread does: it may raise there, and must
    not wait. In another thread, to which Python gives no signals, nothing changes.
    A handler that somebody else has set meanwhile stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [_Handler(number, act) for number in numbers]
    try:
        yield
    finally:
        for handler in ours:
            handler.end()


class _Handler:
    """Stands where another handler of a signal did, until it ends.

    Those that overlap may end in any order: one that is not the last begun only says that it has
    ended, and the one that stands above it passes it over.
    """

    def __init__(self, number: signal.Signals, act: Callable[[signal.Signals], None]) -> None:
        self._number = number
        self._act = act
        self.ended = False
        self.before: Any = None
        self.before = signal.signal(number, self)

    def __call__(self, number: int, _: FrameType | None) -> None:
        self._act(signal.Signals(number))

    def end(self) -> None:
        self.ended = True
        while isinstance(self.before, _Handler) and self.before.ended:
            self.before = self.before.before
        stands = signal.getsignal(self._number) is self
        # None stands for a handler that was not set by Python and cannot be set by it.
        if stands and self.before is not None:
            signal.signal(self._number, self.before)
