"""The connection that listens: on channels somebody waits for, and back after every outage."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, Final

from alkstore_core import Closed, DatabaseError
from alkstore_core.sql.faults import reason
from alkstore_postgres.outside import make_lasting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import asyncpg

_log = logging.getLogger(__name__)

LIVENESS: Final = 20.0
"""Seconds without a word from the server until it is asked whether it is there."""

PATIENCE: Final = 10.0
"""Seconds that it may take to answer. Together under a minute: so long a silent peer may pass
for one with nothing to say."""

SOONEST: Final = 0.1
LATEST: Final = 30.0
"""Seconds until the next attempt to connect: doubled each time, between these."""

PARTING: Final = 1.0
"""Seconds for a polite end."""

_CLOSED: Final = "the store was closed"

# On a standby nobody commits, so a wake would never come again.
ALIVE: Final = "SELECT NOT pg_is_in_recovery()"


class LostError(Exception):
    """The connection is of no use any more."""


class Listener:
    """One connection outside of the pool, and a task that has it to itself.

    Both live only while somebody waits for something, and are made again whatever ends the
    connection. Nothing but LISTEN, UNLISTEN and the question whether the server is there is said
    on it, each a transaction of its own.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection]],
        wanted: Callable[[], Iterable[str]],
        heard: Callable[[str], None],
        back: Callable[[], None],
        *,
        describe: str,
        connect_timeout: float = PATIENCE,
        name: str = "alkstore listener",
        liveness: float = LIVENESS,
        patience: float = PATIENCE,
    ) -> None:
        """Prepare; nothing is opened before the first `listen`.

        `wanted` gives the channels somebody waits for, `heard` gets each that was notified, and
        `back` is called when all are listened on again after an outage. The session is called
        `name`.
        """
        self._connect = connect
        self._wanted = wanted
        self._heard = heard
        self._back = back
        self._describe = describe
        self._connect_timeout = connect_timeout
        self._name = name
        self._liveness = liveness
        self._patience = patience
        self._bell = asyncio.Event()
        self._requests: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._up = False
        self._missed = False
        self._failures = 0
        self._last_word = 0.0

    async def listen(self) -> None:
        """All that is wanted now is listened on, and what was notified before has been heard.

        Raises:
            DatabaseError: the server does not let us, or cannot be reached.
            Closed: the store was closed.

        """
        if self._closed:
            raise Closed(_CLOSED)
        loop = asyncio.get_running_loop()
        request: asyncio.Future[None] = loop.create_future()
        self._requests.append(request)
        self._bell.set()
        if self._task is None:
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._on_task_done)
        await request

    def look(self) -> None:
        """Something else may be wanted now. There is no hurry."""
        self._bell.set()

    async def close(self) -> None:
        """End the task and the connection. Idempotent."""
        self._closed = True
        self._bell.set()
        while (task := self._task) is not None:
            _, late = await asyncio.wait((task,), timeout=PARTING)
            if late:
                task.cancel()

    async def _run(self) -> None:
        try:
            # Between the last look at this condition and the end nothing is awaited.
            while not self._closed and (self._requests or any(self._wanted())):
                try:
                    await self._session()
                except Exception as error:  # noqa: BLE001 - nothing may end wakes for ever
                    self._up, lost = False, self._up
                    await self._pause(error, lost=lost)
        finally:
            self._end()

    def _end(self) -> None:
        self._task = None
        self._missed = False
        self._settle(len(self._requests), self._over)

    def _over(self) -> Exception:
        if self._closed:
            return Closed(_CLOSED)
        return DatabaseError(f"the task that listens to the {self._describe} was cancelled")

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        # One that was cancelled before its first step has run nothing, not even its `finally`.
        if self._task is task:
            self._end()

    async def _session(self) -> None:
        """Connect, and listen until nobody waits; raises once the connection is of no use."""
        async with asyncio.timeout(self._connect_timeout):
            connection = await self._connect()
        try:
            await self._ask(make_lasting(connection, self._name))
            connection.add_termination_listener(self._on_end)
            await self._serve(connection)
        except BaseException:
            # At once: a peer that says nothing would not say goodbye either.
            connection.terminate()
            raise
        # Polite, but nothing depends on how the server takes it.
        with contextlib.suppress(Exception):
            await connection.close(timeout=PARTING)

    async def _serve(self, connection: asyncpg.Connection) -> None:
        listening: set[str] = set()
        while not self._closed:
            self._bell.clear()
            waiting = len(self._requests)
            await self._catch_up(connection, listening)
            self._up = True
            if self._failures:
                _log.info("listening to the %s again", self._describe)
                self._failures = 0
            if self._missed:
                self._missed = False
                self._back()
            self._settle(waiting, None)
            try:
                async with asyncio.timeout_at(self._last_word + self._liveness):
                    await self._bell.wait()
            except TimeoutError:
                if not self._requests and not any(self._wanted()):
                    return
                if not await self._ask(connection.fetchval(ALIVE)):
                    raise LostError("the server is a standby now") from None
            if connection.is_closed():
                raise LostError("the server closed the connection")

    async def _catch_up(self, connection: asyncpg.Connection, listening: set[str]) -> None:
        """Listen on what is wanted and on nothing else; have heard what was notified before."""
        asked = bool(self._requests)
        wanted = set(self._wanted())
        for channel in listening - wanted:
            await self._ask(connection.remove_listener(channel, self._on_notification))
            listening.discard(channel)
        for channel in wanted - listening:
            await self._ask(connection.add_listener(channel, self._on_notification))
            listening.add(channel)
            asked = False
        if asked:
            # Before its answer comes whatever was notified by commits that were done before it.
            await self._ask(connection.fetchval("SELECT 1"))

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        async with asyncio.timeout(self._patience):
            value = await answer
        self._last_word = asyncio.get_running_loop().time()
        return value

    async def _pause(self, error: Exception, *, lost: bool) -> None:
        """Tell what happened, and wait until it may have passed."""
        told = reason(error) or type(error).__name__
        longest = min(SOONEST * 2 ** min(self._failures, 16), LATEST)
        # Everybody lost the server at the same moment; they need not come back at the same one.
        pause = random.uniform(longest / 2, longest)  # noqa: S311 - no secret
        self._failures += 1
        if lost:
            self._missed = True
            _log.warning("no longer listening to the %s: %s", self._describe, told)
        else:
            text = f"cannot listen to the {self._describe}: {told}"
            _log.warning("%s; trying again in %.1f s", text, pause)
            self._settle(len(self._requests), lambda: _refused(text, error))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while not self._closed and not self._requests and any(self._wanted()):
                    self._bell.clear()
                    await self._bell.wait()

    def _settle(self, number: int, error: Callable[[], Exception] | None) -> None:
        """Answer the requests that came first."""
        answered, self._requests = self._requests[:number], self._requests[number:]
        for request in answered:
            if request.done():
                continue
            if error is None:
                request.set_result(None)
            else:
                request.set_exception(error())

    def _on_notification(
        self,
        connection: object,  # noqa: ARG002 - asyncpg tells more than we ask
        pid: int,  # noqa: ARG002
        channel: str,
        payload: object,  # noqa: ARG002
    ) -> None:
        self._heard(channel)

    def _on_end(self, connection: object) -> None:  # noqa: ARG002
        self._bell.set()


def _refused(text: str, cause: Exception) -> DatabaseError:
    error = DatabaseError(text)
    error.__cause__ = cause
    return error
