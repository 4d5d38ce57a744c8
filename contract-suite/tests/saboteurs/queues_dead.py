"""Faults in what becomes of dead jobs."""

import asyncio

from attrs import evolve
from rowops import run, write
from sabotage import Saboteur, arguments, primitive, result, statement
from sqlalchemy import false, insert, select

from alkstore_core import JobState
from alkstore_core.sql import dead_letters
from alkstore_core.sql._jobs import argument, one_claim
from alkstore_core.sql.tables import dead_jobs, jobs


def redriven(without="", condition=dead_letters.one_dead):
    """Redrive without a column, or other jobs."""
    fresh = {name: value for name, value in dead_letters._fresh.items() if name != without}
    return statement(
        "dead_letters:REDRIVE",
        lambda _: (
            insert(jobs)
            .from_select(list(fresh), select(*fresh.values()).where(condition))
            .returning(jobs.c.id)
        ),
    )


async def _killed_again(real, queue, limit):
    await write(
        real.engine,
        "UPDATE __alkstore_dead_jobs SET last_error = 'expired' WHERE expires_at <= :now",
    )
    return await real.sweep(queue, limit)


def _copy(row):
    return (yield dead_letters.BURY, row).count


def _drop(row):
    yield dead_letters.DROP_BURIED, row


async def _in_two_steps(real, queue, claim, error):
    row = one_claim(queue, claim)
    if not await run(real.engine, _copy, {**row, "last_error": error}):
        return False
    for _ in range(10):
        await asyncio.sleep(0)
    await run(real.engine, _drop, row)
    return True


async def _early_end(real, queue, before, limit):
    purged = await real.purge_dead(queue, before, limit)
    return purged - 1 if purged == limit else purged


SABOTEURS = {
    "queues.dead.kept": Saboteur(
        # Lists of dead jobs leave the headers out.
        result("list_dead", lambda found: [evolve(job, headers=None) for job in found]),
        stateful=True,
    ),
    "queues.dead.claim_told": Saboteur(
        result(
            "get_job",
            lambda job: evolve(job, worker_id=None) if job and job.state is JobState.DEAD else job,
        ),
        also={"queues.jobs.states": "it compares a list with single reads"},
        stateful=True,
    ),
    "queues.dead.out": Saboteur(primitive("sweep", _killed_again), stateful=True),
    "queues.dead.atomic": Saboteur(primitive("bury", _in_two_steps)),
    "queues.redrive.fresh": Saboteur(redriven(without="dead_letter_retention_s"), stateful=True),
    "queues.redrive.only_dead": Saboteur(
        redriven(condition=dead_jobs.c.id == argument("id")), stateful=True
    ),
    "queues.redrive.once": Saboteur(
        statement("dead_letters:DROP_DEAD", lambda drop: drop.where(false())),
        also={"queues.redrive.fresh": "the dead job is still there"},
        stateful=True,
    ),
    "queues.purge.all": Saboteur(
        arguments(
            "purge_dead",
            lambda queue, before, limit: (queue, before, 2 if before is None else limit),
        ),
        also={"queues.purge.large": "two of many are not all"},
        stateful=True,
    ),
    "queues.purge.before": Saboteur(
        # What died in that very second goes too.
        arguments(
            "purge_dead",
            lambda queue, before, limit: (
                queue,
                before + 1 if before is not None and before < 2**60 else before,
                limit,
            ),
        ),
        stateful=True,
    ),
    "queues.purge.large": Saboteur(primitive("purge_dead", _early_end)),
}
