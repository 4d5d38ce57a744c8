"""Ten processes, one file: does anybody starve?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import children
from frame import Row, Sample, Target, Workload
from raw import create

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scene import FileScene

PROCESSES = 10
SECONDS = 8.0
SMOKE = 0.1
"""Below this scale nobody reads the numbers, and two processes start sooner than ten."""


def saturation(tasks: int) -> Workload:
    """Slowest over fastest process, and the longest that one call of any of them took."""
    who = f"{PROCESSES} processes × {tasks} producer{'s' if tasks > 1 else ''}"
    share = Row(name=f"fairness: {who}, slowest", unit="enqueues", target=Target(bound=0.5))
    wait = Row(
        name=f"fairness: {who}, longest wait",
        unit="s",
        target=Target(bound=1.0, at_most=True),
        worst=True,
    )

    async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
        # One round is many thousand rounds of the race already.
        for _ in range(min(scene.rounds, 3)):
            with scene.file() as path:
                await create(path, "FULL")
                starting = [
                    children.start("saturate", path, scene.seconds(SECONDS), tasks)
                    for _ in range(PROCESSES if scene.scale >= SMOKE else 2)
                ]
                processes = await asyncio.gather(*starting)
                for child in processes:
                    child.begin()
                results = cast(
                    "list[tuple[int, float]]",
                    await asyncio.gather(*(child.result() for child in processes)),
                )
            counts = [done for done, _ in results]
            yield Sample(row=share.name, ours=min(counts), reference=max(counts))
            yield Sample(row=wait.name, ours=max(longest for _, longest in results))

    return Workload(rows=(share, wait), rounds=rounds)


ALL = [saturation(1), saturation(10)]
