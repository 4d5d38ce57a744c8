"""What a call to another thread and back costs here, with nothing done in between.

Every awaited call of the engine pays for it and the plain `sqlite3` module does not. Where two
cores have to wake each other it can be several times the price of a NORMAL insert, and on one
core a fraction of it; so rates of single awaited calls say as much about the machine as about us.
"""

from __future__ import annotations

import asyncio
import queue
import statistics
import threading
import time

ROUNDS = 5
CALLS = 2_000


async def measure() -> float:
    """Seconds for one hand-over to a waiting thread and the answer to a waiting task; a median."""
    loop = asyncio.get_running_loop()
    handed: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()

    def answer() -> None:
        while (future := handed.get()) is not None:
            loop.call_soon_threadsafe(future.set_result, None)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        return statistics.median([await _round(handed) for _ in range(ROUNDS)])
    finally:
        handed.put(None)
        thread.join()


async def _round(handed: queue.SimpleQueue[asyncio.Future[None] | None]) -> float:
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    for _ in range(CALLS):
        future: asyncio.Future[None] = loop.create_future()
        handed.put(future)
        await future
    return (time.perf_counter() - start) / CALLS
