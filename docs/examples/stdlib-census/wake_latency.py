"""How long after a commit another process is awake: real pings, stamped by the system's clock."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

import child
from alkstore_sqlite import SqliteStore

if TYPE_CHECKING:
    from alkstore_core import Store
    from fleet import Child

PINGS = "census.pings"
WARM_UP = 5
ROUNDS = 60


class WakeLatency(NamedTuple):
    """From the return of `enqueue` in one process to the wake in another, in milliseconds."""

    median: float
    p95: float
    rounds: int


async def measure(store: Store, echo: Child) -> WakeLatency:
    """Enqueue pings one at a time, each when the echo is asleep again."""
    queue = store.queue(PINGS)
    latencies = []
    for _ in range(WARM_UP + ROUNDS):
        # Out of step with whatever rhythm the other process listens in.
        await asyncio.sleep(random.uniform(0, 0.003))  # noqa: S311  no secret
        await queue.enqueue(None)
        committed = time.monotonic_ns()
        latencies.append((int(await echo.line()) - committed) / 1e6)
    counted = latencies[WARM_UP:]
    return WakeLatency(median(counted), quantiles(counted, n=20)[-1], ROUNDS)


async def answer(store: Store) -> None:
    """The other process: note the time of each wake, say it once the ping is in hand."""
    queue = store.queue(PINGS)
    async with queue.wakes() as wakes:
        child.say("ready")
        while await wakes.recv():
            woken = time.monotonic_ns()
            if ping := await queue.claim_one("echo"):
                await ping.ack()
                child.say(str(woken))


async def main(database: str) -> None:
    """Answer until killed."""
    async with SqliteStore(database) as store:
        await answer(store)


if __name__ == "__main__":
    child.run(main(*sys.argv[1:]))
