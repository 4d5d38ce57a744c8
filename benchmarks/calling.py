"""What is asked of a store, whatever its engine, and how often it can be asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from alkstore_core import Store
from frame import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYLOAD = {
    "task": "thumbnail",
    "image": 4711,
    "sizes": [64, 128, 256],
    "source": "https://img.example.org/originals/4711.jpeg",
}
ENCODED = json.dumps(PAYLOAD, separators=(",", ":")).encode()

BATCH = 100

Step = Callable[[], Awaitable[object]]
Calls = Callable[[Store, Tally], Awaitable[None]]


async def concurrently(steps: Sequence[Step], tally: Tally) -> None:
    """Tasks that each take their step again and again, awaiting it, until the slice is over."""

    async def task(step: Step) -> int:
        done = 0
        # Once at least: a slice that is over at once would leave nothing to divide.
        while not done or time.perf_counter() < deadline:
            await step()
            done += 1
        return done

    deadline = time.perf_counter() + tally.left
    with tally.span():
        done = await asyncio.gather(*map(task, steps))
    tally.add(sum(done))


def enqueues(tasks: int) -> Calls:
    """Tasks that enqueue one job after the other."""

    async def run(store: Store, tally: Tally) -> None:
        queue = store.queue("bench")
        await concurrently([lambda: queue.enqueue(PAYLOAD)] * tasks, tally)

    return run


def publishes(tasks: int) -> Calls:
    """Tasks that publish one event after the other."""

    async def run(store: Store, tally: Tally) -> None:
        stream = store.stream("bench")
        await concurrently([lambda: stream.publish(PAYLOAD)] * tasks, tally)

    return run


async def transactions(store: Store, tally: Tally) -> None:
    """One enqueue and one publish in each transaction of our own."""

    async def once() -> None:
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("bench", PAYLOAD)
            await tx.publish_tx("bench", PAYLOAD)
            await tx.commit()

    await concurrently([once], tally)


async def claim_and_ack_singly(store: Store, tally: Tally) -> None:
    """Claim a hundred, then a hundred concurrent `handle.ack()`."""
    queue = store.queue("bench")
    while tally.running:
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await asyncio.gather(*(handle.ack() for handle in handles))
        _all_done(sum(acked), len(handles))
        tally.add(len(handles))
        if not handles:
            break


async def claim_and_ack_batch(store: Store, tally: Tally) -> None:
    """Claim a hundred, then one `ack_batch`."""
    queue = store.queue("bench")
    while tally.running:
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await queue.ack_batch(handles, "worker")
        _all_done(acked, len(handles))
        tally.add(len(handles))
        if not handles:
            break


def reads(page: int) -> Calls:
    """Read a stream from its start, page by page, again and again."""

    async def read(store: Store, tally: Tally) -> None:
        stream = store.stream("bench")
        after = 0
        while tally.running:
            with tally.span():
                events = await stream.read_since(after, page)
            tally.add(len(events))
            after = events[-1].offset if len(events) == page else 0

    return read


def _all_done(acked: int, claimed: int) -> None:
    if acked != claimed:
        message = f"{claimed} jobs were claimed but {acked} acked: this measures something else"
        raise RuntimeError(message)
