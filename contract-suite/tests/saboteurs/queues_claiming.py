"""Faults in who gets which job, and in what a claim leaves on it."""

import asyncio

from attrs import evolve
from sabotage import (
    Saboteur,
    arguments,
    claimed,
    constant,
    core,
    primitive,
    result,
    spec,
    statement,
)
from sqlalchemy import case, literal_column

from alkstore_core import JobState
from alkstore_core.spi import Claim
from alkstore_core.sql._dialect import NOW
from alkstore_core.sql.tables import jobs

GREATEST = literal_column(str(2**63 - 1))
MINUS_ONE = literal_column("-1")


def ordered(*order):
    """Claim in another order."""
    return statement("claims:BEST", lambda best: best.order_by(None).order_by(*order))


async def _processing(real, queue):
    return await real.list_jobs(queue, JobState.PROCESSING, 1000, 0)


def _share(real, queue, worker, limit, of):
    """Whoever claims while a claim is on its way gets the same jobs."""

    async def claim():
        running = real.notes.get(queue)
        if limit == of and running is not None:
            return await running
        answer = asyncio.get_running_loop().create_future()
        if limit == of:
            real.notes[queue] = answer
        try:
            await asyncio.sleep(0)
            answer.set_result(await real.claim(queue, worker, limit))
        finally:
            real.notes.pop(queue, None)
        return answer.result()

    return claim()


async def _own_reclaimed(real, queue, worker, limit):
    now = await real.engine.now()
    for job in await _processing(real, queue):
        if job.worker_id == worker and job.claim_expires_at == now:
            await real.release(queue, [Claim(job.id, job.attempts)], unseen=True)
    return await real.claim(queue, worker, limit)


async def _short_sighted(real, queue, worker, limit):
    stats = await real.stats(queue)
    return [] if stats.delayed > 100 else await real.claim(queue, worker, limit)


async def _burying_is_enough(real, queue, worker, limit):
    before = (await real.stats(queue)).dead
    found = await real.claim(queue, worker, limit)
    if (await real.stats(queue)).dead == before:
        return found
    await real.release(queue, [Claim(job.id, job.attempts) for job in found], unseen=True)
    return []


async def _none_for_five(real, self, worker, n):
    found = await real(self, worker, n)
    return None if not found and n == 5 else found


SABOTEURS = {
    "queues.claim.priority": Saboteur(
        # The greatest priority wraps when it is compared.
        ordered(
            case((jobs.c.priority == GREATEST, MINUS_ONE), else_=jobs.c.priority).desc(),
            jobs.c.run_at,
            jobs.c.id,
        ),
        stateful=True,
    ),
    "queues.claim.ready_time": Saboteur(
        ordered(jobs.c.priority.desc(), jobs.c.id),
        also={
            "queues.claim.order_due": "the order of ready times is gone",
            "queues.claim.order_retried": "the order of ready times is gone",
            "queues.claim.batch_order": "the order of ready times is gone",
        },
        stateful=True,
    ),
    "queues.claim.fifo": Saboteur(
        # Ids are looked at in their last bits only.
        ordered(jobs.c.priority.desc(), jobs.c.run_at, jobs.c.id.op("%")(literal_column("8"))),
        also={
            "queues.enqueue_many.order": "fifty jobs in order of their ids",
            "payloads.claimed": "twenty jobs in order of their ids",
        },
        stateful=True,
    ),
    "queues.claim.order_due": Saboteur(
        statement("claims:PROMOTE", lambda promote: promote.values(run_at=NOW)), stateful=True
    ),
    "queues.claim.order_lapsed": Saboteur(
        # To the back of the queue.
        statement("claims:TURN_BACK", lambda turn_back: turn_back.values(run_at=NOW)),
        also={
            "queues.claim.lapsed": "a reclaimed job keeps its ready time",
            "queues.heartbeat_batch.fenced": "it reclaims the first of several",
        },
        stateful=True,
    ),
    "queues.claim.order_retried": Saboteur(
        statement(
            "queues:REQUEUE",
            lambda requeue: requeue.values(priority=jobs.c.priority - literal_column("1")),
        ),
        also={
            "queues.retry.pending": "a retried job keeps its priority",
            "queues.release.restores": "a job that was retried before keeps its place",
        },
        stateful=True,
    ),
    "queues.claim.batch_order": Saboteur(
        result("claim", lambda found: sorted(found, key=lambda job: job.id)), stateful=True
    ),
    "queues.claim.batch_size": Saboteur(
        arguments(
            "claim",
            lambda queue, worker, n: (queue, worker, 4 if n == 7 else n),
        ),
        also={"queues.claim.exclusive_batch": "batches of seven have to empty the queue"},
    ),
    "queues.claim.due": Saboteur(
        spec(delay=lambda delay: 9 if delay == 10 else delay),
        stateful=True,
    ),
    "queues.claim.stamps": Saboteur(
        claimed(claimed_at=lambda job: job.created_at),
        also={"queues.claim.lapsed": "a reclaim is later than the enqueue"},
        stateful=True,
    ),
    "queues.claim.batch_stamps": Saboteur(
        # The deadline of the first for all.
        result(
            "claim",
            lambda found: [
                evolve(job, claim_expires_at=found[0].claim_expires_at) for job in found
            ],
        ),
        stateful=True,
    ),
    "queues.claim.exclusive": Saboteur(
        primitive("claim", lambda real, queue, worker, n: _share(real, queue, worker, n, 1)),
        also={
            "outbox.run.exclusive": "messages are claimed one by one too",
        },
    ),
    "queues.claim.exclusive_batch": Saboteur(
        primitive("claim", lambda real, queue, worker, n: _share(real, queue, worker, n, 7))
    ),
    "queues.claim.live": Saboteur(
        # In the last second of a claim its own worker gets the job again.
        primitive("claim", _own_reclaimed),
        also={"time.clients": "it claims again in the last second"},
        stateful=True,
    ),
    "queues.claim.lapsed": Saboteur(
        statement(
            "claims:TURN_BACK",
            lambda turn_back: turn_back.values(last_error=literal_column("'lapsed'")),
        ),
        stateful=True,
    ),
    "queues.claim.backlog": Saboteur(primitive("claim", _short_sighted)),
    "queues.claim.limit": Saboteur(constant("queues:MAX_CLAIM", 200_000)),
    "queues.claim.nothing": Saboteur(
        # An empty answer that is none.
        core("queues:JobSource.claim_batch", _none_for_five),
        also={"errors.values": "it asks for five of an empty queue as well"},
    ),
}
