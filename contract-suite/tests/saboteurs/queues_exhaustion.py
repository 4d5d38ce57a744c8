"""Faults in claims that hand nothing out: exhausted jobs, expired jobs, callers gone."""

from attrs import evolve
from rowops import run
from sabotage import Saboteur, arguments, constant, core, primitive

from alkstore_core import JobState
from alkstore_core.spi import Claim
from alkstore_core.sql.dead_letters import bury_ids


async def _burying_is_enough(real, queue, worker, limit):
    before = (await real.stats(queue)).dead
    found = await real.claim(queue, worker, limit)
    if (await real.stats(queue)).dead == before:
        return found
    await real.release(queue, [Claim(job.id, job.attempts) for job in found], unseen=True)
    return []


async def _last_second_is_over(real, queue, worker, limit):
    now = await real.engine.now()
    for job in await real.list_jobs(queue, JobState.PROCESSING, 1000, 0):
        if job.attempts == job.max_attempts and job.claim_expires_at == now:
            await run(real.engine, bury_ids, [job.id], "max attempts exceeded")
    return await real.claim(queue, worker, limit)


async def _exhausted_though_expired(real, queue, worker, limit):
    now = await real.engine.now()
    spent = [
        job.id
        for job in await real.list_jobs(queue, JobState.PROCESSING, 1000, 0)
        if job.claim_expires_at < now and job.attempts >= job.max_attempts
    ]
    await run(real.engine, bury_ids, spent, "max attempts exceeded")
    return await real.claim(queue, worker, limit)


async def _expired_is_over(real, queue, held, seconds):
    now = await real.engine.now()
    jobs = [await real.get_job(queue, claim.id) for claim in held]
    if any(job and job.expires_at is not None and job.expires_at <= now for job in jobs):
        return []
    return await real.extend(queue, held, seconds)


def _stranded(several):
    """What a cancelled claim got is not given back."""

    def release(real, queue, held, *, unseen=False, **wake):
        if unseen and (len(held) > 1) is several:
            return 0
        return real.release(queue, held, unseen=unseen, **wake)

    return primitive("release", release)


def _not_begun(real, self, coroutine, *args, **kwargs):
    if coroutine.__name__ == "_give_back":
        coroutine.close()
        return None
    return real(self, coroutine, *args, **kwargs)


SABOTEURS = {
    "queues.claim.exhausted": Saboteur(
        constant("sql.claims:EXHAUSTED", "no attempts left"),
        also={"queues.dead.kept": "one of its deaths is by exhaustion"},
        stateful=True,
    ),
    "queues.claim.exhausted_passed": Saboteur(
        primitive("claim", _burying_is_enough), stateful=True
    ),
    "queues.claim.last_attempt": Saboteur(primitive("claim", _last_second_is_over), stateful=True),
    "queues.claim.expired": Saboteur(
        # A delay of minutes takes the expiry away.
        arguments(
            "insert_jobs",
            lambda queue, data, spec: (
                queue,
                data,
                evolve(spec, expires=None) if 100 <= (spec.delay or 0) < 2**40 else spec,
            ),
        ),
        also={
            "queues.sweep.states": "one of its jobs is delayed",
            "queues.stats.disjoint": "one of its expired jobs is delayed",
        },
        stateful=True,
    ),
    "queues.claim.expired_stays": Saboteur(
        primitive("claim", _exhausted_though_expired),
        stateful=True,
    ),
    "queues.claim.expires_claimed": Saboteur(primitive("extend", _expired_is_over)),
    "queues.claim.cancelled": Saboteur(
        _stranded(several=False),
        also={"queues.claim.cancelled_at_answer": "it cancels claims of one job too"},
    ),
    "queues.claim.cancelled_batch": Saboteur(
        _stranded(several=True),
        also={
            "lifecycle.close.give_backs": "closing waits for what is on its way back",
        },
    ),
    "queues.claim.cancelled_at_answer": Saboteur(
        core("runtime:Runtime.spawn", _not_begun),
        also={
            "queues.claim.cancelled": "some of its cancellations come as late",
            "queues.claim.cancelled_batch": "some of its cancellations come as late",
            "lifecycle.close.give_backs": "closing waits for what is on its way back",
        },
    ),
}
