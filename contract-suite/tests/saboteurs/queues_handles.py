"""Faults in what a handle's calls do while its claim is live."""

import asyncio

from attrs import evolve
from sabotage import Saboteur, arguments, constant, core, primitive, result, statement
from sqlalchemy import null

from alkstore_core import DatabaseError, JobState
from alkstore_core.spi import Claim
from alkstore_core.sql._dialect import NOW
from alkstore_core.sql.tables import jobs


async def _acked_into_dead(real, queue, claims):
    if len(claims) != 1 or queue.startswith("__alkstore_"):
        return await real.ack(queue, claims)
    return int(await real.bury(queue, claims[0], "done"))


async def _cumulative(real, queue, claims):
    acked = await real.ack(queue, claims)
    if acked:
        held = await real.list_jobs(queue, JobState.PROCESSING, 100, 0)
        lower = [Claim(job.id, job.attempts) for job in held if job.id < claims[0].id]
        for claim in lower:
            await real.ack(queue, [claim])
    return acked


async def _chased(real, queue, claims):
    """A late ack follows the job to whoever claims it in the same moment."""
    acked = await real.ack(queue, claims)
    if acked or len(claims) != 1:
        return acked
    before = await real.get_job(queue, claims[0].id)
    for _ in range(20):
        await asyncio.sleep(0)
    after = await real.get_job(queue, claims[0].id)
    if before is None or after is None or after.attempts == before.attempts:
        return 0
    return await real.ack(queue, [Claim(after.id, after.attempts)])


async def _never_shorter(real, queue, claims, seconds):
    now = await real.engine.now()
    job = await real.get_job(queue, claims[0].id)
    if job and job.claim_expires_at is not None and now <= job.claim_expires_at > now + seconds:
        return [job.id]
    return await real.extend(queue, claims, seconds)


def _five_beats(real, queue, claims, seconds):
    beats = real.notes[claims[0]] = real.notes.get(claims[0], 0) + 1
    return real.extend(queue, claims, seconds) if beats <= 5 else []


async def _error_kept(real, queue, claim, delay, error, **wake):
    if error is None:
        job = await real.get_job(queue, claim.id)
        error = job and job.last_error
    return await real.requeue(queue, claim, delay, error, **wake)


async def _one_more(real, self, err=None, delay=None):
    job = self.job
    if delay and not self.settled and 1 < job.attempts == job.max_attempts and delay < 2**60:
        session = self._runtime.session()
        moved = await session.requeue(job.queue, self.claim, delay, "given another chance")
        self.mark_settled()
        return moved
    return await real(self, err, delay)


async def _last_ones_die(real, queue, claims, *, unseen=False, **wake):
    released = 0
    for claim in claims:
        job = await real.get_job(queue, claim.id)
        if not unseen and job and job.attempts == claim.attempt == job.max_attempts:
            released += await real.bury(queue, claim, "released")
        else:
            released += await real.release(queue, [claim], unseen=unseen, **wake)
    return released


async def _spoiled(real, self, extend):
    try:
        return await real(self, extend)
    except DatabaseError:
        if type(extend) is int and extend == 0:
            self.mark_settled()
        raise


