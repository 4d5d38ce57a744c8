"""Open stores on command, with no rights that a test's faults would not stop.

open PATH AT     open at that moment of the monotonic clock; answers "opened" or "refused WHY"
close            answers "closed"
"""

import asyncio
import sys
import time

from wire import Lines, say

from alkstore_core import DatabaseError
from alkstore_sqlite import SqliteStore


async def main() -> None:
    """Serve the test until it hangs up."""
    lines = Lines(0)
    store = None
    say("ready")
    while (line := await lines.next()) is not None:
        match line.split():
            case ["open", path, at]:
                store = SqliteStore(path)
                while time.monotonic() < float(at):
                    pass  # spinning, so that all processes arrive in the same microseconds
                try:
                    await store.open()
                    await store.queue("work").enqueue("first")
                except DatabaseError as error:
                    say("refused", repr(error))
                else:
                    say("opened")
            case ["close"]:
                await store.close()
                say("closed")


asyncio.run(main(*sys.argv[1:]))
