"""Faults in which clock stamps and judges, and when it is read."""

import time

from attrs import evolve
from sabotage import Saboteur, arguments, core, primitive, result

from alkstore_core import JobState
from alkstore_core.spi import Claim

START = 1_700_000_000


async def _since_the_first(real, queue, payloads, spec, **wake):
    """The time of a transaction's first enqueue is that of all others."""
    now = await real.engine.now()
    first = real.notes.setdefault(id(real._target), now)
    if spec.run_at is None and spec.delay is None:
        spec = evolve(spec, run_at=first)
    return await real.insert_jobs(queue, payloads, spec, **wake)


async def _read_and_kept(real, queue, job_id):
    job = await real.get_job(queue, job_id)
    if job is not None:
        await real.extend(queue, [Claim(job.id, job.attempts)], 1000)
    return job


async def _own_lapses_only(real, queue, worker, limit):
    """Another client's claims lapse for that client alone."""
    held = {job.id for job in await real.list_jobs(queue, JobState.PROCESSING, 1000, 0)}
    jobs = await real.claim(queue, worker, limit)
    foreign = [
        job
        for job in jobs
        if job.id in held and real.notes.get(job.id, real.engine) is not real.engine
    ]
    await real.release(queue, [Claim(job.id, job.attempts) for job in foreign], unseen=True)
    kept = [job for job in jobs if job not in foreign]
    for job in kept:
        real.notes[job.id] = real.engine
    return kept


async def _of_this_machine(_, store):
    store.check()
    return int(time.time())


SABOTEURS = {
    "time.injected": Saboteur(
        # It runs slow.
        result(
            "get_job",
            lambda job: (
                evolve(job, created_at=job.created_at - 1)
                if job and START + 10_000 < job.created_at < START + 20_000
                else job
            ),
        ),
        also={"time.now": "the job's stamp is not what now() says"},
    ),
    "time.real": Saboteur(
        # Milliseconds, on the engine's own clock.
        result(
            "get_job",
            lambda job: (
                evolve(job, created_at=job.created_at * 1000)
                if job and job.created_at > START + 50_000_000
                else job
            ),
        ),
        also={"time.now": "the job's stamp is not what now() says"},
    ),
    # Its machine's, whichever clock it was given.
    "time.now": Saboteur(core("store:Store.now", _of_this_machine)),
    "time.per_call": Saboteur(primitive("insert_jobs", _since_the_first, where="tx")),
    "time.tx_judges": Saboteur(primitive("get_job", _read_and_kept, where="tx")),
    "time.clients": Saboteur(
        primitive("claim", _own_lapses_only),
        also={
            "queues.ack.race": "a lapsed job is claimed by another client",
            "queues.wakes.lapse": "a lapsed job is claimed by another client",
            "errors.open_claims": "a lapsed job is claimed by another client",
            "durability.claims": "a lapsed job is claimed by another client",
            "outbox.run.slow": "a lapsed message is claimed by another client",
        },
        stateful=True,
    ),
    "time.at_least": Saboteur(
        # The second of the heartbeat counts.
        arguments(
            "extend",
            lambda queue, claims, seconds: (
                queue,
                claims,
                seconds - 1 if seconds == 1 else seconds,
            ),
        ),
        stateful=True,
    ),
    "time.expiry": Saboteur(
        # A second too early, for several at once.
        arguments(
            "insert_jobs",
            lambda queue, data, spec: (
                queue,
                data,
                evolve(spec, expires=spec.expires - 1)
                if spec.expires in {8, 10} and len(data) > 1
                else spec,
            ),
        ),
        stateful=True,
    ),
    "time.far": Saboteur(
        # As far as 31 bits of seconds go, from now.
        arguments(
            "insert_jobs",
            lambda queue, data, spec: (
                queue,
                data,
                evolve(spec, delay=10**9) if 10**9 < (spec.delay or 0) < 2**40 else spec,
            ),
        )
    ),
}
