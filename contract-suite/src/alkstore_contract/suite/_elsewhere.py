"""Somebody else at the same database: another process, or where there is none another client."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Store


class Talk(Protocol):
    """The line between somebody else and the property."""

    def say(self, value: Any) -> None:
        """Hand a value to the property."""

    async def hear(self) -> Any:
        """Wait for the property's next value."""


class Neighbour(Protocol):
    """Somebody else, from the outside."""

    async def hear(self) -> Any:
        """What it said next."""

    async def say(self, value: Any) -> None:
        """Hand it a value."""

    async def kill(self) -> None:
        """It gets no chance to finish."""

    async def end(self) -> None:
        """Wait until it has ended by itself."""


async def elsewhere(case: Case, function: Callable[..., Awaitable[None]], *args: Any) -> Neighbour:
    """Run `async def function(store, line, *args)` in as much of a distance as the engine has."""
    if case.facts.reach == "process":
        return _Client(case.unopened(), function, args)
    return await in_a_process(case, function, *args)


async def in_a_process(
    case: Case, function: Callable[..., Awaitable[None]], *args: Any
) -> Neighbour:
    """Run it in another process, whatever the reach: nobody else may be at the database."""
    return await case.spawn(f"{function.__module__}:{function.__qualname__}", *args)


async def time_passes(case: Case, seconds: int) -> None:
    """Where clients share the case's clock it moves; processes have real time, which does."""
    if case.facts.reach == "process":
        await case.advance(seconds)


async def client(case: Case) -> Store:
    """A client of our own, on the time that everybody has."""
    return await case.store(wall_clock=case.facts.reach != "process")


class _Line:
    def __init__(self) -> None:
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.told: asyncio.Queue[Any] = asyncio.Queue()

    def say(self, value: Any) -> None:
        self.said.put_nowait(value)

    async def hear(self) -> Any:
        return await self.told.get()


class _Client:
    """Another client in this process. Killed, it is cancelled and closed."""

    def __init__(
        self, store: Store, function: Callable[..., Awaitable[None]], args: tuple[Any, ...]
    ) -> None:
        self._line = _Line()
        self._task = asyncio.ensure_future(self._run(store, function, args))

    async def _run(
        self, store: Store, function: Callable[..., Awaitable[None]], args: tuple[Any, ...]
    ) -> None:
        async with store:
            await function(store, self._line, *args)

    async def hear(self) -> Any:
        hearing = asyncio.ensure_future(self._line.said.get())
        await asyncio.wait((hearing, self._task), return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            return hearing.result()
        hearing.cancel()
        await self._task
        raise UnmetError("the other client ended before it answered")

    async def say(self, value: Any) -> None:
        self._line.told.put_nowait(value)

    async def kill(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def end(self) -> None:
        await self._task
