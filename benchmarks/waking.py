"""How soon a receiver here knows of what another process commits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from child import Child

LATEST = 1.0
"""Seconds after the last commit in which its wake has to come."""


class Receiver(Protocol):
    """What wakes: a receiver of the library, or whatever follows its wakes."""

    async def recv(self) -> object | None:
        """Return when it has woken, `None` when it never will again."""


async def delays(child: Child, receiver: Receiver) -> list[float]:
    """Let the child begin; milliseconds from each of its moments to the return of our `recv`.

    Its answer is the moments, by the clock that all processes share.
    """
    return _between(*await _collect(child, receiver))


async def _collect(child: Child, receiver: Receiver) -> tuple[list[int], list[int]]:
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


def _between(woken: list[int], moments: list[int]) -> list[float]:
    """Milliseconds from each moment to the first wake after it, however late that is.

    One wake may stand for several commits; a commit without any wake after it was lost.
    """
    if not woken or woken[-1] < moments[-1]:
        message = f"nothing woke the receiver after the last of {len(moments)} commits"
        raise RuntimeError(message)
    return [(woken[bisect_left(woken, moment)] - moment) / 1e6 for moment in moments]
