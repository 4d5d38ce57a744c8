"""A process of workers, consumers and schedules, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING

from alkstore_core.completion import to_the_end
from alkstore_core.errors import Closed, DatabaseError, LeadershipLost
from alkstore_core.signals import on_signals
from alkstore_core.stop import StopToken
from alkstore_core.worker.alarm import Backoff, until_stopped_or
from alkstore_core.worker.logs import event
from alkstore_core.worker.runner import ANSWER_S, CLEANUP_S, Runner

if TYPE_CHECKING:
    import signal
    from collections.abc import Generator, Iterable, Sequence

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

    It returns 5 s after the longest grace at most, or after 6 when the database does not answer.
    When one of them ends by an error the others end in order, and the error is raised. A
    cancellation is a stop without grace.

    Raises:
        TypeError: something is no worker and no consumer; the text says what to pass instead.
        ValueError: there is nothing to run.
        Closed: a store is not open, was closed, or its wakes have ended; one error, however many
            of them use that store.
        PoisonedEvent: a consumer stopped at an event.
        BaseExceptionGroup: several of them failed, and not only by the end of one store.

    """
    check_runners(runners, schedules)
    ending, abort = StopToken(), StopToken()
    with hearing(asyncio.get_running_loop(), runners, ending, ending, abort, heed=signals):
        await run_together(runners, schedules, stop or StopToken(), ending, abort)


async def run_together(
    runners: Sequence[Runner],
    schedules: Store | None,
    stop: StopToken,
    ending: StopToken,
    abort: StopToken,
) -> None:
    """As `run`, until `stop` or `ending`, which is also stopped when one of them has ended."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(runner.run(ending, abort=abort)) for runner in runners]
    stores = [runner.store for runner in runners]
    scheduling = None
    if schedules is not None:
        scheduling = loop.create_task(_run_schedules(schedules, ending))
        tasks.append(scheduling)
        stores.append(schedules)
    passing_on = loop.create_task(_pass_on(stop, ending))
    for task in tasks:
        task.add_done_callback(lambda _: ending.stop())
    waiting = loop.create_task(_until_ended(tasks, scheduling, schedules, ending))
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
    one_store_ended = len(set(stores)) == 1 and all(type(error) is Closed for error in errors)
    if errors and (len(errors) == 1 or one_store_ended):
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("several runners failed", errors)


def check_runners(runners: Sequence[Runner], schedules: Store | None) -> None:
    """Refuse what cannot be run, with an error that says what to pass instead."""
    if not runners and schedules is None:
        raise ValueError("nothing to run: give workers, consumers or a store with schedules")
    for runner in runners:
        _check(runner)


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
    tasks: list[asyncio.Task[None]],
    scheduling: asyncio.Task[None] | None,
    schedules: Store | None,
    ending: StopToken,
) -> None:
    """Runners see to their own end; schedules may wait for a database that never answers."""
    await ending.wait()
    if scheduling is None or schedules is None:
        await asyncio.wait(tasks)
        return
    # From the stop on, beside the runners: both have one bound.
    until = schedules.mark() + CLEANUP_S + ANSWER_S
    patience = asyncio.get_running_loop().create_task(schedules.sleep_until(until))
    if others := [task for task in tasks if task is not scheduling]:
        await asyncio.wait(others)
    await asyncio.wait((scheduling, patience), return_when=asyncio.FIRST_COMPLETED)
    patience.cancel()
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
    loop = asyncio.get_running_loop()
    while not stop.stopped:
        began = loop.time()
        try:
            await store.run_schedules(stop)
        except LeadershipLost as error:
            _log.warning("schedules: %s; standing by", error, extra=event("schedules.lost"))
            backoff.reset()
        except DatabaseError as error:
            if loop.time() - began > Backoff.LONGEST:
                # It had answered: this is another outage.
                backoff.reset()
            told = event("schedules.refused")
            _log.warning("schedules: trying again: %s", error, extra=told)
            await until_stopped_or(stop, asyncio.sleep(backoff.take()))


@contextlib.contextmanager
def hearing(
    loop: asyncio.AbstractEventLoop,
    runners: Iterable[Runner],
    stop: StopToken,
    ending: StopToken,
    abort: StopToken,
    *,
    heed: bool,
) -> Generator[None]:
    """The first signal stops `stop`, the second `abort`; afterwards all is as it was.

    One that comes when `ending` is stopped, whoever did that, is as good as a second. Each is told
    in the log by `loop`, on which the runners run, in whatever thread. Without `heed` signals are
    nobody's here.
    """
    if not heed:
        yield
        return
    grace = max((runner.grace for runner in runners), default=0)
    received: set[str] = set()

    def ended_by(number: signal.Signals) -> None:
        name = number.name
        if received or stop.stopped or ending.stopped:
            again = f"{name} again" if name in received else name
            demand, tell = abort, functools.partial(_tell_abort, name, again)
        else:
            demand, tell = stop, functools.partial(_tell_ending, name, grace)
        received.add(name)
        # In the main thread, between two steps of whatever it does: nothing that may wait. The
        # loop of another thread may have closed a moment ago.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)
        # Told before anything follows from it, the next signal among it.
        demand.stop()

    with on_signals(ended_by):
        try:
            yield
        finally:
            if received:
                _log.info("ended", extra=event("run.ended"))


def _tell_ending(name: str, grace: float) -> None:
    _log.info(
        "%s: ending; jobs under way have up to %g s, once more ends at once",
        *(name, grace),
        extra=event("run.ending", signal=name, grace_s=grace),
    )


def _tell_abort(name: str, told: str) -> None:
    _log.info("%s: giving back what is under way", told, extra=event("run.aborting", signal=name))
