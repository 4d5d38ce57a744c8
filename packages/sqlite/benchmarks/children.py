"""What runs in other processes: `children.py ROLE [PATH, …]`."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine

from alkstore_sqlite import SqliteStore, prepare_engine
from child import Child, begin, play
from scene import options
from working import idle_share

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from scene import Synchronous

PAUSE = (0.020, 0.030)
"""Seconds between two commits; random, so that they fall anywhere between two polls."""


async def commit(path: str, synchronous: Synchronous, count: int, what: str) -> object:
    """Notify or enqueue in transactions of a caller's own; the moment before each COMMIT."""
    moments: list[int] = []
    engine = prepare_engine(create_engine(f"sqlite:///{path}"), synchronous=synchronous)
    async with SqliteStore(path, opts=options(synchronous)) as store:
        await begin()
        with engine.connect() as connection:
            for number in range(count):
                await asyncio.sleep(random.uniform(*PAUSE))
                tx = store.join(connection)
                if what == "notify":
                    tx.notify_tx("bench", number)
                else:
                    tx.enqueue_tx("bench", number)
                moments.append(time.monotonic_ns())
                connection.commit()
    engine.dispose()
    return moments


async def call(path: str, synchronous: Synchronous, count: int) -> object:
    """Enqueue; the moment before each call."""
    moments: list[int] = []
    async with SqliteStore(path, opts=options(synchronous)) as store:
        queue = store.queue("bench")
        await begin()
        for number in range(count):
            await asyncio.sleep(random.uniform(*PAUSE))
            moments.append(time.monotonic_ns())
            await queue.enqueue(number)
    return moments


async def saturate(path: str, seconds: float, tasks: int) -> object:
    """Enqueue as fast as possible from `tasks` tasks; how many, and the longest single wait."""
    async with SqliteStore(path, opts=options()) as store:
        queue = store.queue("bench")
        await queue.enqueue(0)

        async def producer() -> tuple[int, float]:
            done, longest = 0, 0.0
            now = time.monotonic()
            while now < deadline:
                await queue.enqueue(done)
                longest = max(longest, time.monotonic() - now)
                now = time.monotonic()
                done += 1
            return done, longest

        await begin()
        deadline = time.monotonic() + seconds
        results = await asyncio.gather(*(producer() for _ in range(tasks)))
    return [sum(done for done, _ in results), max(longest for _, longest in results)]


async def idle(path: str, poll_interval: float, receivers: int, seconds: float) -> object:
    """Wait with open receivers; the share of one core that this took."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            SqliteStore(path, opts=options(poll_interval=poll_interval))
        )
        waiting = []
        for number in range(receivers):
            receiver = await stack.enter_async_context(_receiver(store, number))
            waiting.append(asyncio.create_task(receiver.recv()))
        await begin()
        await asyncio.sleep(min(0.5, seconds))
        wall, used = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        used, wall = time.process_time() - used, time.monotonic() - wall
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return 100 * used / wall


async def idle_worker(path: str, seconds: float) -> object:
    """Run a worker that nobody gives a job; the share of one core that this took."""
    async with SqliteStore(path, opts=options()) as store:
        return await idle_share(store, seconds)


async def poll(path: str, poll_interval: float, seconds: float) -> object:
    """Ask a plain connection for `data_version` and nothing else; the share of one core."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        await begin()
        start, used = time.monotonic(), time.process_time()
        while time.monotonic() < start + seconds:
            connection.execute("PRAGMA data_version").fetchone()
            time.sleep(poll_interval)  # noqa: ASYNC251 - nothing else runs on this loop
        return 100 * (time.process_time() - used) / (time.monotonic() - start)


def _receiver(store: SqliteStore, number: int) -> AbstractAsyncContextManager[Any]:
    """Some of each kind, as a service has them."""
    name = f"bench-{number}"
    if number % 3 == 0:
        return store.listen(name)
    if number % 3 == 1:
        return store.queue(name).wakes()
    return store.stream(name).subscribe("bench")


ROLES: dict[str, Callable[..., Coroutine[None, None, object]]] = {
    "commit": commit,
    "call": call,
    "saturate": saturate,
    "idle": idle,
    "idle_worker": idle_worker,
    "poll": poll,
}


async def start(role: str, path: Path, *args: object) -> Child:
    """Start a process in one of the roles."""
    return await Child.start(Path(__file__), role, str(path), *args)


if __name__ == "__main__":
    play(ROLES)
