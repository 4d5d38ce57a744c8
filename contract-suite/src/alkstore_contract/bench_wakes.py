"""How soon a receiver wakes: notifies that are answered, there and back.

Half of a round trip needs no clock that both ends share, so the other end may be anywhere. The
commit of the notify is part of it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from alkstore_contract.bench_work import UnmeasuredError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.harness import Harness
    from alkstore_contract.processes import Line
    from alkstore_core import Store, WakeReceiver

LOST_SECONDS = 10.0
"""A wake that has not come by then does not come."""

READY_SECONDS = 60.0
"""What another process may take until it listens."""


async def wake_here(harness: Harness, count: int) -> float:
    """Median milliseconds one way, to another store of this process."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(harness.home())
        store = await stack.enter_async_context(harness.store(address, None))
        other = await stack.enter_async_context(harness.store(address, None))
        ready = asyncio.Event()
        answering = asyncio.create_task(_answer(other, ready.set, count))
        answering.add_done_callback(lambda _: ready.set())
        try:
            return await _ask(store, ready.wait, count)
        except UnmeasuredError:
            if answering.done():
                answering.result()
            raise
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


async def wake_elsewhere(harness: Harness, count: int) -> float:
    """Median milliseconds one way, to a store of another process."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(harness.home())
        store = await stack.enter_async_context(harness.store(address, None))
        process = await harness.spawn(address, f"{__name__}:answer", count)
        stack.push_async_callback(process.kill)
        return await _ask(store, process.hear, count)


async def answer(store: Store, line: Line, count: int) -> None:
    """What runs in the other process."""
    await _answer(store, lambda: line.say("ready"), count)


async def _ask(store: Store, ready: Callable[[], Awaitable[object]], count: int) -> float:
    async with AsyncExitStack() as stack:
        answers = await _listen(stack, store, "answer", count)
        try:
            await asyncio.wait_for(ready(), READY_SECONDS)
        except TimeoutError:
            raise UnmeasuredError("the other client was not ready in time") from None
        ways = []
        for number in range(count + 1):
            start = time.perf_counter()
            await store.notify(f"question-{number}")
            try:
                await asyncio.wait_for(_woken(answers[number]), LOST_SECONDS)
            except TimeoutError:
                raise UnmeasuredError(
                    f"notify {number} of {count}, or its answer, woke nobody in {LOST_SECONDS:g} s"
                ) from None
            ways.append((time.perf_counter() - start) / 2)
        # The first one was the warm-up.
        return 1000 * statistics.median(ways[1:])


async def _answer(store: Store, ready: Callable[[], None], count: int) -> None:
    async with AsyncExitStack() as stack:
        questions = await _listen(stack, store, "question", count)
        ready()
        for number, question in enumerate(questions):
            await _woken(question)
            await store.notify(f"answer-{number}")


async def _listen(stack: AsyncExitStack, store: Store, what: str, count: int) -> list[WakeReceiver]:
    """Attach to a channel for each number: a wake may come twice, and would be the next one's."""
    return [
        await stack.enter_async_context(store.listen(f"{what}-{number}"))
        for number in range(count + 1)
    ]


async def _woken(receiver: WakeReceiver) -> None:
    channel = None
    while channel is None or not channel.startswith(("question-", "answer-")):
        wake = await receiver.recv()
        if wake is None:
            raise UnmeasuredError("a receiver ended while its store was open")
        channel = wake.channel
