"""Publish in every form, some of it rolled back; say each offset once it is promised."""

import asyncio
import random
import sys

from wire import Lines, say

from alkstore_sqlite import SqliteStore


async def main(path, seed, count) -> None:
    """Publish `count` times, with a fifth of the transactions rolled back."""
    dice = random.Random(seed)
    async with SqliteStore(path) as store:
        stream = store.stream("events")
        say("ready")
        await Lines(0).next()
        for number in range(int(count)):
            match number % 3:
                case 0:
                    say("made", await stream.publish(number))
                case 1:
                    say("made", *await stream.publish_many([number, number]))
                case _:
                    async with store.begin_tx() as tx:
                        offsets = [
                            await tx.publish_tx("events", number),
                            await tx.publish_with_key_tx("events", "k", number),
                        ]
                        if dice.random() < 0.2:
                            continue
                        await tx.commit()
                    say("made", *offsets)


asyncio.run(main(*sys.argv[1:]))
