"""Workers of a plain script, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from alkstore_core.stop import StopToken
from alkstore_core.worker.apps import App
from alkstore_core.worker.running import check_runners, hearing, run_together

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

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
    # Also a signal stops the caller's own token: this thread waits, others may look at it.
    asked = StopToken() if stop is None else stop
    ending, abort = StopToken(), StopToken()
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

    async def run_all() -> None:
        leaving, failures = StopToken(), list[BaseException]()
        # The signals are ours, so it is on us that what an application opens cannot hold them up.
        async with _given_up_at(leaving, abort), contextlib.AsyncExitStack() as stack:
            try:
                async with _given_up_at(asked):
                    for app in apps:
                        await stack.enter_async_context(app.lifespan(store))
                if not asked.stopped:
                    await run_together(runners, firing, asked, ending, abort)
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                leaving.stop()
        if abort.stopped and failures:
            # What failed before is not made good by giving up what came after it.
            raise failures[0]

    runners, loop = bridge.call(prepare)
    # An interruption cancels the call, and that has ended everything before this goes on.
    with hearing(loop, runners, asked, ending, abort, heed=signals):
        bridge.call(run_all)


@contextlib.asynccontextmanager
async def _given_up_at(*demands: StopToken) -> AsyncGenerator[None]:
    """Cancel what is inside once all of these are stopped, and go on behind it."""

    async def give_up() -> None:
        for demand in demands:
            await demand.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    limit = asyncio.timeout(None)
    try:
        async with limit:
            waiting = asyncio.create_task(give_up())
            try:
                yield
            finally:
                waiting.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
