"""Another process that looks at a store: what is there, and what woke it.

watch PATH   open the store there and listen; answers "watching"
glance       after 30 looks of the watcher, what woke it so far; answers "glanced JSON"
await        wait for a wake; answers "woken"
look         wait for the test's notify on "fence", then tell all; answers "looked JSON"
leave        close the store; answers "left"
"""

import asyncio
import contextlib
import json
import sqlite3

from wire import Lines, say

from alkstore_sqlite import SqliteStore


class Watch:
    """One open store with its receivers."""

    def __init__(self, path) -> None:
        self.path = path
        self.wakes = []
        self.woken = asyncio.Event()

    async def attend(self, receiver) -> None:
        """Note at each wake how many business rows can be seen right now."""
        async for _ in receiver:
            with contextlib.closing(sqlite3.connect(self.path)) as connection:
                [(rows,)] = connection.execute("SELECT count(*) FROM orders")
            self.wakes.append(rows)
            self.woken.set()

    async def serve(self, lines) -> None:
        """Answer the test until it leaves."""
        async with (
            SqliteStore(self.path) as store,
            store.listen("orders") as orders,
            store.listen("fence") as fence,
        ):
            attending = asyncio.create_task(self.attend(orders))
            say("watching")
            while (command := await lines.next()) != "leave":
                match command:
                    case "glance":
                        await asyncio.sleep(0.03)
                        say("glanced", json.dumps(self.wakes))
                    case "await":
                        await self.woken.wait()
                        say("woken")
                    case "look":
                        await fence.recv()
                        say("looked", json.dumps(await self.traces(store)))
                    case _:
                        raise ValueError(command)
        await attending

    async def traces(self, store) -> dict:
        """The five effects as they can be seen from here."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            [(orders,)] = connection.execute("SELECT count(*) FROM orders")
        return {
            "orders": orders,
            "jobs": len(await store.queue("mail").jobs()),
            "events": [event.key for event in await store.stream("sales").read_since(0, 10)],
            "offset": await store.stream("sales").get_offset("audit"),
            "wakes": self.wakes,
        }


async def main() -> None:
    """Watch one store after another."""
    lines = Lines(0)
    say("ready")
    while (command := await lines.next()) is not None:
        await Watch(command.removeprefix("watch ")).serve(lines)
        say("left")


asyncio.run(main())
