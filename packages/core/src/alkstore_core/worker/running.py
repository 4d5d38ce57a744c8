"""A process of workers, consumers and schedules, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING

from alkstore_core.completion import to_the_end
from alkstore_core.errors import DatabaseError, LeadershipLost
from alkstore_core.signals import on_signals
from alkstore_core.stop import StopToken
from alkstore_core.worker.alarm import Backoff
from alkstore_core.worker.logs import event
from alkstore_core.worker.runner import ANSWER_S, CLEANUP_S, Runner

if TYPE_CHECKING:
    import signal

    from alkstore_core.store import Store

_log = logging.getLogger(__name__)


async def run(
    *runners: Runner,
    schedules: Store | None = None,
    stop: StopToken | None = None,
    signals: bool = True,
) -> None:
    """Run workers and consumers, and fire the schedules of a store, until `stop`.

    With `signals`, as it is in the main thread, SIGTERM and SIGINT are a stop; a second one ends
    the grace periods that the runners have after it. A lost leadership of the schedules, and
    trouble with their database, are logged, and it stands by again.

    When one of them ends by an error the others end in order, and the error is raised. A
    cancellation is a stop without grace.

    Raises:
        TypeError: something is no worker and no consumer; the text says what to pass instead.
        ValueError: there is nothing to run.
        Closed: a store is not open, was closed, or its wakes have ended.
        PoisonedEvent: a consumer stopped at an event.
        BaseExceptionGroup: several of them failed.

    """
    if not runners and schedules is None:
        raise ValueError("nothing to run: give workers, consumers or a store with schedules")
    for runner in runners:
        _check(runner)
    ending, abort = StopToken(), StopToken()
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(runner.run(ending, abort=abort)) for runner in runners]
    scheduling = None if schedules is None else loop.create_task(_run_schedules(schedules, ending))
    if scheduling is not None:
        tasks.append(scheduling)
    passing_on = loop.create_task(_pass_on(stop or StopToken(), ending))
    for task in tasks:
        task.add_done_callback(lambda _: ending.stop())
    with _signals(ending, abort) if signals else contextlib.nullcontext():
        waiting = loop.create_task(_until_ended(tasks, scheduling, ending))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            ending.stop()
            for task in tasks:
                task.cancel()
            await to_the_end(waiting)
            raise
        finally:
            passing_on.cancel()
    errors = [error for task in tasks if (error := _error_of(task)) is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("several runners failed", errors)


def _check(runner: object) -> None:
    if isinstance(runner, Runner):
        return
    advice = {
        "App": "an App runs itself: `await app.run(store)`",
        "Store": "a store whose schedules are to fire goes to `schedules=`",
    }
    kinds = {kind.__name__ for kind in type(runner).__mro__}
    told = next(
        (text for kind, text in advice.items() if kind in kinds),
        "give a handler to a worker: `run(Worker(store, 'queue', handler))`"
        if callable(runner)
        else "it runs objects of Worker, OutboxWorker and Consumer",
    )
    raise TypeError(f"run() cannot run {runner!r}: {told}")


async def _until_ended(
    tasks: list[asyncio.Task[None]], scheduling: asyncio.Task[None] | None, ending: StopToken
) -> None:
    """Runners see to their own end; schedules may wait for a database that never answers."""
    await ending.wait()
    others = [task for task in tasks if task is not scheduling]
    if others:
        await asyncio.wait(others)
    if scheduling is not None:
        await asyncio.wait((scheduling,), timeout=CLEANUP_S + ANSWER_S)
        if not scheduling.done():
            _log.warning(
                "schedules: no answer of the database; they are left behind",
                extra=event("schedules.unanswered"),
            )
            scheduling.cancel()
            tasks.remove(scheduling)


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def _pass_on(stop: StopToken, ending: StopToken) -> None:
    await stop.wait()
    ending.stop()


async def _run_schedules(store: Store, stop: StopToken) -> None:
    store.check()
    backoff = Backoff()
    while not stop.stopped:
        try:
            await store.run_schedules(stop)
        except LeadershipLost as error:
            _log.warning("schedules: %s; standing by", error, extra=event("schedules.lost"))
            backoff.reset()
        except DatabaseError as error:
            told = event("schedules.refused")
            _log.warning("schedules: trying again: %s", error, extra=told)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.take())


def _signals(ending: StopToken, abort: StopToken) -> contextlib.AbstractContextManager[None]:
    """The first signal stops, the second aborts; afterwards all is as it was."""

    def ended_by(number: signal.Signals) -> None:
        token = abort if ending.stopped else ending
        token.stop()
        # In the main thread, between two steps of whatever it does: nothing that may wait.
        told = functools.partial(_log.info, "%s: ending", number.name, extra=event("run.ending"))
        asyncio.get_running_loop().call_soon(told)

    return on_signals(ended_by)
