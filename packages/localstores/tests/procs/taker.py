"""Receive messages until there are none: taker.py file DIRECTORY [DRIVER] | http ENDPOINT TOKEN.

Orders are lines of JSON: ["open"], ["take"], which answers with the receipts, and ["refused"],
which answers with the code of the error that opening ends with.
"""

import asyncio
import json
import sys

from alkstore_localstores import LocalHttpQueue, LocalQueue, LocalStoreError


def say(value) -> None:
    """Answer."""
    sys.stdout.write(f"{json.dumps(['ok', value])}\n")
    sys.stdout.flush()


async def take(queue) -> list:
    """All that is left for us, with several calls at once."""
    receipts = []

    async def worker() -> None:
        while messages := await queue.receive(3):
            receipts.extend(message.receipt_handle for message in messages)

    await asyncio.gather(*(worker() for _ in range(3)))
    return receipts


async def main(kind, place, extra="sqlite3") -> None:
    """Obey."""
    queue = LocalHttpQueue(place, extra) if kind == "http" else LocalQueue(place, driver=extra)
    while line := await asyncio.to_thread(sys.stdin.readline):
        (order,) = json.loads(line)
        if order == "open":
            await queue.open()
            say(None)
        elif order == "take":
            say(await take(queue))
        else:
            try:
                await queue.open()
                say(f"opened, with {await queue.stats()}")
            except LocalStoreError as error:
                say(error.code)
    await queue.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
