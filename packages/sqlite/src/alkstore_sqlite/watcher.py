"""Other processes' commits, noticed within a millisecond.

`PRAGMA data_version` changes when another connection has committed to the file. A thread asks
for it at the poll interval while somebody waits, and only when it moved looks what is new:
which channels were notified, which streams grew, which queues have ready work. The connection
is never inside a transaction: in one, `data_version` stands still.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import operator
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Protocol

from alkstore_core.sql.dbapi import Fault
from alkstore_sqlite.connections import judge, open_plain, patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.spi import Topic
    from alkstore_sqlite.connections import FileIdentity

IDENTITY_SECONDS = 0.1
"""How often to make sure that the path still names the file that was opened."""

NAP_SECONDS = 0.05

AWAY_SECONDS = 1800.0
"""A look that comes so late may be too late for notified channels: their rows, of which nobody
else needs to know, are kept for an hour. By either clock: rows are as old as the host's says, and
that may have been set forward."""

logger = logging.getLogger(__name__)

Mark = tuple["Topic", int | None]


class Probe(Protocol):
    """Finds what is new on some topics."""

    def __call__(
        self, connection: sqlite3.Connection, topics: Callable[[], Sequence[Topic]]
    ) -> Sequence[Mark]:
        """Return the topics to wake, each with the mark of its newest commit if it has one.

        `topics` gives those that are watched now, and may give more when it is asked again.
        """


class Watcher:
    """A thread that reports commits while there are topics, and sleeps while there are none."""

    def __init__(
        self,
        path: str,
        poll_interval: float,
        busy_timeout: float,
        probe: Probe,
        on_news: Callable[[Sequence[Mark]], None],
        on_death: Callable[[], None],
    ) -> None:
        """Prepare; the thread starts with the first `watch`.

        `on_news` and `on_death` are called on the event loop that called `watch`.
        """
        self._path = path
        self._poll_interval = poll_interval
        self._busy_timeout = busy_timeout
        self._probe = probe
        self._on_news = on_news
        self._on_death = on_death
        self._topics: tuple[Topic, ...] = ()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._asked: collections.deque[asyncio.Future[None]] = collections.deque()

    async def watch(self, identity: FileIdentity, topics: Sequence[Topic]) -> None:
        """Watch `topics`; a commit made after this returned is reported.

        Raises:
            sqlite3.Error: the file cannot be opened.
            RuntimeError: no thread can be started.

        """
        self._topics = tuple(topics)
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._identity = identity
            self._ending = False
            self._ended: asyncio.Future[None] = self._loop.create_future()
            thread = threading.Thread(target=self._serve, name="alkstore-watcher", daemon=True)
            thread.start()
            self._thread = thread
        elif self._wanted.is_set() and not self._asked:
            # With somebody still waiting for the first look there is none to rely on yet.
            return
        awake: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(awake)
        self._wanted.set()
        await awake

    def watch_only(self, topics: Sequence[Topic]) -> None:
        """Replace the topics of a running watcher; without topics its thread sleeps."""
        self._topics = tuple(topics)
        if not topics:
            self._wanted.clear()

    async def close(self) -> None:
        """End the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ending = True
        self._wanted.set()
        await asyncio.shield(self._ended)
        thread.join()

    # -- the thread -----------------------------------------------------------------------

    def _serve(self) -> None:
        failure: BaseException | None = None
        try:
            connection = patiently(lambda: open_plain(self._path), self._busy_timeout)
            try:
                self._poll(connection)
            finally:
                connection.close()
        except BaseException as error:  # noqa: BLE001 - receivers must not wait for a dead thread
            failure = error
        self._post(self._end, failure)

    def _poll(self, connection: sqlite3.Connection) -> None:
        version: int | None = None
        look_again = 0.0
        looked = _clocks()
        while not self._ending:
            if not self._wanted.is_set():
                self._wanted.wait()
                version = None
                continue
            try:
                if version is None:
                    looked = _clocks()
                    version = _data_version(connection)
                self._answer(None)
                self._nap()
                began = _clocks()
                found = _data_version(connection)
                if found != version:
                    news = self._probe(connection, lambda: self._topics)
                    if max(map(operator.sub, _clocks(), looked)) > AWAY_SECONDS:
                        news = [(topic, None) for topic in self._topics]
                    version = found
                    if news:
                        self._post(self._on_news, news)
                looked = began
            except sqlite3.Error as error:
                # Not read this time: `version` is unchanged, so the next turn looks again.
                if judge(error) is not Fault.BUSY:
                    raise
                self._nap()
            now = time.monotonic()
            if now >= look_again:
                self._identity.check()
                look_again = now + IDENTITY_SECONDS

    def _nap(self) -> None:
        """Sleep for the poll interval, a long one in slices: the end must not wait for it."""
        left = self._poll_interval
        if left <= NAP_SECONDS:
            time.sleep(left)
            return
        while left > 0 and not self._ending and not self._asked:
            time.sleep(min(left, NAP_SECONDS))
            left -= NAP_SECONDS

    def _answer(self, error: BaseException | None) -> None:
        while self._asked:
            self._post(_settle, self._asked.popleft(), error)

    def _post(self, function: Callable[..., None], *args: object) -> None:
        # The loop may be gone already: then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    def _end(self, failure: BaseException | None) -> None:
        """Tell the loop that the thread is over; every receiver ends with it."""
        self._answer(failure)
        self._wanted.clear()
        _settle(self._ended, None)
        if failure is not None:
            self._thread = None
            logger.error("alkstore: watching %s ended, receivers close: %s", self._path, failure)
            self._on_death()


def _clocks() -> tuple[float, float]:
    """This moment, as time goes by and as the host has it."""
    return time.monotonic(), time.time()


def _data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
