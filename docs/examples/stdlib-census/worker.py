"""A worker process: claims files, counts them, and writes result and event in one transaction."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

import child
from alkstore_core import StopToken
from alkstore_sqlite import SqliteStore
from counting import Counts, count_file, package_of
from tables import (
    COUNTED,
    FINISH,
    JOBS,
    REPORT,
    SETTLED,
    Counted,
    FinalReport,
    Redelivery,
    Report,
    Result,
    Task,
)

if TYPE_CHECKING:
    from alkstore_core import Job, JobHandle

BATCH = 8  # jobs in a claim
GROUP = 4  # results in a transaction: a commit waits for the disk, and four can wait together
LEASE_S = 3
REPORT_LEASE_S = 300
INSERT_NEW = upsert(Result).on_conflict_do_nothing()


async def work(store: SqliteStore, root: Path, me: str, stop: StopToken) -> None:
    """Claim and count until `stop`, asleep while there is nothing to claim."""
    queue = store.queue(JOBS)
    async with queue.wakes(stop) as wakes:
        child.say("ready")
        while True:
            handles = await queue.claim_batch(me, BATCH)
            if not handles:
                await store.notify(SETTLED, None)
                if await wakes.recv() is None:
                    return
                continue
            # A job claims its queue's visibility timeout, 300 s. Ours take milliseconds: with
            # a shorter lease the jobs of a worker that dies are soon handed out again.
            await asyncio.gather(*(handle.heartbeat(LEASE_S) for handle in handles))
            for start in range(0, len(handles), GROUP):
                await count(store, root, me, handles[start : start + GROUP])
            await queue.ack_batch(handles, me)


async def count(store: SqliteStore, root: Path, me: str, handles: list[JobHandle]) -> None:
    """Count some files. A file that is delivered twice is written and announced once."""
    counted: list[tuple[Job, str, Counts]] = []
    for handle in handles:
        path = handle.job.payload_as(Task).path
        try:
            counted.append((handle.job, path, await asyncio.to_thread(count_file, root, path)))
        except OSError as error:
            await handle.fail(str(error))
    async with store.transaction() as tx:
        for job, path, counts in counted:
            result = {"path": path, "job_id": job.id, "worker": me, **asdict(counts)}
            new = (await tx.connection.execute(INSERT_NEW, result)).rowcount
            if new:
                await tx.publish_with_key_tx(COUNTED, path, Counted(package_of(path), counts))
            if job.attempts > 1:
                again = {"job_id": job.id, "worker": me, "already_done": not new}
                await tx.connection.execute(insert(Redelivery), again)


async def report_once(store: SqliteStore, me: str) -> None:
    """Every worker tries, the one that gets the lock writes the final report."""
    lock = await store.try_lock(REPORT, me, REPORT_LEASE_S)
    if lock is None:
        return
    async with store.transaction() as tx:
        sums = select(
            func.count(),
            func.sum(Result.lines),
            func.sum(Result.functions),
            func.sum(Result.classes),
            func.sum(Result.imports),
            func.sum(Result.unparsable),
        )
        files, *counted = (await tx.connection.execute(sums)).one()
        report = FinalReport(me, lock.token, files, Counts(*counted))
        row = {"worker": me, "lock_token": lock.token, "files": files}
        await tx.connection.execute(insert(Report), row)
        # The message leaves if, and only if, the row is there.
        await tx.outbox_enqueue_tx(REPORT, report)
    # Not released: the lease outlives the census, so that latecomers find it taken.


async def main(database: str, root: str, me: str) -> None:
    """Work until the census is complete, then see to the report."""
    stop = StopToken()
    async with SqliteStore(database) as store, store.listen(FINISH) as finish:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work(store, Path(root), me, stop))
            await finish.recv()
            stop.stop()
        await report_once(store, me)


if __name__ == "__main__":
    child.run(main(*sys.argv[1:]))
