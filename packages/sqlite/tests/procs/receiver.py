"""Wait for wakes of the kind that a write should cause, one store after another.

PATH WRITE    attach there to what WRITE wakes; answers "waiting", then "woken"
"""

import asyncio

from receivers import receiver_for
from wire import Lines, say

from alkstore_sqlite import SqliteStore


async def main() -> None:
    """Attach, wait, tell."""
    lines = Lines(0)
    while (command := await lines.next()) is not None:
        path, write = command.rsplit(" ", 1)
        async with SqliteStore(path) as store, receiver_for(write, store) as receiver:
            say("waiting")
            if await receiver.recv() is not None:
                say("woken")


asyncio.run(main())
