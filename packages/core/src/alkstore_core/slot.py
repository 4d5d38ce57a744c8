"""Whose turn it is to write, on an engine with one writer: first come, first served."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from alkstore_core.errors import DatabaseError

if TYPE_CHECKING:
    _Waiter = asyncio.Future[None]


@final
class Thread:
    """A thread that has each of its calls made by a task of its own, and waits for it.

    Who could wait for itself then is the thread, not one of the tasks.
    """

    __slots__ = ("__weakref__", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        """The thread's name."""
        return self._name


_Caller: TypeAlias = "asyncio.Task[Any] | Thread"

_on_behalf: weakref.WeakKeyDictionary[asyncio.Task[Any], Thread] = weakref.WeakKeyDictionary()


def act_for(thread: Thread) -> None:
    """What the running task does counts as done by `thread`."""
    _on_behalf[_running_task()] = thread


class Lease:
    """The turn of one open transaction, from its begin to its end."""

    __slots__ = ("_caller", "_slot", "name", "since")

    def __init__(self, slot: WriterSlot, caller: _Caller) -> None:
        self._slot = slot
        self._caller: weakref.ref[_Caller] | None = weakref.ref(caller)
        self.name: str = f"{_kind(caller)} {caller.get_name()!r}"
        self.since: float = time.monotonic()

    @property
    def mine(self) -> bool:
        """Whether the running task, or the thread it acts for, took this turn and still has it."""
        return self._caller is not None and self._caller() is _caller()

    def abandon(self) -> None:
        """The handle is lost, its end only a matter of time: its caller waits like others now.

        Called in whichever thread the collector runs.
        """
        self._caller = None

    def release(self) -> None:
        """Let the next one write. Idempotent."""
        self._slot.release(self)


class _Ticket:
    """A place in the queue: of one transaction, or of auto-commit writes that came together.

    The caller is held weakly: a refusal's traceback keeps the frames that hold tickets.
    """

    __slots__ = ("caller", "waiters")

    def __init__(self, caller: _Caller | None) -> None:
        self.caller = None if caller is None else weakref.ref(caller)
        self.waiters: list[_Waiter] = []


class WriterSlot:
    """At most one open transaction; auto-commit writes pass while there is none.

    Without this queue writers would meet in the database, where luck decides who waits for
    ever, and a task that writes beside its own transaction would wait for itself.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout: Final = timeout
        self._holder: Lease | None = None
        self._queue: deque[_Ticket] = deque()
        self.taken: bool = False

    async def acquire(self) -> Lease:
        """Wait for the turn of a transaction.

        Raises:
            DatabaseError: this task already holds one, or nobody let go within the timeout.

        """
        self._refuse_holder(
            f"begin one transaction at a time, or begin it in another {_kind(_caller())}"
        )
        if not self.taken:
            self._hold(_caller())
        else:
            ticket = _Ticket(_caller())
            self._queue.append(ticket)
            try:
                await self._wait(ticket)
            except BaseException:
                # The turn may have come in the very moment in which the wait was cancelled.
                if self._holder is not None and self._holder.mine:
                    self._holder.release()
                raise
        lease = self._holder
        if lease is None:  # pragma: no cover - granted above
            raise AssertionError
        return lease

    async def turn(self, call: str, instead: str, *, urgent: bool = False) -> None:
        """Wait until an auto-commit write may go. Call only while the slot is `taken`.

        An urgent one goes before all who wait: a heartbeat behind a queue of transactions may
        come after the deadline that it was to extend.

        Raises:
            DatabaseError: this task's own open transaction is in the way, or somebody else's
                was for the whole timeout.

        """
        self.check(call, instead)
        place = 0 if urgent else -1
        if not self._queue or self._queue[place].caller is not None:
            add = self._queue.appendleft if urgent else self._queue.append
            add(_Ticket(None))
        await self._wait(self._queue[place])

    def check(self, call: str, instead: str) -> None:
        """Refuse what would wait for itself.

        Raises:
            DatabaseError: this task's own open transaction is in the way.

        """
        self._refuse_holder(f"{call} would wait for it for ever; {instead}")

    def release(self, lease: Lease) -> None:
        """Give the turn to whoever waits longest, if `lease` has it."""
        if self._holder is not lease:
            return
        self._holder = None
        while self._queue and self._holder is None:
            ticket = self._queue.popleft()
            caller = None if ticket.caller is None else ticket.caller()
            if caller is not None:
                self._hold(caller)
            for waiter in ticket.waiters:
                if not waiter.done():
                    waiter.set_result(None)
        self.taken = self._holder is not None

    def _hold(self, caller: _Caller) -> None:
        self._holder = Lease(self, caller)
        self.taken = True

    async def _wait(self, ticket: _Ticket) -> None:
        loop = asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        ticket.waiters.append(waiter)
        alarm = loop.call_later(self._timeout, self._expire, waiter)
        try:
            await waiter
        finally:
            alarm.cancel()
            ticket.waiters.remove(waiter)
            if not ticket.waiters and ticket in self._queue:
                self._queue.remove(ticket)
            # It holds the error whose traceback holds this frame.
            del waiter

    def _expire(self, waiter: _Waiter) -> None:
        holder = self._holder
        if waiter.done() or holder is None:
            return
        held = time.monotonic() - holder.since
        waiter.set_exception(
            DatabaseError(
                f"no turn to write within {self._timeout:g} s: {holder.name} has held a "
                f"transaction open for {held:.1f} s"
            )
        )

    def _refuse_holder(self, advice: str) -> None:
        # No frame of a refusal may hold the task: task, error and frame would be a cycle, and
        # with it the caller's handle would outlive the task until the collector runs.
        if self._holder is not None and self._holder.mine:
            raise DatabaseError(
                f"this {_kind(_caller())} holds an open transaction and this store has one writer: "
                f"{advice}"
            )


def _caller() -> _Caller:
    task = _running_task()
    return _on_behalf.get(task, task)


def _kind(caller: _Caller) -> str:
    return "thread" if isinstance(caller, Thread) else "task"


def _running_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise DatabaseError("a store is used from within an asyncio task")
    return task
