"""One thread, one blocking connection, many callers: group commit.

Every auto-commit call of an embedded engine goes through a `Runner`. Callers of one event loop
turn are handed over together and share a transaction, so that a durable commit is paid once for
all of them; each still returns only after that commit. What a caller may rely on:

* one caller's error is never another's: after a failed statement and a confirmed rollback the
  ops of the group run one by one;
* a cancelled call that has not started never runs; one that has started runs to its end;
* a commit that failed is an error that says so to all, and nothing is retried after it;
* the wait for the database's lock is fair between processes and bounded by `busy_timeout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_core.errors import AlkstoreError, DatabaseError
from alkstore_core.sql.compile import drive
from alkstore_core.sql.dbapi import Fault, retry_pause
from alkstore_core.sql.faults import commit_failed, locked, refused
from alkstore_core.sql.op import Driver, Mode, Op, Result
from alkstore_core.sql.streaks import Streak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from alkstore_core.sql.compile import Compiler, Request
    from alkstore_core.sql.dbapi import Connection
    from alkstore_core.sql.merging import Merge

T = TypeVar("T")

GROUP_SECONDS = 0.02
"""A group that has run this long commits; the rest of its ops wait for the next one."""


class _Call:
    """One op on its way through the runner."""

    __slots__ = ("args", "deadline", "error", "future", "op", "urgent", "value")

    def __init__(
        self,
        future: asyncio.Future[Any],
        op: Callable[..., Op[Any]],
        args: tuple[Any, ...],
        deadline: float,
        urgent: bool,
    ) -> None:
        self.future = future
        self.op = op
        self.args = args
        self.deadline = deadline
        self.urgent = urgent
        self.value: Any = None
        self.error: BaseException | None = None


class _BusyError(Exception):
    """Somebody else holds the lock; nothing was done."""


class _StatementError(Exception):
    """A statement of a group failed and the group was rolled back."""


class Runner(Driver):
    """Runs ops on a connection that only its thread touches."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        compiler: Compiler,
        now: Callable[[], int],
        *,
        begin: str,
        check: Callable[[], None],
        busy_timeout: float,
        judge: Callable[[BaseException], Fault],
        describe: str,
        merges: Mapping[Callable[..., Op[Any]], Merge] = MappingProxyType({}),
        gives_way: bool = False,
    ) -> None:
        """Prepare; nothing is opened before `start`.

        `begin` is the statement that begins a group, `check` raises when the database is no
        longer what was opened, `judge` tells what an error of the driver means, `describe`
        names the database in errors. `merges` says which calls can be one op. A runner whose
        groups hold a lock that other processes want `gives_way` after a long streak.
        """
        self._connect = connect
        self._compiler = compiler
        self._now = now
        self._begin = begin
        self._merges = merges
        self._gives_way = gives_way
        self._check = check
        self._busy_timeout = busy_timeout
        self._judge = judge
        self._describe = describe
        self._gathered: list[_Call] = []
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._deadline = 0.0
        self._streak = Streak()

    async def start(self) -> None:
        """Connect in the runner's thread and begin to serve the running loop.

        Raises:
            DatabaseError: the connection could not be made; it may be tried again.

        """
        self._handed: queue.SimpleQueue[list[_Call] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        # A daemon: a program that forgets to close its store must still be able to end.
        thread = threading.Thread(
            target=self._serve, args=(started,), name="alkstore-runner", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise refused(self._describe, error) from error
        self._thread = thread
        try:
            await started
        except BaseException:
            await self.close()
            raise

    def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> asyncio.Future[T]:
        """Queue an op; the future ends when its transaction has.

        Raises:
            DatabaseError: the runner is closed.

        """
        if self._thread is None:
            raise DatabaseError(f"{self._describe} is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._gathered:
            # One hand-over per loop turn: what the other tasks of this turn add rides along.
            self._loop.call_soon(self._hand_over)
            self._deadline = time.monotonic() + self._busy_timeout
        self._gathered.append(_Call(future, op, args, self._deadline, mode is Mode.URGENT))
        return future

    async def close(self) -> None:
        """Finish every accepted op, close the connection, end the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._hand_over()
        self._handed.put(None)
        try:
            await asyncio.shield(self._ended)
        finally:
            # Immediate once `_ended` is set; after a cancellation the thread ends by itself.
            if self._ended.done():
                thread.join()

    def _hand_over(self) -> None:
        if self._gathered:
            calls, self._gathered = self._gathered, []
            self._handed.put(calls)

    # -- the thread -----------------------------------------------------------------------

    def _serve(self, started: asyncio.Future[None]) -> None:
        try:
            self._connection = self._connect()
        except Exception as error:  # noqa: BLE001 - handed to whoever opens the store
            self._post(_answer, started, self._translate(error))
        else:
            self._post(_answer, started, None)
            self._work()
            self._discard_connection()
        finally:
            self._post(_answer, self._ended, None)

    def _work(self) -> None:
        waiting: list[_Call] = []
        ending = False
        while not (ending and not waiting):
            ending = self._take(waiting) or ending
            waiting = self._run_group(waiting)

    def _take(self, waiting: list[_Call]) -> bool:
        """Move what was handed over into `waiting`, urgent first; true when it was the end."""
        ending = False
        try:
            calls = self._handed.get(block=not waiting)
            while True:
                if calls is None:
                    ending = True
                else:
                    waiting.extend(calls)
                calls = self._handed.get_nowait()
        except queue.Empty:
            pass
        if any(call.urgent for call in waiting):
            waiting.sort(key=lambda call: not call.urgent)
        return ending

    def _give_way(self) -> None:
        """Leave the lock alone for a moment after a long streak: other processes wait for it."""
        if self._gives_way and (pause := self._streak.pause(time.monotonic())):
            time.sleep(pause)

    def _run_group(self, calls: list[_Call]) -> list[_Call]:
        """Run as many calls as fit into one group; return those that did not."""
        self._give_way()
        ended, rest = self._attempt(calls)
        self._streak.give(time.monotonic())
        if ended:
            self._post(_deliver, ended)
        return rest

    def _attempt(self, calls: list[_Call]) -> tuple[list[_Call], list[_Call]]:
        """Run a group to its commit; return the calls to be told so, and those not run."""
        while True:
            # Asked again after each wait for the lock: what has not started can still be left.
            calls = [call for call in calls if not call.future.cancelled()]
            if not calls:
                return [], []
            try:
                return self._execute(self._begin_transaction(), calls)
            except _BusyError as busy:
                late = self._give_up_late(calls, busy.__cause__)
                if late:
                    return late, [call for call in calls if call.error is None]
                time.sleep(retry_pause())
            except _StatementError as error:
                if len(calls) > 1:
                    self._one_by_one(calls)
                    return [], []
                calls[0].error = self._translate(error.__cause__)
                return calls, []
            except BaseException as error:  # noqa: BLE001 - every caller has to hear of it
                for call in calls:
                    call.error = self._translate(error)
                return calls, []

    def _give_up_late(self, calls: list[_Call], cause: BaseException | None) -> list[_Call]:
        late = [call for call in calls if time.monotonic() >= call.deadline]
        for call in late:
            call.error = locked(self._describe, self._busy_timeout, cause)
        return late

    def _one_by_one(self, calls: list[_Call]) -> None:
        """Each as a group of its own, with the lock left to others between them as ever."""
        self._streak.give(time.monotonic())
        for call in calls:
            self._run_group([call])

    def _begin_transaction(self) -> Connection:
        self._check()
        if self._connection is None:
            self._connection = self._connect()
        try:
            self._connection.execute(self._begin)
        except Exception as error:
            raise self._failure(error) from error
        self._streak.take(time.monotonic())
        return self._connection

    def _execute(
        self, connection: Connection, calls: list[_Call]
    ) -> tuple[list[_Call], list[_Call]]:
        """Run calls in the open transaction and commit; return those run, and the others."""
        ends = time.monotonic() + GROUP_SECONDS
        ran: list[_Call] = []
        rest: list[_Call] = []
        try:
            for unit in self._units(calls):
                if ran and time.monotonic() > ends:
                    rest += unit
                else:
                    self._run_unit(connection, unit)
                    ran += unit
        except BaseException as error:  # a clock of somebody's may raise anything.
            self._roll_back(connection)
            raise self._failure(error) from error
        try:
            connection.execute("COMMIT")
        except Exception as error:
            # Nobody knows in what state it is; closing it undoes what can be undone.
            self._discard_connection()
            raise commit_failed(self._describe, error) from error
        return ran, rest

    def _units(self, calls: list[_Call]) -> Iterable[list[_Call]]:
        """Group the calls that can be one op; they take the place of the first of them."""
        if len(calls) == 1:
            return (calls,)
        units: dict[object, list[_Call]] = {}
        for call in calls:
            merge = self._merges.get(call.op)
            key = call if merge is None else (call.op, merge.key(call.args))
            units.setdefault(key, []).append(call)
        return units.values()

    def _run_unit(self, connection: Connection, calls: list[_Call]) -> None:
        if len(calls) == 1:
            (call,) = calls
            call.value = self._run_op(connection, call.op, call.args)
            return
        merge = self._merges[calls[0].op]
        values = self._run_op(connection, merge.run, ([call.args for call in calls],))
        for call, value in zip(calls, values, strict=True):
            call.value = value

    def _run_op(self, connection: Connection, op: Callable[..., Op[T]], args: Sequence[Any]) -> T:
        def execute(request: Request) -> Result:
            cursor = connection.execute(request.sql, request.arguments)
            return Result(cursor.fetchall(), cursor.rowcount)

        return drive(self._compiler.requests(op, args, self._now), execute)

    def _failure(self, error: BaseException) -> Exception:
        """Nothing was done; give up a connection that would go on failing."""
        fault = self._judge(error)
        if fault is Fault.BUSY:
            return _BusyError()
        if fault is Fault.CONNECTION:
            self._discard_connection()
        return _StatementError()

    def _roll_back(self, connection: Connection) -> None:
        """Leave no transaction behind; a connection that cannot do that is given up."""
        if not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - closing it rolls back as well
            self._discard_connection()

    def _discard_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _translate(self, error: BaseException | None) -> BaseException:
        return error if isinstance(error, AlkstoreError) else refused(self._describe, error)

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        # The loop may be gone while work is still queued: then nobody waits for the answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)


def _deliver(calls: Iterable[_Call]) -> None:
    for call in calls:
        future = call.future
        if future.done():
            continue
        if call.error is None:
            future.set_result(call.value)
        else:
            future.set_exception(call.error)


def _answer(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
