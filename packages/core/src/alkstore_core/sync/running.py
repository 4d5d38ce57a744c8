"""Workers of a plain script, and the signals that end it."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from alkstore_core.signals import on_signals
from alkstore_core.stop import StopToken
from alkstore_core.worker.apps import App
from alkstore_core.worker.running import run

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator

    from alkstore_core.store import Store
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.worker.runner import Runner

_log = logging.getLogger(__name__)


class _Abort(BaseException):
    """A second signal: the end, without grace."""


def run_until_stopped(
    bridge: Bridge,
    store: Store,
    work: Iterable[App | Runner],
    *,
    schedules: bool,
    stop: StopToken | None,
    signals: bool,
) -> None:
    """See `SyncStore.run`."""
    ending = StopToken() if stop is None else stop

    async def run_all() -> None:
        # Made on the loop: runners are of the loop on which they are made.
        runners = [r for w in work for r in (w.runners(store) if isinstance(w, App) else (w,))]
        await run(*runners, schedules=store if schedules else None, stop=ending, signals=False)

    # An interruption cancels the call, and that has ended everything before this goes on.
    with contextlib.suppress(_Abort), _signals(ending) if signals else contextlib.nullcontext():
        bridge.call(run_all)


@contextlib.contextmanager
def _signals(ending: StopToken) -> Iterator[None]:
    """The first signal stops, the second aborts; afterwards all is as it was."""
    received: list[signal.Signals] = []

    def ended_by(number: signal.Signals) -> None:
        first = not received
        received.append(number)
        if not first:
            raise _Abort
        ending.stop()

    with on_signals(ended_by):
        try:
            yield
        finally:
            if received:
                _log.info("%s: ended", received[0].name)
