"""Run a `Consumer` until a signal; it writes each event's payload in the offset's transaction.

consuming.py PATH
"""

import asyncio
import sys

from sqlalchemy import text
from wire import say

from alkstore_core.sql import SqlTxHandle
from alkstore_core.worker import Consumer, run
from alkstore_sqlite import SqliteStore


async def main(path) -> None:
    """Note events, and say which one was begun."""

    async def handler(number: int, tx: SqlTxHandle) -> None:
        say("began", number)
        await tx.connection.execute(text("INSERT INTO effects VALUES (:n)"), {"n": number})

    async with SqliteStore(path) as store:
        say("ready")
        await run(Consumer(store, "news", "notes", handler, lease=3))
    say("over")


asyncio.run(main(*sys.argv[1:]))
