"""Notify `pong` for each wake of `ping`; says when it listens."""

import asyncio
import sys

from alkstore_postgres import PostgresStore


async def main():
    """Until the parent has seen enough."""
    async with PostgresStore(sys.argv[1]) as store, store.listen("ping") as receiver:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        async for _ in receiver:
            await store.notify("pong", None)


asyncio.run(main())
