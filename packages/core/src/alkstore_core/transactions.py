"""Transactions as callers hold them, and what frees the database when a handle is dropped."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alkstore_core.errors import DatabaseError
from alkstore_core.opentx import OpenTx, begin
from alkstore_core.runtime import quietly
from alkstore_core.txops import TxOps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session


class TxHandle(TxOps):
    """A transaction: its `*_tx` methods take effect together at `commit`, or not at all.

    Losing the last reference without `commit` rolls back; so does closing the store. A handle
    serves one transaction. Calls of several tasks on one handle take turns.
    """

    __slots__ = ("__weakref__", "_drop", "_tx")

    def __init__(self, tx: OpenTx) -> None:
        self._tx = tx
        self._drop = weakref.finalize(self, _dropped, asyncio.get_running_loop(), tx)
        self._drop.atexit = False

    async def commit(self) -> None:
        """Make everything durable and visible; then receivers wake. The handle is spent.

        A cancellation that arrives meanwhile is re-raised after the commit's end.

        Raises:
            DatabaseError: nothing was committed; or, when the message says so, the connection
                was lost in COMMIT and the outcome is unknown. Also on a spent handle.
            Closed: the store was closed, the transaction rolled back.

        """
        await self._tx.commit()

    async def rollback(self) -> None:
        """Undo everything. The handle is spent; on a spent handle nothing happens.

        Raises:
            DatabaseError: the connection failed; the database undoes the transaction by itself.

        """
        await self._tx.rollback()

    def _turn(self) -> contextlib.AbstractAsyncContextManager[Session]:
        return self._tx

    @property
    def _runtime(self) -> Runtime:
        return self._tx.runtime


def _dropped(loop: asyncio.AbstractEventLoop, tx: OpenTx) -> None:
    if tx.over:
        return
    tx.abandon()
    # The collector runs in whichever thread it pleases, also after the loop is gone.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(tx.drop)


H_co = TypeVar("H_co", bound=TxHandle, covariant=True)


class _Beginning(Generic[H_co]):
    """Begins on `async with`, and keeps the handle alive to the end of the block."""

    __slots__ = ("_held", "_runtime", "_wrap")

    def __init__(self, runtime: Runtime, wrap: Callable[[OpenTx], H_co]) -> None:
        self._runtime = runtime
        self._wrap = wrap
        self._held: tuple[OpenTx, H_co] | None = None

    async def __aenter__(self) -> H_co:
        tx = await begin(self._runtime)
        self._held = tx, self._wrap(tx)
        return self._held[1]

    def _let_go(self) -> OpenTx:
        if self._held is None:
            raise DatabaseError("leave only a block that was entered")
        tx, self._held = self._held[0], None
        return tx


class BeginTx(_Beginning[H_co]):
    """A transaction about to begin: `await` it, or use it with `async with`.

    Leaving the block without `commit` rolls back.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, H_co]:
        return self._begin().__await__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await _roll_back(self._let_go(), exc)

    async def _begin(self) -> H_co:
        return self._wrap(await begin(self._runtime))


class Transaction(_Beginning[H_co]):
    """`async with`: commits when the block ends well, rolls back when it raises anything."""

    __slots__ = ()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tx = self._let_go()
        if exc is not None:
            await _roll_back(tx, exc)
        elif not tx.ended_by_caller:
            # Ended by hand in the block is legal; undone for another reason has to be told.
            await tx.commit()


async def _roll_back(tx: OpenTx, error: BaseException | None) -> None:
    if error is None:
        await tx.rollback()
    else:
        await quietly(tx.rollback())
