"""A transaction itself: who owns its session and the writer's turn, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_core.errors import DatabaseError
from alkstore_core.runtime import quietly

if TYPE_CHECKING:
    from types import TracebackType

    from alkstore_core.errors import AlkstoreError
    from alkstore_core.runtime import Runtime
    from alkstore_core.slot import Lease
    from alkstore_core.spi import Session, TxSession


class OpenTx:
    """The transaction itself, owner of the session and of the writer's turn.

    `async with` it to use the session: one operation at a time. An operation that failed in the
    database or was cancelled half-way leaves a transaction of unknown contents, and some
    databases would turn its COMMIT into a ROLLBACK without a word; so it can only be undone.
    """

    def __init__(self, runtime: Runtime, session: TxSession, lease: Lease | None) -> None:
        self.session = session
        self.runtime = runtime
        self._lease = lease
        self._lock = asyncio.Lock()
        # Texts, not exceptions: a traceback would keep the handle alive and end the drop rule.
        self._fault: str | None = None
        self._ended: tuple[type[AlkstoreError], str] | None = None
        self._ended_by_caller = False
        self._committed = False
        runtime.transactions.add(self)
        session.on_loss(self.lose)

    @property
    def over(self) -> bool:
        """Whether it takes no more calls."""
        return self._ended is not None

    @property
    def ended_by_caller(self) -> bool:
        """Whether the caller committed or rolled back by hand."""
        return self._ended_by_caller

    @property
    def committed(self) -> bool:
        """Whether it was committed, and the database said so."""
        return self._committed

    def check(self) -> None:
        """Refuse a spent handle, and other loops.

        Raises:
            DatabaseError: committed, rolled back, or used where it was not begun.
            Closed: the store was closed.

        """
        self.runtime.check_home()
        self._check_open()

    async def __aenter__(self) -> Session:
        self.check()
        await self._lock.acquire()
        try:
            self._check_open()
        except BaseException:
            self._lock.release()
            raise
        return self.session

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is not None:
                self._fault = str(exc)
            if exc is not None and not isinstance(exc, Exception):
                # Before the lock is free: the next call must not run on what is half done.
                reason = spent("rolled back, because a call in it was cancelled")
                await quietly(self.runtime.finish(self._undo(reason)))
        finally:
            self._lock.release()

    async def commit(self) -> None:
        """Commit, and free everything, whatever comes of it."""
        self.check()
        await self.runtime.finish(self._commit())

    async def rollback(self) -> None:
        """Roll back on the caller's demand; a spent transaction stays what it is."""
        self.runtime.check_home()
        self._ended_by_caller = self._ended_by_caller or self._ended is None
        await self.end(spent("rolled back"))

    async def end(self, reason: tuple[type[AlkstoreError], str]) -> None:
        """Roll back unless it was ended before; later uses raise `reason`."""
        if self._ended is None:
            await self.runtime.finish(self._rollback(reason))

    def abandon(self) -> None:
        """The handle is lost: its task may wait for the writer like everybody."""
        if self._lease is not None:
            self._lease.abandon()

    def lose(self) -> None:
        """The connection is gone: nothing can be committed any more."""
        self.abandon()
        if self._ended is None:
            self._roll_back_soon(spent("lost with its connection"))

    def drop(self) -> None:
        """Nobody can commit any more: roll back in the background."""
        if self._ended is None:
            self._roll_back_soon(spent("dropped"))

    def _roll_back_soon(self, reason: tuple[type[AlkstoreError], str]) -> None:
        self.runtime.persist(lambda: quietly(self._rollback(reason)))

    def _check_open(self) -> None:
        if self._ended is not None:
            kind, text = self._ended
            raise kind(text)

    def _check_whole(self) -> None:
        if self._fault is not None:
            raise DatabaseError(
                f"nothing was committed: a call in this transaction failed: {self._fault}"
            )

    async def _commit(self) -> None:
        async with self._lock:
            self._check_open()
            try:
                self._check_whole()
                self._ended = spent("committed")
                await self.session.commit()
                self._ended_by_caller = self._committed = True
            except BaseException:
                self._ended = spent("rolled back, because its commit failed")
                await quietly(self.session.rollback())
                raise
            finally:
                self._free()

    async def _rollback(self, reason: tuple[type[AlkstoreError], str]) -> None:
        async with self._lock:
            await self._undo(reason)

    async def _undo(self, reason: tuple[type[AlkstoreError], str]) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        try:
            await self.session.rollback()
        finally:
            self._free()

    def _free(self) -> None:
        self.runtime.transactions.discard(self)
        if self._lease is not None:
            self._lease.release()


async def begin(runtime: Runtime) -> OpenTx:
    """Wait for the writer's turn where there is one, and begin.

    When the caller is cancelled meanwhile, the begin ends and what it began is rolled back.
    """
    runtime.session()
    lease = await runtime.slot.acquire() if runtime.engine.single_writer else None
    began: list[OpenTx] = []
    try:
        runtime.session()
        await runtime.finish(_begin(runtime, lease, began))
        runtime.session()
    except BaseException:
        if began:
            await quietly(began[0].end(spent("rolled back, because its begin was cancelled")))
        elif lease is not None:
            lease.release()
        raise
    return began[0]


async def _begin(runtime: Runtime, lease: Lease | None, began: list[OpenTx]) -> None:
    began.append(OpenTx(runtime, runtime.tapped(await runtime.engine.begin()), lease))


def spent(how: str) -> tuple[type[AlkstoreError], str]:
    """Why a transaction takes no more calls."""
    return DatabaseError, f"this transaction was {how}; begin another one"
