"""The projector process: turns the stream of results into totals, each event exactly once."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from dataclasses import asdict

from sqlalchemy.dialects.sqlite import insert

import child
from alkstore_core import StopToken
from alkstore_sqlite import SqliteStore
from counting import Counts, sum_counts
from tables import COUNTED, FINISH, PROJECTOR, SETTLED, Counted, Total

BATCH = 100
LAG_S = 0.05  # a projection that may lag so much needs a twentieth of the transactions


async def project(store: SqliteStore, stop: StopToken) -> None:
    """Follow the stream until `stop`."""
    stream = store.stream(COUNTED)
    done = await stream.get_offset(PROJECTOR)
    async with stream.subscribe(PROJECTOR, stop) as events:
        child.say("ready")
        async for event in events:
            # A batch is ahead of the events we are called with.
            if event.offset > done:
                await asyncio.sleep(LAG_S)
                done = await project_batch(store)


async def project_batch(store: SqliteStore) -> int:
    """Move totals and offset forward together; return the offset.

    Whatever instant the process dies at, the totals include exactly the events up to the saved
    offset, and that is where its successor goes on.
    """
    async with store.transaction() as tx:
        events = await tx.read_from_consumer_tx(COUNTED, PROJECTOR, BATCH)
        if not events:
            return await tx.get_offset_tx(COUNTED, PROJECTOR)
        packages: dict[str, list[Counts]] = defaultdict(list)
        for event in events:
            counted = event.payload_as(Counted)
            packages[counted.package].append(counted.counts)
        for package, counts in packages.items():
            row = {"files": len(counts), **asdict(sum_counts(counts))}
            added = {name: Total.__table__.c[name] + value for name, value in row.items()}
            await tx.connection.execute(
                insert(Total)
                .values(package=package, **row)
                .on_conflict_do_update(index_elements=[Total.package], set_=added)
            )
        offset = events[-1].offset
        await tx.save_offset_tx(COUNTED, PROJECTOR, offset)
        await tx.notify_tx(SETTLED, None)
    return offset


async def main(database: str) -> None:
    """Project until the census is complete."""
    stop = StopToken()
    async with (
        SqliteStore(database) as store,
        store.listen(FINISH) as finish,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(project(store, stop))
        await finish.recv()
        stop.stop()


if __name__ == "__main__":
    child.run(main(*sys.argv[1:]))