SABOTEURS = {
    "queues.ack.deletes": Saboteur(
        # A job that is done lies among the dead ones.
        primitive("ack", _acked_into_dead),
        also={
            "cancellation.ack": "what was acked is gone",
            "concurrency.conservation": "it counts the dead jobs",
            "concurrency.everything": "it counts the dead jobs",
            "queues.ids.emptied": "no queue is empty after an ack",
            "queues.ack_batch.strangers": "it counts the dead jobs",
        },
        stateful=True,
    ),
    "queues.ack.own": Saboteur(
        primitive("ack", _cumulative),
        also={
            "concurrency.clients": "its workers ack in no order",
            "concurrency.tasks": "its workers ack in no order",
            "queues.heartbeat_batch.fenced": "it acks one of several claims",
        },
        stateful=True,
    ),
    "queues.ack.race": Saboteur(primitive("ack", _chased)),
    "queues.heartbeat.extends": Saboteur(
        arguments("extend", lambda queue, claims, s: (queue, claims, 500 if s == 1000 else s)),
        also={"queues.heartbeat_batch.extends": "its heartbeats are of 1,000 s"},
    ),
    "queues.heartbeat.resets": Saboteur(
        primitive("extend", _never_shorter),
        also={
            "queues.heartbeat.only_deadline": "its heartbeat is shorter than the claim",
            "queues.heartbeat_batch.fenced": "its heartbeats are shorter than the claims",
            "time.at_least": "its heartbeat is shorter than the claim",
        },
        stateful=True,
    ),
    "queues.heartbeat.repeats": Saboteur(primitive("extend", _five_beats)),
    "queues.heartbeat.only_deadline": Saboteur(
        statement(
            "queues:EXTEND",
            lambda extend: extend.values(attempts=jobs.c.attempts, claimed_at=null()),
        ),
        stateful=True,
    ),
    "queues.retry.pending": Saboteur(
        # A new job in the old one's place.
        statement("queues:REQUEUE", lambda requeue: requeue.values(created_at=NOW)),
        stateful=True,
    ),
    "queues.retry.delay": Saboteur(
        arguments(
            "requeue",
            lambda queue, claim, delay, error: (
                queue,
                claim,
                delay - 1 if 10_000 < delay < 2**40 else delay,
                error,
            ),
        )
    ),
    "queues.retry.at_once": Saboteur(
        # Less than none taken for none given.
        core(
            "jobs:JobHandle.retry",
            lambda real, self, err=None, delay=None: real(
                self, err, None if type(delay) is int and -(2**63) <= delay < 0 else delay
            ),
        ),
        stateful=True,
    ),
    "queues.retry.error": Saboteur(primitive("requeue", _error_kept), stateful=True),
    "queues.retry.exhausted": Saboteur(core("jobs:JobHandle.retry", _one_more), stateful=True),
    "queues.retry.exhausted_text": Saboteur(
        constant("jobs:EXHAUSTED", "no attempts left"), stateful=True
    ),
    "queues.retry.expiry": Saboteur(
        statement("queues:REQUEUE", lambda requeue: requeue.values(expires_at=null())),
        also={
            "copy.jobs": "one of its jobs was retried",
            "queues.retry.pending": "a retried job keeps its expiry",
        },
        stateful=True,
    ),
    "queues.fail.dead": Saboteur(
        # Dead since it was claimed.
        result(
            "get_job",
            lambda job: (
                evolve(job, died_at=job.claimed_at)
                if job and job.died_at and job.claimed_at
                else job
            ),
        ),
        also={
            "queues.claim.exhausted": "it died later than it was claimed",
            "queues.dead.kept": "it died later than it was claimed",
            "queues.sweep.states": "they died later than they were claimed",
        },
        stateful=True,
    ),
    "queues.fail.text": Saboteur(constant("jobs:FAILED", "error"), stateful=True),
    "queues.release.restores": Saboteur(
        statement("queues:RELEASE", lambda release: release.values(last_error=null())),
        stateful=True,
    ),
    "queues.release.unlimited": Saboteur(
        primitive("release", _last_ones_die),
        also={"queues.release_batch.restores": "its jobs have one attempt"},
        stateful=True,
    ),
    "queues.handle.raised": Saboteur(
        core("jobs:JobHandle.heartbeat", _spoiled),
        also={"numbers.durations": "it acks after a refused heartbeat"},
    ),
    "queues.handle.snapshot": Saboteur(
        core(
            "jobs:JobHandle.job",
            lambda real, self: (
                evolve(real(self), state=JobState.DEAD) if self.settled else real(self)
            ),
        )
    ),
}
