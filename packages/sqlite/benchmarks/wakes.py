"""How soon another process knows of a commit, and what waiting costs."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from typing import TYPE_CHECKING, cast

from alkstore_sqlite import SqliteStore
from children import Child
from raw import create
from scene import Row, Sample, Target, Workload, options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_core import WakeReceiver
    from scene import Scene, Synchronous

WAKES = 100
"""Commits per round."""

RECEIVERS = 100
IDLE_SECONDS = 3.0


def latency(role: str, name: str, synchronous: Synchronous) -> Workload:
    """Milliseconds from just before another process's COMMIT to our receiver's return.

    The span includes the commit itself, which is not the watcher's doing: a bound, not a claim.
    """
    median = Row(name=f"wake: {name}, median", unit="ms", target=Target(bound=1.3, at_most=True))
    late = Row(name=f"wake: {name}, p95", unit="ms")

    async def rounds(scene: Scene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            with scene.file() as path:
                await create(path, synchronous)
                async with SqliteStore(path, opts=options(synchronous)) as store:
                    child = await Child.start(role, path, synchronous, scene.count(WAKES, 5))
                    waiting = (
                        store.listen("bench")
                        if role == "notify"
                        else (store.queue("bench").wakes())
                    )
                    async with waiting as receiver:
                        woken, moments = await _collect(child, receiver)
            delays = _delays(woken, moments)
            yield Sample(row=median.name, ours=statistics.median(delays))
            yield Sample(row=late.name, ours=statistics.quantiles(delays, n=20)[-1])

    return Workload(rows=(median, late), rounds=rounds)


def idle(poll_interval: float, receivers: int, bound: float) -> Workload:
    """CPU time of a process whose receivers wait for commits that do not come."""
    what = f"{receivers} receivers" if receivers else "no receivers"
    row = Row(
        name=f"idle: {what} at {poll_interval * 1000:g} ms",
        unit="% of a core",
        target=Target(bound=bound, at_most=True),
    )

    async def rounds(scene: Scene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            with scene.file() as path:
                await create(path, "FULL")
                seconds = scene.seconds(IDLE_SECONDS)
                child = await Child.start("idle", path, poll_interval, receivers, seconds)
                child.begin()
                yield Sample(row=row.name, ours=cast("float", await child.result()))

    return Workload(rows=(row,), rounds=rounds)


async def _collect(child: Child, receiver: WakeReceiver) -> tuple[list[int], list[tuple[int, int]]]:
    woken: list[int] = []

    async def note() -> None:
        while await receiver.recv() is not None:
            woken.append(time.monotonic_ns())

    noting = asyncio.create_task(note())
    child.begin()
    moments = cast("list[tuple[int, int]]", await child.result())
    await asyncio.sleep(0.1)
    noting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await noting
    return woken, moments


def _delays(woken: list[int], moments: list[tuple[int, int]]) -> list[float]:
    """Milliseconds from each commit to the first wake after it and before the next."""
    ends = [before for before, _ in moments[1:]] + [2**63]
    delays = []
    for (before, _), end in zip(moments, ends, strict=True):
        first = next((moment for moment in woken if before <= moment < end), None)
        if first is not None:
            delays.append((first - before) / 1e6)
    if len(delays) < len(moments) * 0.9:
        message = f"only {len(delays)} of {len(moments)} commits woke the receiver in time"
        raise RuntimeError(message)
    return delays


ALL = [
    latency("notify", "a joined notify of another process", "NORMAL"),
    latency("enqueue", "an enqueue of another process", "NORMAL"),
    idle(0.001, RECEIVERS, 5.0),
    idle(0.002, RECEIVERS, 3.0),
    idle(0.001, 0, 0.3),
]
