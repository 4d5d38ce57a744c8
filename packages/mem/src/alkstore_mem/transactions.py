"""Transactions on a connection that everybody shares: they step aside when others look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from alkstore_core import DatabaseError
from alkstore_core.sql.compile import drive
from alkstore_core.sql.op import Driver, Mode, Op, Result
from alkstore_mem.database import refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.slot import Lease
    from alkstore_core.sql.compile import Compiler, Request
    from alkstore_mem.database import MemDatabase

T = TypeVar("T")


class _Done(NamedTuple):
    """A statement that changed something, with what it was given and what it answered."""

    sql: str
    arguments: Sequence[Any]
    rows: list[tuple[Any, ...]]


class Transaction(Driver):
    """The open transaction: its changes, and a log to make them again from.

    A read from outside must not see them, so it has them rolled back first; the next op inside,
    or the commit, makes them again. Nobody else has written since, and the log holds every
    parameter, the time included, so the same ids and rows come out.
    """

    def __init__(
        self, database: MemDatabase, lease: Lease, compiler: Compiler, now: Callable[[], int]
    ) -> None:
        """Begin; the turn to write is ours."""
        self._database = database
        self._connection = database.connection
        self._lease = lease
        self._compiler = compiler
        self._now = now
        self._log: list[_Done] = []
        database.transaction = self

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:  # noqa: ARG002
        """Run an op to its end; all modes are the same."""
        # Others have a turn, as they have on an engine that really waits.
        await asyncio.sleep(0)
        with refusals():
            self._resume()
            return drive(self._compiler.requests(op, args, self._now), self._execute)

    async def commit(self) -> None:
        """Make everything visible; the turn is over, whatever comes of it.

        Raises:
            DatabaseError: nothing was committed.

        """
        try:
            with refusals():
                if self._log:
                    self._resume()
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")
        finally:
            await self.rollback()

    async def rollback(self) -> None:
        """Undo what is not committed; the turn is over."""
        self.park()
        self._database.transaction = None
        self._lease.release()

    def park(self) -> None:
        """Leave the database as it was before."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _resume(self) -> None:
        connection = self._connection
        if connection.in_transaction:
            return
        connection.execute("BEGIN")
        for sql, arguments, rows in self._log:
            if connection.execute(sql, arguments).fetchall() != rows:
                self.park()
                raise DatabaseError(
                    "a transaction in memory came out differently when it was done again: "
                    "something else has written to its connection; nothing was committed"
                )

    def _execute(self, request: Request) -> Result:
        connection = self._connection
        changes = connection.total_changes
        cursor = connection.execute(request.sql, request.arguments)
        rows = cursor.fetchall()
        if connection.total_changes != changes:
            self._log.append(_Done(request.sql, request.arguments, rows))
        return Result(rows, cursor.rowcount)
