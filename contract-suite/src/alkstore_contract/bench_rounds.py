"""Rounds: the engine and the plain driver take turns, each on a database of its own."""

from __future__ import annotations

import asyncio
import functools
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from attrs import frozen

from alkstore_contract.bench_wakes import wake_elsewhere, wake_here
from alkstore_contract.bench_work import WORK, UnmeasuredError, Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.harness import Harness, RawRun
    from alkstore_core import Store

LIMIT_SECONDS = 120.0
"""A round that takes longer hangs."""

MOST = 50_000
"""Operations in one slice at most."""


@frozen(kw_only=True)
class Pace:
    """How long to measure. A slice lasts about `seconds`; a round has `slices` of each side."""

    rounds: int
    slices: int
    seconds: float
    wakes: int


FULL = Pace(rounds=5, slices=4, seconds=0.2, wakes=50)
QUICK = Pace(rounds=3, slices=2, seconds=0.05, wakes=10)


@frozen(kw_only=True)
class Sample:
    """What one round found; `raw` is the plain driver's rate, in the same round."""

    engine: float
    raw: float | None = None


@frozen(kw_only=True)
class Workload:
    """One line of the result."""

    name: str
    what: str
    unit: str
    round: Callable[[Harness, Pace], Awaitable[Sample]]
    beyond_process: bool = False
    """Needs a reach beyond the process."""


class _Side:
    """One of the two, on an empty database, with a store that fills and counts."""

    def __init__(self, who: str, work: Work, store: Store, run: RawRun) -> None:
        self._who = who
        self._work = work
        self._store = store
        self._run = run
        self._total = 0

    @classmethod
    async def of_engine(cls, stack: AsyncExitStack, harness: Harness, work: Work) -> _Side:
        """The engine; gone with the stack."""
        address = await stack.enter_async_context(harness.home())
        store = await stack.enter_async_context(harness.store(address, None))
        return cls("engine", work, store, functools.partial(work.run, store))

    @classmethod
    async def of_driver(cls, stack: AsyncExitStack, harness: Harness, work: Work) -> _Side | None:
        """The plain driver, if the harness has it."""
        address = await stack.enter_async_context(harness.home())
        store = await stack.enter_async_context(harness.store(address, None))
        raw = harness.raw(address, work.name)
        if raw is None:
            return None
        return cls("raw driver", work, store, await stack.enter_async_context(raw))

    async def measure(self, count: int) -> float:
        """Do so much work and make sure that it was done; seconds that the work alone took.

        Raises:
            UnmeasuredError: less was done, or something else.

        """
        try:
            return await self._measure(count)
        except UnmeasuredError as error:
            raise UnmeasuredError(f"{self._who}: {error}") from error

    async def _measure(self, count: int) -> float:
        work = self._work
        await work.fill(self._store, count)
        start = time.perf_counter()
        done = await self._run(count)
        elapsed = time.perf_counter() - start
        self._total += count
        if done != count:
            raise UnmeasuredError(f"{done} of {count} operations were done")
        await work.check(self._store, self._total)
        return elapsed

    async def count_for(self, seconds: float) -> int:
        """How much work takes about so long; finding out is the warm-up as well."""
        step = self._work.step
        count = step
        while (elapsed := await self.measure(count)) < seconds / 4 and count < MOST:
            count *= 4
        steps = round(count * seconds / elapsed / step)
        return step * max(1, min(steps, MOST // step))


def _versus(work: Work) -> Workload:
    async def measured(harness: Harness, pace: Pace) -> Sample:
        async with AsyncExitStack() as stack:
            driver = await _Side.of_driver(stack, harness, work)
            engine = await _Side.of_engine(stack, harness, work)
            if driver is None:
                [rate] = await _take_turns([engine], pace)
                return Sample(engine=rate)
            raw, rate = await _take_turns([driver, engine], pace)
            return Sample(engine=rate, raw=raw)

    return Workload(name=work.name, what=work.what, unit=work.unit, round=measured)


async def _take_turns(sides: list[_Side], pace: Pace) -> list[float]:
    """Operations per second of each side.

    In slices, because a machine's disk changes its mind by the second: both sides of one ratio
    are to see the same weather.
    """
    counts = [await side.count_for(pace.seconds) for side in sides]
    elapsed = [0.0] * len(sides)
    for _ in range(pace.slices):
        for number, side in enumerate(sides):
            elapsed[number] += await side.measure(counts[number])
    return [pace.slices * c / e for c, e in zip(counts, elapsed, strict=True)]


async def _wake_here(harness: Harness, pace: Pace) -> Sample:
    return Sample(engine=await wake_here(harness, pace.wakes))


async def _wake_elsewhere(harness: Harness, pace: Pace) -> Sample:
    return Sample(engine=await wake_elsewhere(harness, pace.wakes))


WORKLOADS: tuple[Workload, ...] = (
    *(_versus(work) for work in WORK),
    Workload(
        name="wake",
        what="from the call of notify to the wake of another client's receiver",
        unit="ms",
        round=_wake_here,
    ),
    Workload(
        name="wake-process",
        what="the same to a receiver in another process",
        unit="ms",
        round=_wake_elsewhere,
        beyond_process=True,
    ),
)


def sample(harness: Harness, workload: Workload, pace: Pace) -> Sample:
    """Measure one round in an event loop of its own.

    Raises:
        UnmeasuredError: it did not end, or what was timed is not the work.

    """

    async def limited() -> Sample:
        limit = asyncio.timeout(LIMIT_SECONDS)
        try:
            async with limit:
                return await workload.round(harness, pace)
        except TimeoutError as error:
            if limit.expired():
                raise UnmeasuredError(f"a round did not end in {LIMIT_SECONDS:g} s") from error
            raise

    with asyncio.Runner() as runner:
        return runner.run(limited())
