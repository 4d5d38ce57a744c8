"""How soon another process knows of a commit."""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import children
from frame import Row, Sample, Target, Workload
from waking import delays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scene import ServerScene

WAKES = 100
"""Commits per round."""

WAKE = Target(bound=2.0, at_most=True)


def latency(name: str, target: Target | None, role: str, *args: str) -> Workload:
    """Milliseconds from a moment in another process to the return of our `recv`.

    The moment is just before the COMMIT, or before the call: the span includes what the server
    does, its wait for the disk above all.
    """
    median = Row(name=f"wake: {name}, median", unit="ms", target=target)
    late = Row(name=f"wake: {name}, p95", unit="ms")

    async def rounds(scene: ServerScene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            async with AsyncExitStack() as stack:
                schema = await stack.enter_async_context(scene.schema())
                store = await stack.enter_async_context(scene.store(schema))
                child = await children.start(role, scene, schema, scene.count(WAKES, 5), *args)
                waiting = (
                    store.listen("bench") if "notify" in args else store.queue("bench").wakes()
                )
                receiver = await stack.enter_async_context(waiting)
                found = await delays(child, receiver)
            yield Sample(row=median.name, ours=statistics.median(found))
            yield Sample(row=late.name, ours=statistics.quantiles(found, n=20)[-1])

    return Workload(rows=(median, late), rounds=rounds)


ALL = [
    latency("another process's COMMIT of a notify", WAKE, "commit", "notify"),
    latency("another process's COMMIT of an enqueue", WAKE, "commit", "enqueue"),
    latency("another process's call of enqueue", None, "call"),
]
