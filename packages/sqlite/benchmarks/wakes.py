"""How soon another process knows of a commit, and what waiting costs."""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import children
from alkstore_sqlite import SqliteStore
from frame import Row, Sample, Target, Workload
from raw import create
from scene import options
from waking import delays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scene import FileScene, Synchronous

WAKES = 100
"""Commits per round."""

WAKE = Target(bound=1.3, at_most=True)
SYNCHRONOUS: Synchronous = "NORMAL"
"""At FULL the writer waits for its disk before anybody can see the commit."""

RECEIVERS = 100
IDLE_SECONDS = 3.0


def latency(name: str, target: Target | None, role: str, *args: str) -> Workload:
    """Milliseconds from a moment in another process to the return of our `recv`.

    The moment is just before the COMMIT, or before the call: the span includes what the writer
    does, so it is a bound on the way from visible to woken.
    """
    median = Row(name=f"wake: {name}, median", unit="ms", target=target)
    late = Row(name=f"wake: {name}, p95", unit="ms")

    async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            async with AsyncExitStack() as stack:
                path = stack.enter_context(scene.file())
                await create(path, SYNCHRONOUS)
                store = await stack.enter_async_context(
                    SqliteStore(path, opts=options(SYNCHRONOUS))
                )
                child = await children.start(role, path, SYNCHRONOUS, scene.count(WAKES, 5), *args)
                waiting = (
                    store.listen("bench") if "notify" in args else store.queue("bench").wakes()
                )
                receiver = await stack.enter_async_context(waiting)
                found = await delays(child, receiver)
            yield Sample(row=median.name, ours=statistics.median(found))
            yield Sample(row=late.name, ours=statistics.quantiles(found, n=20)[-1])

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

    async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
        seconds = scene.seconds(IDLE_SECONDS)
        for _ in range(scene.rounds):
            with scene.file() as path:
                await create(path, "FULL")
                if receivers:
                    yield await _share(bare, "poll", path, poll_interval, seconds)
                yield await _share(row, "idle", path, poll_interval, receivers, seconds)

    return Workload(rows=(row, bare) if receivers else (row,), rounds=rounds)


async def _share(row: Row, role: str, path: Path, *args: object) -> Sample:
    child = await children.start(role, path, *args)
    child.begin()
    return Sample(row=row.name, ours=cast("float", await child.result()))


ALL = [
    latency("another process's COMMIT of a notify", WAKE, "commit", "notify"),
    latency("another process's COMMIT of an enqueue", WAKE, "commit", "enqueue"),
    latency("another process's call of enqueue", None, "call"),
    idle(0.001, RECEIVERS, 5.0),
    idle(0.002, RECEIVERS, 3.0),
    idle(0.001, 0, 0.3),
]
