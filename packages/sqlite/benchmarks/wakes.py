"""How soon another process knows of a commit, and what waiting costs."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from bisect import bisect_left
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

from alkstore_sqlite import SqliteStore
from children import Child
from raw import create
from scene import Row, Sample, Target, Workload, options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from alkstore_core import WakeReceiver
    from scene import Scene, Synchronous

WAKES = 100
"""Commits per round."""

WAKE = Target(bound=1.3, at_most=True)
SYNCHRONOUS: Synchronous = "NORMAL"
"""At FULL the writer waits for its disk before anybody can see the commit."""

LATEST = 1.0
"""Seconds after the last commit in which its wake has to come."""

RECEIVERS = 100
IDLE_SECONDS = 3.0


def latency(name: str, target: Target | None, role: str, *args: str) -> Workload:
    """Milliseconds from a moment in another process to the return of our `recv`.

    The moment is just before the COMMIT, or before the call: the span includes what the writer
    does, so it is a bound on the way from visible to woken.
    """
    median = Row(name=f"wake: {name}, median", unit="ms", target=target)
    late = Row(name=f"wake: {name}, p95", unit="ms")

    async def rounds(scene: Scene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            async with AsyncExitStack() as stack:
                path = stack.enter_context(scene.file())
                await create(path, SYNCHRONOUS)
                store = await stack.enter_async_context(
                    SqliteStore(path, opts=options(SYNCHRONOUS))
                )
                child = await Child.start(role, path, SYNCHRONOUS, scene.count(WAKES, 5), *args)
                waiting = (
                    store.listen("bench") if "notify" in args else store.queue("bench").wakes()
                )
                receiver = await stack.enter_async_context(waiting)
                delays = _delays(*await _collect(child, receiver))
            yield Sample(row=median.name, ours=statistics.median(delays))
            yield Sample(row=late.name, ours=statistics.quantiles(delays, n=20)[-1])

    return Workload(rows=(median, late), rounds=rounds)


def idle(poll_interval: float, receivers: int, bound: float) -> Workload:
    """CPU time of a process whose receivers wait for commits that do not come.

    Beside it, in the same round, that of a bare loop which only sleeps and asks SQLite: what a
    look costs on this machine at this hour, whoever looks.
    """
    what = f"{receivers} receivers" if receivers else "no receivers"
    cadence = f"at {poll_interval * 1000:g} ms"
    row = Row(
        name=f"idle: {what} {cadence}",
        unit="% of a core",
        target=Target(bound=bound, at_most=True),
    )
    bare = Row(name=f"idle: the bare loop {cadence}", unit="% of a core")

    async def rounds(scene: Scene) -> AsyncIterator[Sample]:
        seconds = scene.seconds(IDLE_SECONDS)
        for _ in range(scene.rounds):
            with scene.file() as path:
                await create(path, "FULL")
                if receivers:
                    yield await _share(bare, "poll", path, poll_interval, seconds)
                yield await _share(row, "idle", path, poll_interval, receivers, seconds)

    return Workload(rows=(row, bare) if receivers else (row,), rounds=rounds)


async def _share(row: Row, role: str, path: Path, *args: object) -> Sample:
    child = await Child.start(role, path, *args)
    child.begin()
    return Sample(row=row.name, ours=cast("float", await child.result()))


async def _collect(child: Child, receiver: WakeReceiver) -> tuple[list[int], list[int]]:
    woken: list[int] = []

    async def note() -> None:
        while await receiver.recv() is not None:
            woken.append(time.monotonic_ns())

    noting = asyncio.create_task(note())
    child.begin()
    moments = cast("list[int]", await child.result())
    await asyncio.sleep(LATEST)
    noting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await noting
    return woken, moments


def _delays(woken: list[int], moments: list[int]) -> list[float]:
    """Milliseconds from each moment to the first wake after it, however late that is.

    One wake may stand for several commits; a commit without any wake after it was lost.
    """
    if not woken or woken[-1] < moments[-1]:
        message = f"nothing woke the receiver after the last of {len(moments)} commits"
        raise RuntimeError(message)
    return [(woken[bisect_left(woken, moment)] - moment) / 1e6 for moment in moments]


ALL = [
    latency("another process's COMMIT of a notify", WAKE, "commit", "notify"),
    latency("another process's COMMIT of an enqueue", WAKE, "commit", "enqueue"),
    latency("another process's call of enqueue", None, "call"),
    idle(0.001, RECEIVERS, 5.0),
    idle(0.002, RECEIVERS, 3.0),
    idle(0.001, 0, 0.3),
]
