"""Steps that many properties take on their way to what they are about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import UnmetError, expect, expect_equal

if TYPE_CHECKING:
    from alkstore_core import Job, JobHandle, JobSource, Lock, Store

QUEUE = "work"
WORKER = "worker"
LAPSE = 301
"""Seconds after which a claim with the default visibility timeout of 300 s has lapsed."""

JOB_FIELDS = (
    "id",
    "queue",
    "payload",
    "headers",
    "state",
    "priority",
    "run_at",
    "created_at",
    "expires_at",
    "attempts",
    "max_attempts",
    "visibility_timeout_s",
    "backoff_base_s",
    "dead_letter_retention_s",
    "worker_id",
    "claimed_at",
    "claim_expires_at",
    "last_error",
    "died_at",
)


def fields_of(job: Job | None) -> dict[str, Any]:
    """Every field of a job by name, for comparing and for telling where two differ."""
    return {field: getattr(job, field) for field in JOB_FIELDS}


def expect_job(job: Job | None, expected: dict[str, Any], what: str) -> None:
    """The fields named in `expected` have these values and types; the first that differs is told.

    Raises:
        UnmetError: one has not, or there is no job.

    """
    expect(job, f"{what}: there is no such job")
    for field, value in expected.items():
        expect_equal(getattr(job, field), value, f"{what}: {field}")


async def claim(queue: JobSource, worker: str = WORKER) -> JobHandle:
    """Claim a job that has to be there.

    Raises:
        UnmetError: nothing was claimable.

    """
    handle = await queue.claim_one(worker)
    if handle is None:
        raise UnmetError(f"a job of the queue {queue.name!r} should be claimable, none was")
    return handle


async def job_of(queue: JobSource, job_id: int) -> Job:
    """Read a job that has to be there.

    Raises:
        UnmetError: there is none of that id.

    """
    job = await queue.get_job(job_id)
    if job is None:
        raise UnmetError(f"get_job({job_id}) of the queue {queue.name!r} found nothing")
    return job


async def lock(store: Store, name: str, owner: str, ttl: int = 60) -> Lock:
    """Take a lock that has to be free.

    Raises:
        UnmetError: it was held.

    """
    taken = await store.try_lock(name, owner, ttl)
    if taken is None:
        raise UnmetError(f"the lock {name!r} should be free for {owner!r}, it was held")
    return taken


async def expect_silent(store: Store, waiting: asyncio.Task[Any], what: str) -> None:
    """Nothing committed so far woke `waiting`: a later wake passes it, and it still waits."""
    async with store.listen("marker") as marker:
        await store.notify("marker", None)
        await marker.recv()
    for _ in range(5):
        await asyncio.sleep(0)
    expect(not waiting.done(), what)
