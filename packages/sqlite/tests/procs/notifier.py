"""Notify "x" whenever told to; answers "committed WHEN" on the monotonic clock."""

import asyncio
import sys
import time

from wire import Lines, say

from alkstore_sqlite import SqliteStore


async def main(path) -> None:
    """Notify, tell when the commit was over."""
    lines = Lines(0)
    async with SqliteStore(path) as store:
        say("ready")
        while await lines.next() is not None:
            await store.notify("x", "tea")
            say("committed", time.monotonic())


asyncio.run(main(*sys.argv[1:]))
