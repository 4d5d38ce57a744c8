"""What every handle of one store shares: the engine, the writer's slot, and being open."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from alkstore_core.completion import to_the_end
from alkstore_core.errors import AlkstoreError, Closed, DatabaseError
from alkstore_core.slot import WriterSlot
from alkstore_core.wakes import QueueWakes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from alkstore_core.opentx import OpenTx
    from alkstore_core.spi import Engine, Session

T = TypeVar("T")
S = TypeVar("S", bound="Session")

_log = logging.getLogger(__name__)


class Endable(Protocol):
    """A receiver or runner that must not outlive the store."""

    def end(self) -> None:
        """Stop waiting, now."""


class Runtime:
    """One store's life: new → open → closed, on one event loop in one process.

    `session()` is on every call's path, so all refusals hide behind one comparison: `_loop` is
    the home loop while the store may be used, and nothing else ever is.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slot: WriterSlot = WriterSlot(engine.busy_timeout)
        self.transactions: set[OpenTx] = set()
        self.receivers: weakref.WeakSet[Endable] = weakref.WeakSet()
        self.queue_wakes: QueueWakes = QueueWakes(self)
        self.runners: set[asyncio.Future[None]] = set()
        self._tap: Callable[[Session], None] | None = None
        self._state: Literal["new", "open", "closed", "forked"] = "new"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._auto: Session
        self._background: set[asyncio.Task[Any]] = set()
        self._opening = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are accepted."""
        return self._state == "open"

    def session(self) -> Session:
        """The auto-commit session.

        Raises:
            Closed: the store is not open.
            DatabaseError: this is another event loop or a forked child.

        """
        if self._loop is not None and asyncio.get_running_loop() is self._loop:
            return self._auto
        raise self._refusal()

    def check_open(self) -> None:
        """Refuse unless the store is open, whatever loop or thread asks."""
        if self._state != "open":
            raise self._refusal()

    async def turn(self, call: str, tx_method: str | None = None, *, urgent: bool = False) -> None:
        """Wait for the turn of an auto-commit write; callers first ask whether `slot.taken`."""
        self.session()
        instead = (
            "call it after the transaction has ended"
            if tx_method is None
            else f"use {tx_method}() on the handle, or call it after the transaction has ended"
        )
        await self.slot.turn(call, instead, urgent=urgent)

    def check_home(self) -> None:
        """Refuse another loop or a forked child, but not a closed store."""
        if self._state == "forked" or asyncio.get_running_loop() is not self._home:
            raise self._refusal()

    async def open(self) -> None:
        """Open the engine; on an open store nothing happens."""
        async with self._opening:
            if self._state == "open":
                self.session()
                return
            if self._state != "new":
                raise self._refusal()
            await self.engine.open()
            self._auto = self.tapped(self.engine.auto)
            self._loop = self._home = asyncio.get_running_loop()
            self._state = "open"
            _opened.add(self)

    async def close(self) -> None:
        """End everything; whoever calls it meanwhile waits for the same end."""
        if self._state == "forked":
            raise self._refusal()
        async with self._opening:
            if self._home not in {None, asyncio.get_running_loop()}:
                raise self._refusal()
            if self._closing is None:
                self._state = "closed"
                self._loop = None
                _opened.discard(self)
                self._closing = asyncio.get_running_loop().create_task(self._close())
        await to_the_end(self._closing)

    def tap(self, tap: Callable[[Session], None]) -> None:
        """Let `tap` change each session that callers will use, the one of now included.

        Untapped stores pay nothing for it: sessions are made once, or once a transaction.

        Raises:
            Closed: the store was closed.
            DatabaseError: this is a forked child.

        """
        if self._state not in {"new", "open"}:
            raise self._refusal()
        self._tap = tap
        if self._state == "open":
            tap(self._auto)

    def tapped(self, session: S) -> S:
        """The session, as `tap` leaves it."""
        if self._tap is not None:
            self._tap(session)
        return session

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self.adopt(task)
        return task

    def persist(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Spawn what has to happen: a task that was cancelled before it began is spawned again."""
        begun: list[bool] = []

        async def begin() -> None:
            begun.append(True)
            await work()

        def again(task: asyncio.Task[None]) -> None:
            if task.cancelled() and not begun:
                self.persist(work)

        self.spawn(begin()).add_done_callback(again)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Let `close` wait for a task."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end, whatever becomes of the caller, under the caller's name."""
        task = self.spawn(work)
        caller = asyncio.current_task()
        if caller is not None:
            task.set_name(caller.get_name())
        return await to_the_end(task)

    def mark(self) -> float:
        """A moment on the time by which this store waits; see `sleep_since`."""
        clock = self.engine.clock
        return time.monotonic() if clock is None else clock.now()

    async def sleep_since(self, mark: float, seconds: int) -> None:
        """Wait until `seconds` have passed since `mark`.

        Since then the database took time to answer, or somebody moved the clock, even after
        this was called and before its task began to run.
        """
        await self.engine.sleep(max(seconds - int(self.mark() - mark), 0))

    async def sleep_until(self, mark: float) -> None:
        """Wait for a moment of `mark`, to the fraction of a second where no clock is injected."""
        clock = self.engine.clock
        if clock is not None:
            # No clock shows what lies behind the end of the contract's numbers.
            await clock.sleep_until(math.ceil(min(mark, float(2**62))))
            return
        while (left := mark - time.monotonic()) > 0:  # noqa: ASYNC110 - as SystemClock waits.
            # The loop's timers refuse what is too far away.
            await asyncio.sleep(min(left, 86_400))

    def forget_parent(self) -> None:
        """In a forked child: the connections belong to the parent."""
        self._state = "forked"
        self._loop = None

    async def _close(self) -> None:
        for receiver in tuple(self.receivers):
            receiver.end()
        await self._settle()
        # Runners give their leadership back, so that others need not wait for its lapse.
        if self.runners:
            await asyncio.wait(self.runners, timeout=self.engine.busy_timeout)
            await self._settle()
        if self._home is not None:
            await self.engine.close()

    async def _settle(self) -> None:
        """Roll open transactions back and let everything else that was begun come to its end."""
        while self.transactions or self._background:
            for transaction in tuple(self.transactions):
                await quietly(
                    transaction.end((Closed, "the store was closed, its transactions rolled back"))
                )
            if self._background:
                await asyncio.wait(self._background)

    def _refusal(self) -> AlkstoreError:
        if self._state == "forked":
            return DatabaseError(
                "this store was opened before the process forked; its connections are the "
                "parent's: start processes by spawn or exec and open a store there"
            )
        if self._state == "new":
            return Closed(
                "the store is not open: use `async with store` or call open() first; a worker's "
                "handler gets the open one by a parameter `store: Store`"
            )
        if self._state == "closed":
            return Closed("the store is closed: construct and open a new one")
        return DatabaseError(
            "this store was opened on another event loop: open one on each loop that uses it"
        )


async def quietly(work: Coroutine[Any, Any, object]) -> None:
    """Clean up as far as the database lets us; a failure must not hide what led here."""
    try:
        await work
    except AlkstoreError as error:
        _log.warning("clean-up failed: %s", error)


_opened: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _after_fork() -> None:
    for runtime in _opened:
        runtime.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
