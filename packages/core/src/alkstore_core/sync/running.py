"""Workers of a plain script, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from alkstore_core.stop import StopToken
from alkstore_core.worker.apps import App
from alkstore_core.worker.running import check_runners, hearing, run_together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.store import Store
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.worker.runner import Runner


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
    firing = store if schedules else None

    apps: list[App] = []

    async def prepare() -> tuple[list[Runner], asyncio.AbstractEventLoop]:
        # Made on the loop: runners are of the loop on which they are made.
        runners: list[Runner] = []
        for one in work:
            if isinstance(one, App):
                apps.append(one)
                runners += one.runners(store)
            else:
                runners.append(one)
        check_runners(runners, firing)
        return runners, asyncio.get_running_loop()

    async def run_all(ending: StopToken) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.lifespan(store))
            await run_together(runners, firing, asked, ending, abort)

    runners, loop = bridge.call(prepare)
    # Also a signal stops the caller's own token: this thread waits, others may look at it.
    asked, abort = StopToken() if stop is None else stop, StopToken()
    # An interruption cancels the call, and that has ended everything before this goes on.
    with hearing(loop, runners, asked, abort, heed=signals):
        bridge.call(run_all, StopToken())
