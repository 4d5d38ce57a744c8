"""What workers and consumers have in common: how they begin and how they end."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from alkstore_core.completion import to_the_end
from alkstore_core.errors import Closed
from alkstore_core.stop import StopToken
from alkstore_core.worker.alarm import Alarm
from alkstore_core.worker.checks import check_options
from alkstore_core.worker.logs import event

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from alkstore_core.store import Store

CLEANUP_S: Final = 5.0
"""How long cancelled handlers, and a database that does not answer, may hold up the end."""

ANSWER_S: Final = 1.0
"""How long after that a call under way may take until it is cancelled, too."""

_log = logging.getLogger(__name__)


class Runner(ABC):
    """Runs until it is stopped, then gives what runs some time, then cuts it short.

    As a text it is what it serves: `queue 'mails'`, or `consumer 'c' of stream 's'`.
    """

    _label: str

    def __str__(self) -> str:
        return self._label

    def __init__(self, store: Store, grace: float) -> None:
        check_options(grace=grace)
        self._store = store
        self._grace = grace
        self._started = False
        self._stopping = False
        self._leaving = False
        self._broken: BaseException | None = None
        self._alarm = Alarm(store)
        self._abort = Alarm(store)
        self._helpers: set[asyncio.Task[None]] = set()
        self._working: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        """The store whose work this does."""
        return self._store

    @property
    def grace(self) -> float:
        """How many seconds what runs has after a stop."""
        return self._grace

    async def run(self, stop: StopToken | None = None, *, abort: StopToken | None = None) -> None:
        """Work until `stop`, and then end in order, as the class says. Runs once.

        `abort` ends the grace period that follows. Cancelling `run` is a stop without grace.
        While the database does not answer it waits and tries again.

        Raises:
            Closed: the store is not open, was closed, or its wakes have ended.
            DatabaseError: this is another event loop than the store's, or a forked child.
            RuntimeError: it has run already.

        """
        if self._started:
            raise RuntimeError(f"a {type(self).__name__} runs once: make another one")
        self._store.check()
        self._started = True
        serving = asyncio.get_running_loop().create_task(
            self._serve(stop or StopToken(), abort or StopToken())
        )
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if not serving.done():
                self._stop()
                self._abort.ring()
            await to_the_end(serving)
            raise

    @abstractmethod
    async def _work(self) -> None:
        """Until stopped and everything has ended, or `_leaving`."""

    @abstractmethod
    def _halt(self) -> None:
        """Begin nothing new: a stop was asked for."""

    @abstractmethod
    def _cut_all(self) -> None:
        """The grace period is over: cancel what runs."""

    async def _serve(self, stop: StopToken, abort: StopToken) -> None:
        self._help(self._stop_on(stop))
        self._help(self._abort_on(abort))
        working = self._working = asyncio.get_running_loop().create_task(self._work())
        try:
            await asyncio.wait((working,))
        finally:
            helpers = tuple(self._helpers)
            for task in (working, *helpers):
                task.cancel()
            await asyncio.wait(helpers)
        error = None if working.cancelled() else working.exception()
        if self._broken is not None:
            raise self._broken
        if error is not None:
            raise error
        if working.cancelled():
            if not self._leaving:
                raise RuntimeError(f"the work of a {type(self).__name__} was cancelled from within")
            _log.warning(
                "a %s ended without an answer of the database",
                type(self).__name__,
                extra=event("runner.unanswered"),
            )

    def _help(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the runner; its failure ends the runner."""
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helped)
        return task

    def _helped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """End without grace, and raise this."""
        self._broken = self._broken or error
        self._stop()
        self._abort.ring()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._halt()
            self._help(self._end())
            self._alarm.ring()

    async def _stop_on(self, stop: StopToken) -> None:
        await stop.wait()
        self._stop()

    async def _abort_on(self, abort: StopToken) -> None:
        await abort.wait()
        self._stop()
        self._abort.ring()

    async def _end(self) -> None:
        await self._abort.wait(self._store.mark() + self._grace)
        self._cut_all()
        self._alarm.ring()
        await self._store.sleep_until(self._store.mark() + CLEANUP_S)
        self._leaving = True
        self._alarm.ring()
        # A call of the database that never returns must not keep the process.
        while self._working is not None and not self._working.done():
            await self._store.sleep_until(self._store.mark() + ANSWER_S)
            self._working.cancel()


def wakes_ended(what: str) -> Closed:
    """The error of a runner that nothing will wake any more."""
    return Closed(
        f"the wakes of {what} have ended: the store was closed, or its database was replaced"
    )


def own_id() -> str:
    """Who this is: host, process, and a few random digits."""
    return f"{platform.node()[:64]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
