"""Ops of auto-commit calls, each in a task of ours on a connection of the pool."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from alkstore_core import Closed
from alkstore_core.errors import AlkstoreError
from alkstore_core.sql.dbapi import Fault
from alkstore_core.sql.faults import commit_failed, refused
from alkstore_core.sql.op import Driver, Mode, Op, Result
from alkstore_postgres.coalescing import Coalescer, RefusedError
from alkstore_postgres.connections import BEGIN, GRACE, forgot, judge, unsent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence

    from alkstore_core.sql.compile import Compiler, Request
    from alkstore_core.sql.merging import Merge
    from alkstore_postgres.connections import Connections, Lease

T = TypeVar("T")

TRIES = 4
"""How often work runs that the server undoes for the sake of others."""


class LostError(Exception):
    """The connection is gone; `__cause__` tells how, `committing` whether it may be done."""

    def __init__(self, *, committing: bool) -> None:
        super().__init__()
        self.committing = committing


class AutoDriver(Driver):
    """Runs each op in a transaction of its own, or its statements each alone.

    A caller who is cancelled stops waiting; what has reached the server runs to its end.
    """

    def __init__(
        self,
        connections: Connections,
        compiler: Compiler,
        now: Callable[[], int | None],
        *,
        stepwise: frozenset[Callable[..., Op[Any]]],
        merges: Mapping[Callable[..., Op[Any]], Merge],
        timeout: float,
        describe: str,
    ) -> None:
        """Prepare.

        `stepwise` are the ops whose statements are a transaction each, because there is only one
        or because they are made so; `merges` are those that may be run together.
        """
        self._connections = connections
        self._compiler = compiler
        self._now = now
        self._stepwise = stepwise
        self._timeout = timeout + GRACE
        self._describe = describe
        self._tasks: set[asyncio.Task[Any]] = set()
        self._coalescer = Coalescer(
            merges, connections.take, self._perform, self._start, self._translate
        )
        self._closed = False

    def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> asyncio.Future[T]:
        """Start an op; cancelling the future stops the waiting only.

        Raises:
            Closed: the store was closed.

        """
        if self._closed:
            raise Closed("the store was closed; nothing was done")
        if self._coalescer.takes(op):
            return self._coalescer.call(op, args)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._start(self._answer(answer, mode, op, *args))
        return answer

    async def close(self) -> None:
        """Finish what was accepted. Idempotent."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(
        self, answer: asyncio.Future[T], mode: Mode, op: Callable[..., Op[T]], *args: Any
    ) -> None:
        try:
            lease = await self._connections.take()
            if answer.cancelled():
                # Nothing has begun, so nothing has to.
                await lease.give_back()
                return
            value = await self._perform(lease, mode, op, *args)
        except BaseException as error:
            if not answer.cancelled():
                answer.set_exception(self._translate(error))
            if not isinstance(error, Exception):
                raise
        else:
            if not answer.cancelled():
                answer.set_result(value)

    async def _perform(
        self, lease: Lease | None, mode: Mode, op: Callable[..., Op[T]], *args: Any
    ) -> T:
        """Run an op, again when the server undid it for a deadlock or a changed table.

        So does one that reads and has lost its connection.

        Raises:
            RefusedError: nothing was done, and would not be done another time.
            LostError: the connection is gone, and it must not be tried again.
            DatabaseError: there was no connection.

        """
        tries = TRIES
        while True:
            tries -= 1
            if lease is None:
                lease = await self._connections.take()
            try:
                return await self._attempt(lease, op, args)
            except LostError as error:
                # One that was silent has had the caller's whole patience.
                silent = isinstance(error.__cause__, TimeoutError)
                if mode is not Mode.READ or silent or not tries:
                    raise
            except AlkstoreError:
                raise
            except Exception as error:
                undone = _is_undone(error) or judge(error) is Fault.BUSY
                if not undone or not tries:
                    raise RefusedError from error
            lease = None

    def _translate(self, error: BaseException) -> BaseException:
        cause = error.__cause__
        if isinstance(error, LostError) and error.committing and cause is not None:
            return commit_failed(self._describe, cause)
        if isinstance(error, LostError | RefusedError):
            return refused(self._describe, cause)
        if isinstance(error, AlkstoreError):
            # Of its own for each caller: an error that is raised gets a traceback.
            told = copy.copy(error)
            told.__cause__ = cause
            return told
        return refused(self._describe, error)

    async def _attempt(self, lease: Lease, op: Callable[..., Op[T]], args: Sequence[Any]) -> T:
        steps = self._compiler.requests(op, args, self._now)
        try:
            if op not in self._stepwise:
                value = await self._in_transaction(lease.raw, steps)
            elif lease.bare:
                value = await self._bare(lease.raw, steps)
            else:
                value = await self._each_in_transaction(lease.raw, steps)
        except BaseException as error:
            await self._recover(lease, error)
            raise
        await lease.give_back()
        return value

    async def _recover(self, lease: Lease, error: BaseException) -> None:
        """After an error: keep the connection if it is as good as before."""
        if isinstance(error, LostError) or judge(error) is Fault.CONNECTION or forgot(error):
            await lease.discard()
            return
        try:
            if lease.raw.is_in_transaction():
                await lease.raw.execute("ROLLBACK", timeout=GRACE)
        except Exception:  # noqa: BLE001 - closing it rolls back as well
            await lease.discard()
        else:
            await lease.give_back()

    async def _bare(self, raw: asyncpg.Connection, steps: Generator[Request, Result, T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._execute(raw, request, committing=True))
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def _in_transaction(
        self, raw: asyncpg.Connection, steps: Generator[Request, Result, T]
    ) -> T:
        await self._plain(raw, BEGIN)
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._execute(raw, request))
        except StopIteration as stop:
            await self._plain(raw, "COMMIT", committing=True)
            value: T = stop.value
            return value

    async def _each_in_transaction(
        self, raw: asyncpg.Connection, steps: Generator[Request, Result, T]
    ) -> T:
        try:
            request = next(steps)
            while True:
                await self._plain(raw, BEGIN)
                result = await self._execute(raw, request)
                await self._plain(raw, "COMMIT", committing=True)
                request = steps.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def _execute(
        self, raw: asyncpg.Connection, request: Request, *, committing: bool = False
    ) -> Result:
        try:
            return await execute(raw, request, self._timeout)
        except Exception as error:
            # Rows that cannot be read come after their statement, which alone is committed then.
            done = committing and isinstance(error, asyncpg.OutdatedSchemaCacheError)
            if done or _is_lost(error):
                raise LostError(committing=committing) from error
            raise

    async def _plain(self, raw: asyncpg.Connection, sql: str, *, committing: bool = False) -> None:
        try:
            await raw.execute(sql, timeout=self._timeout)
        except Exception as error:
            if _is_lost(error):
                raise LostError(committing=committing) from error
            raise


async def execute(raw: asyncpg.Connection, request: Request, patience: float) -> Result:
    """Run one statement; asyncpg prepares it once for each connection."""
    if request.gives_rows:
        rows = await raw.fetch(request.sql, *request.arguments, timeout=patience)
        return Result([tuple(row) for row in rows], len(rows))
    status = await raw.execute(request.sql, *request.arguments, timeout=patience)
    return Result([], int(status.rpartition(" ")[2]))


_UNDONE = (
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.InvalidSQLStatementNameError,
)
"""Somebody changed a table while we were in a transaction: prepared statements are stale. Or
they were deallocated.

The second one is told of after a statement, so it undoes what has a COMMIT still to come."""


def _is_undone(error: Exception) -> bool:
    return isinstance(error, _UNDONE) or unsent(error)


def _is_lost(error: Exception) -> bool:
    return not _is_undone(error) and judge(error) is Fault.CONNECTION
