"""Write the five effects one way, say so, and never commit."""

import asyncio
import sys

from ways import WAYS
from wire import say

from alkstore_sqlite import SqliteStore


async def main(path, way) -> None:
    """Wait to be killed between the last write and the commit."""

    async def inside(_owner) -> bool:
        say("written")
        return await asyncio.Event().wait()

    async with SqliteStore(path) as store:
        await WAYS[way](store, path, inside)


asyncio.run(main(*sys.argv[1:]))
