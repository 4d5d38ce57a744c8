"""What a property gets to work with: an empty database, time in its hand, stores on demand."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

from alkstore_core import ManualClock

if TYPE_CHECKING:
    from types import TracebackType

    from alkstore_contract.harness import Caller, Facts, Harness, JoinKind
    from alkstore_contract.processes import Process
    from alkstore_core import Store

START = 1_700_000_000
"""When every case begins: whole unix seconds."""


class Case:
    """One run of a property on an empty database. Everything opened here ends with it."""

    def __init__(self, harness: Harness) -> None:
        self.harness: Harness = harness
        self.clock: ManualClock = ManualClock(START)
        self._stack = contextlib.AsyncExitStack()
        self._processes: list[Process] = []

    async def __aenter__(self) -> Self:
        self.address: str = await self._stack.enter_async_context(self.harness.home())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            await process.kill()
        await self._stack.__aexit__(kind, error, traceback)

    @property
    def facts(self) -> Facts:
        """What the engine declares of itself."""
        return self.harness.facts

    async def store(self, *, wall_clock: bool = False) -> Store:
        """An open store; a second one is another client of the same database.

        It lives on the case's clock; with `wall_clock` on the engine's own time, which is what
        spawned processes have.
        """
        return await self._stack.enter_async_context(self.unopened(wall_clock=wall_clock))

    def unopened(self, *, wall_clock: bool = False) -> Store:
        """A store whose opening and closing is the property's own business."""
        return self.harness.store(self.address, None if wall_clock else self.clock)

    async def advance(self, seconds: int) -> None:
        """Let time pass; whoever slept for it has run when this returns."""
        await self.clock.advance(seconds)

    async def spawn(self, function: str, *args: Any) -> Process:
        """Run `module:function` with a store of its own elsewhere; killed with the case."""
        process = await self.harness.spawn(self.address, function, *args)
        self._processes.append(process)
        return process

    async def caller(self, kind: JoinKind) -> Caller:
        """A transaction of the caller's own; rolled back with the case if still open."""
        return await self._stack.enter_async_context(self.harness.caller(self.address, kind))
