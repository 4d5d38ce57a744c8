"""Wait with many receivers for 3 s; says "used SHARE", the part of a core that this took."""

import asyncio
import contextlib
import sys
import time

from wire import say

from alkstore_sqlite import SqliteStore


async def main(path, receivers) -> None:
    """Attach them all, let them settle, measure."""
    async with SqliteStore(path) as store, contextlib.AsyncExitStack() as stack:
        waiting = []
        for number in range(int(receivers)):
            name = f"x{number}"
            receiver = [store.listen, lambda n: store.stream(n).subscribe("me")][number % 2](name)
            attached = await stack.enter_async_context(receiver)
            waiting.append(asyncio.create_task(attached.recv()))
        await asyncio.sleep(0.3)
        began, used = time.monotonic(), time.process_time()
        await asyncio.sleep(3)
        say("used", (time.process_time() - used) / (time.monotonic() - began))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


asyncio.run(main(*sys.argv[1:]))
