"""Claims that strand no job, whenever their caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from alkstore_core.runtime import quietly
from alkstore_core.spi import Claim

if TYPE_CHECKING:
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session, Topic
    from alkstore_core.values import Job

_log = logging.getLogger(__name__)


async def claim(
    runtime: Runtime, session: Session, queue: Topic, worker: str, limit: int
) -> list[Job]:
    """Claim; what the caller does not get to see is given back.

    The engine may have claimed when the cancellation arrives, even before the caller resumes.
    So the claim runs in a task of its own, which finds out whether anybody still wants its
    answer. (A future, not `asyncio.shield`: that takes a turn of the loop more.)
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Job]] = loop.create_future()
    claiming = loop.create_task(_claim(runtime, session, queue, worker, limit, answer))
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.cancelled():
            runtime.adopt(claiming)
        elif answer.exception() is None:
            runtime.spawn(_give_back(runtime, queue, answer.result()))
        raise
    finally:
        # It holds the error whose traceback holds this frame and the callers' frames.
        del answer


async def _claim(
    runtime: Runtime,
    session: Session,
    queue: Topic,
    worker: str,
    limit: int,
    answer: asyncio.Future[list[Job]],
) -> None:
    try:
        jobs = await session.claim(queue.name, worker, limit)
    except Exception as error:  # noqa: BLE001 - it is the caller's, who waits for the answer.
        if not answer.cancelled():
            answer.set_exception(error)
        else:
            _log.warning("a claim failed after it was cancelled: %s", error)
    except BaseException:
        answer.cancel()
        raise
    else:
        if not answer.cancelled():
            answer.set_result(jobs)
        else:
            await _give_back(runtime, queue, jobs)


async def _give_back(runtime: Runtime, queue: Topic, jobs: list[Job]) -> None:
    if jobs:
        claims = [Claim(job.id, job.attempts) for job in jobs]
        await quietly(_release(runtime, queue, claims))


async def _release(runtime: Runtime, queue: Topic, claims: list[Claim]) -> None:
    # Not through `turn` and `session`: a store that is closing waits for just this.
    if runtime.slot.taken:
        await runtime.slot.turn("giving a job back", "wait", urgent=True)
    await runtime.engine.auto.release(queue.name, claims, unseen=True, wake=(queue,))
