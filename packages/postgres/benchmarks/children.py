"""What runs in other processes: `children.py ROLE [URL, SCHEMA, …]`."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from alkstore_postgres import PostgresOpts, PostgresStore
from child import Child, begin, play
from working import idle_share

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scene import ServerScene

PAUSE = (0.020, 0.030)
"""Seconds between two commits."""


async def commit(url: str, schema: str, count: int, what: str) -> object:
    """Notify or enqueue in transactions; the moment before each COMMIT."""
    moments: list[int] = []
    async with PostgresStore(url, opts=PostgresOpts(schema=schema)) as store:
        await begin()
        for number in range(count):
            await asyncio.sleep(random.uniform(*PAUSE))
            async with store.begin_tx() as tx:
                if what == "notify":
                    await tx.notify_tx("bench", number)
                else:
                    await tx.enqueue_tx("bench", number)
                moments.append(time.monotonic_ns())
                await tx.commit()
    return moments


async def call(url: str, schema: str, count: int) -> object:
    """Enqueue; the moment before each call."""
    moments: list[int] = []
    async with PostgresStore(url, opts=PostgresOpts(schema=schema)) as store:
        queue = store.queue("bench")
        await begin()
        for number in range(count):
            await asyncio.sleep(random.uniform(*PAUSE))
            moments.append(time.monotonic_ns())
            await queue.enqueue(number)
    return moments


async def idle_worker(url: str, schema: str, seconds: float) -> object:
    """Run a worker that nobody gives a job; the share of one core that this took."""
    async with PostgresStore(url, opts=PostgresOpts(schema=schema)) as store:
        return await idle_share(store, seconds)


ROLES: dict[str, Callable[..., Coroutine[None, None, object]]] = {
    "commit": commit,
    "call": call,
    "idle_worker": idle_worker,
}


async def start(role: str, scene: ServerScene, schema: str, *args: object) -> Child:
    """Start a process in one of the roles."""
    return await Child.start(Path(__file__), role, scene.url, schema, *args)


if __name__ == "__main__":
    play(ROLES)
