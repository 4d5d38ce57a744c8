"""Concurrent calls as one statement: what group commit is where every statement is a round trip.

While a statement is under way, further calls gather; the next one carries them all. Each caller
still returns only after its own commit.

Callers that were answered together call again together. All of them in one statement would let
this process and the server wait for each other in turns; so where the disk is not what takes the
time, two statements share them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alkstore_core.sql.op import Mode, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Mapping

    from alkstore_core.sql.merging import Merge
    from alkstore_postgres.connections import Lease

T = TypeVar("T")

LANES: Final = 2
"""Statements under way at a time: while one waits for the disk the other one computes."""

MOST: Final = 1000
"""Calls of one statement."""

SHARED: Final = 20
"""Calls that are worth two statements."""

SWIFT: Final = 30e-6
"""Seconds of a statement for each call under way, below which two take turns better than one.

Two of them are two commits. That pays off while the disk takes less time than the calls
themselves: about 20 µs each in this process, and half of that in the server."""


class RefusedError(Exception):
    """The server refused a statement, the transaction is undone; `__cause__` tells why."""


class _Call:
    __slots__ = ("args", "future", "op")

    def __init__(
        self, future: asyncio.Future[Any], op: Callable[..., Op[Any]], args: tuple[Any, ...]
    ) -> None:
        self.future = future
        self.op = op
        self.args = args


class Coalescer:
    """Gathers calls of equal key and performs them together."""

    def __init__(
        self,
        merges: Mapping[Callable[..., Op[Any]], Merge],
        take: Callable[[], Coroutine[Any, Any, Lease]],
        perform: Callable[..., Coroutine[Any, Any, Any]],
        start: Callable[[Coroutine[Any, Any, None]], object],
        translate: Callable[[BaseException], BaseException],
    ) -> None:
        """Prepare.

        `take` gives a connection and `perform` runs an op on it, `start` makes a task that the
        store waits for, `translate` gives the error that a caller gets.
        """
        self._merges = merges
        self._take = take
        self._perform = perform
        self._start = start
        self._translate = translate
        self._gathered: dict[Hashable, list[_Call]] = {}
        self._lanes = 0
        self._about_to_start = False
        self._under_way = 0
        self._pace = float("inf")
        """Seconds for each call under way that the latest statement took."""

    def takes(self, op: Callable[..., Op[Any]]) -> bool:
        """Whether calls of this op can be one."""
        return op in self._merges

    def call(self, op: Callable[..., Op[T]], args: tuple[Any, ...]) -> asyncio.Future[T]:
        """Add a call. One that is cancelled before its statement began is never made."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        key = (op, self._merges[op].key(args))
        self._gathered.setdefault(key, []).append(_Call(future, op, args))
        self._open_lane()
        return future

    def _open_lane(self) -> None:
        if self._lanes < LANES and not self._about_to_start:
            self._lanes += 1
            # In the next turn of the loop: what the other tasks of this turn add rides along.
            self._about_to_start = True
            self._start(self._lane())

    async def _lane(self) -> None:
        self._about_to_start = False
        try:
            while self._gathered:
                # First a connection: whoever calls, or stops to wait, until there is one, counts.
                try:
                    lease = await self._take()
                except Exception as error:  # noqa: BLE001 - every caller has to hear of it
                    for call in self._next():
                        self._fail(call, error)
                    continue
                calls = self._next()
                if calls:
                    await self._together(lease, calls)
                else:
                    await lease.give_back()
        finally:
            self._lanes -= 1

    def _next(self) -> list[_Call]:
        """The calls of the key that waits longest, without those that nobody waits for."""
        while self._gathered:
            key = next(iter(self._gathered))
            calls = self._gathered.pop(key)
            most = self._share(len(calls))
            if len(calls) > most:
                self._gathered[key] = calls[most:]
            if self._gathered:
                self._open_lane()
            wanted = [call for call in calls[:most] if not call.future.cancelled()]
            if wanted:
                return wanted
        return []

    def _share(self, count: int) -> int:
        """How many of so many calls the next statement carries at most."""
        alone = self._lanes == 1 and not self._gathered
        if alone and count >= SHARED and self._pace < SWIFT:
            return min((count + 1) // LANES, MOST)
        return MOST

    async def _together(self, lease: Lease, calls: list[_Call]) -> None:
        if len(calls) == 1:
            await self._alone(lease, calls[0])
            return
        try:
            values = await self._timed(lease, calls)
        except RefusedError:
            # Undone for certain: whoever it belongs to gets it, and nobody else.
            await self._one_by_one(calls)
        except BaseException as error:
            for call in calls:
                self._fail(call, error)
            if not isinstance(error, Exception):
                raise
        else:
            for call, value in zip(calls, values, strict=True):
                if not call.future.done():
                    call.future.set_result(value)

    async def _timed(self, lease: Lease, calls: list[_Call]) -> list[Any]:
        op = self._merges[calls[0].op].run
        self._under_way += len(calls)
        begun, start = self._under_way, time.perf_counter()
        try:
            values: list[Any] = await self._perform(
                lease, Mode.WRITE, op, [call.args for call in calls]
            )
        finally:
            self._pace = (time.perf_counter() - start) / max(begun, self._under_way)
            self._under_way -= len(calls)
        return values

    async def _one_by_one(self, calls: list[_Call]) -> None:
        for call in calls:
            if not call.future.cancelled():
                await self._alone(None, call)

    async def _alone(self, lease: Lease | None, call: _Call) -> None:
        try:
            value = await self._perform(lease, Mode.WRITE, call.op, *call.args)
        except BaseException as error:
            self._fail(call, error)
            if not isinstance(error, Exception):
                raise
        else:
            if not call.future.done():
                call.future.set_result(value)

    def _fail(self, call: _Call, error: BaseException) -> None:
        if not call.future.done():
            call.future.set_exception(self._translate(error))
