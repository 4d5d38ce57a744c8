"""A business row and its job in one transaction: both are there, or neither is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from alkstore_core import EnqueueOpts
from tables import JOBS, SourceFile, Task

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from alkstore_sqlite import SqliteStore

CHUNK = 100
GHOST = "ghost/rolled_back.py"
# On a crowded machine a claim may lapse more than once before its file is done.
OPTS = EnqueueOpts(max_attempts=20)


async def enqueue_all(store: SqliteStore, engine: AsyncEngine, sources: dict[str, int]) -> None:
    """Enqueue every file, by turns in the two ways there are."""
    await enqueue_and_fail(store)
    paths = list(sources)
    for start in range(0, len(paths), 2 * CHUNK):
        ours, theirs = paths[start : start + CHUNK], paths[start + CHUNK : start + 2 * CHUNK]
        await enqueue_in_our_transaction(store, {path: sources[path] for path in ours})
        if theirs:
            await enqueue_in_a_session(store, engine, {path: sources[path] for path in theirs})


async def enqueue_in_our_transaction(store: SqliteStore, sources: dict[str, int]) -> None:
    """The store begins the transaction, the application's rows ride along."""
    async with store.transaction() as tx:
        ids = await tx.enqueue_many_tx(JOBS, [Task(path) for path in sources], OPTS)
        rows = [
            {"path": path, "size": size, "job_id": job_id}
            for (path, size), job_id in zip(sources.items(), ids, strict=True)
        ]
        await tx.connection.execute(insert(SourceFile), rows)


async def enqueue_in_a_session(
    store: SqliteStore, engine: AsyncEngine, sources: dict[str, int]
) -> None:
    """The application begins the transaction, as it always did; the jobs ride along."""
    async with AsyncSession(engine) as session, session.begin():
        ids = await store.join(session).enqueue_many_tx(JOBS, [Task(p) for p in sources], OPTS)
        session.add_all(
            SourceFile(path=path, size=size, job_id=job_id)
            for (path, size), job_id in zip(sources.items(), ids, strict=True)
        )


async def enqueue_and_fail(store: SqliteStore) -> None:
    """A transaction that fails leaves no row, and no job that a worker could stumble over."""
    with suppress(ChangedMyMindError):
        async with store.transaction() as tx:
            job_id = await tx.enqueue_tx(JOBS, Task(GHOST), OPTS)
            row = {"path": GHOST, "size": 0, "job_id": job_id}
            await tx.connection.execute(insert(SourceFile), row)
            raise ChangedMyMindError


class ChangedMyMindError(Exception):
    """What any application code might raise before its transaction is over."""
