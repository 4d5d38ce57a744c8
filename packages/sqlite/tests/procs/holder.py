"""A foreign program that holds SQLite's write lock: answers "held" and "released"."""

import asyncio
import sqlite3
import sys

from wire import Lines, say


async def main(path) -> None:
    """Hold the lock until a line comes, then wait for the end."""
    lines = Lines(0)
    connection = sqlite3.connect(path, timeout=10, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    await lines.next()
    connection.execute("ROLLBACK")
    connection.close()
    say("released")
    await lines.next()


asyncio.run(main(*sys.argv[1:]))
