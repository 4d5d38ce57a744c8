"""Faults in the sweep."""

from attrs import evolve
from rowops import run, write
from sabotage import Saboteur, arguments, primitive, result, statement

from alkstore_core import JobState
from alkstore_core.sql import dead_letters
from alkstore_core.sql._jobs import expired, job_ids, of_queue, up_to
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, jobs


def sweeping(*states):
    """The sweep knows these states only."""
    return statement(
        "dead_letters:PAST_EXPIRY",
        lambda _: up_to("limit", job_ids(of_queue, jobs.c.state.in_(states), expired)),
    )


def purging(condition):
    """The sweep deletes these dead jobs as well."""

    async def purge(real, queue, limit):
        await write(
            real.engine, f"DELETE FROM __alkstore_dead_jobs WHERE queue = '{queue}' AND {condition}"
        )
        return await real.purge_retired(queue, limit)

    return primitive("purge_retired", purge)


async def _exhausted_too(real, queue, limit):
    now = await real.engine.now()
    spent = [
        job.id
        for job in await real.list_jobs(queue, JobState.PROCESSING, 100, 0)
        if job.claim_expires_at < now and job.attempts >= job.max_attempts and not job.expires_at
    ]
    await run(real.engine, dead_letters.bury_ids, spent, "max attempts exceeded")
    return await real.sweep(queue, limit)


async def _dies_anew(real, queue, limit):
    await write(
        real.engine,
        "UPDATE __alkstore_dead_jobs SET died_at = :now WHERE last_error = 'expired'",
    )
    return await real.sweep(queue, limit)


async def _retired_everywhere(real, queue, limit):
    for name in await real.names("queue"):
        if name != queue:
            await real.purge_retired(name, limit)
    return await real.purge_retired(queue, limit)


SABOTEURS = {
    "queues.sweep.states": Saboteur(sweeping(EXPIRED, PROCESSING, READY), stateful=True),
    "queues.sweep.passed_over": Saboteur(
        sweeping(DELAYED, PROCESSING, READY),
        also={
            "outbox.backing.sweep": "a claim has set its message aside",
            "queues.claim.expired_stays": "a claim has set its jobs aside",
            "queues.retry.expiry": "a claim has set its job aside",
            "numbers.past_expiry": "a claim has set its job aside",
        },
        stateful=True,
    ),
    "queues.sweep.in_time": Saboteur(
        # A second too early.
        arguments(
            "insert_jobs",
            lambda queue, data, spec: (
                queue,
                data,
                evolve(spec, expires=spec.expires - 1)
                if spec.expires in {8, 10} and len(data) == 1
                else spec,
            ),
        ),
        stateful=True,
    ),
    "queues.sweep.others": Saboteur(primitive("sweep", _exhausted_too), stateful=True),
    "queues.sweep.twice": Saboteur(primitive("sweep", _dies_anew), stateful=True),
    "queues.sweep.large": Saboteur(
        result("sweep", lambda moved: moved - 1 if moved == 1000 else moved),
        also={"queues.purge.large": "it sweeps as many first"},
    ),
    "queues.retention.over": Saboteur(
        purging("retained_until <= :now"),
        also={"queues.retention.just_dead": "the retention is over in the second of the death"},
        stateful=True,
    ),
    "queues.retention.own": Saboteur(
        # Nothing is kept for more than a decade.
        purging("died_at < :now - 315360000 AND dead_letter_retention_s IS NULL")
    ),
    "queues.retention.just_dead": Saboteur(
        purging("dead_letter_retention_s = 0 AND died_at <= :now"), stateful=True
    ),
    "queues.retention.only_sweep": Saboteur(
        primitive("purge_retired", _retired_everywhere), stateful=True
    ),
}
