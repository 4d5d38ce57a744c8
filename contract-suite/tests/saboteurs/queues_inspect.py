"""Faults in what is told of a queue, and in taking jobs away."""

from attrs import evolve
from sabotage import Saboteur, arguments, primitive, result, statement
from sqlalchemy import delete, select, union_all

from alkstore_core import JobState
from alkstore_core.sql._jobs import argument, job_columns
from alkstore_core.sql.tables import dead_jobs, jobs


def listed(name, change):
    """Lists go on from another id."""
    return arguments(name, lambda *args: (*args[:-1], change(args[-1])))


async def _delayed_stay(real, queue, job_id):
    job = await real.get_job(queue, job_id)
    now = await real.engine.now()
    if job is not None and job.state is JobState.PENDING and job.run_at > now:
        return False
    return await real.delete_job(queue, job_id)


async def _worn(real, queue, job_id):
    """The second look at a job shows other bytes."""
    job = await real.get_job(queue, job_id)
    looks = real.notes[job_id] = real.notes.get(job_id, 0) + 1
    if job and job.payload == b"null" and not job.attempts and looks == 2:
        return evolve(job, payload=b"null ")
    return job


async def _claimed_expire(real, queue):
    stats = await real.stats(queue)
    now = await real.engine.now()
    held = await real.list_jobs(queue, JobState.PROCESSING, 1000, 0)
    gone = sum(
        job.expires_at is not None and job.expires_at <= now <= job.claim_expires_at for job in held
    )
    return evolve(stats, processing=stats.processing - gone, expired=stats.expired + gone)


async def _due_only(real, queue, state, limit, after):
    found = await real.list_jobs(queue, state, limit, after)
    now = await real.engine.now()
    return [job for job in found if state is not JobState.PENDING or job.run_at <= now]


async def _timer_sweeps(real, queues):
    for queue in queues:
        await real.sweep(queue, 100)
    return await real.next_due(queues)


SABOTEURS = {
    "queues.get.states": Saboteur(
        # Just dead is not yet dead.
        result(
            "get_job",
            lambda job: (
                evolve(job, state=JobState.PROCESSING)
                if job and job.last_error == "broken" and job.payload == b"1"
                else job
            ),
        ),
        also={
            "transactions.own.dead": "it looks at such a job",
            "queues.jobs.states": "it compares a list with single reads",
            "queues.cancel.own": "it looks at such a job",
        },
    ),
    "queues.get.own": Saboteur(
        statement(
            "queues:GET_JOB",
            lambda _: union_all(
                select(*job_columns).where(jobs.c.id == argument("id")),
                select(*(dead_jobs.c[column.name] for column in jobs.c), dead_jobs.c.died_at).where(
                    dead_jobs.c.id == argument("id"), dead_jobs.c.queue == argument("queue")
                ),
            ),
        ),
        also={
            "transactions.own.job": "it asks another queue as well",
        },
        stateful=True,
    ),
    "queues.get.tx": Saboteur(
        result("get_job", lambda job: job and evolve(job, headers=None), where="tx"), stateful=True
    ),
    "queues.get.values": Saboteur(
        primitive("get_job", _worn),
        also={
            "queues.jobs.states": "it compares a list with single reads",
            "queues.release.settles": "it reads its job twice",
        },
    ),
    "queues.cancel.live": Saboteur(primitive("delete_job", _delayed_stay), stateful=True),
    "queues.cancel.own": Saboteur(
        statement("queues:DELETE_JOB", lambda _: delete(jobs).where(jobs.c.id == argument("id"))),
        stateful=True,
    ),
    "queues.stats.disjoint": Saboteur(
        result("stats", lambda stats: evolve(stats, delayed=stats.delayed + stats.expired)),
        stateful=True,
    ),
    "queues.stats.empty": Saboteur(
        result(
            "stats",
            lambda stats: (
                stats
                if stats.ready + stats.delayed + stats.processing + stats.lapsed + stats.dead
                else evolve(stats, oldest_ready_age_s=0)
            ),
        ),
        stateful=True,
    ),
    "queues.stats.age": Saboteur(
        result(
            "stats",
            lambda stats: (
                evolve(stats, oldest_ready_age_s=stats.oldest_ready_age_s // 60 * 60)
                if stats.oldest_ready_age_s and stats.oldest_ready_age_s < 50
                else stats
            ),
        ),
        stateful=True,
    ),
    "queues.stats.live_claim": Saboteur(
        primitive("stats", _claimed_expire),
        also={"queues.stats.disjoint": "jobs under live claims are past their expiry"},
        stateful=True,
    ),
    "queues.jobs.states": Saboteur(primitive("list_jobs", _due_only), stateful=True),
    "queues.jobs.pages": Saboteur(
        listed("list_jobs", lambda after: after + 1 if 0 < after < 2**60 else after)
    ),
    "queues.dead_jobs.pages": Saboteur(
        listed("list_dead", lambda after: after + 1 if 0 < after < 2**60 else after)
    ),
    "queues.nothing_alone": Saboteur(primitive("next_due", _timer_sweeps)),
}
