"""Faults in how jobs are stored: options, stamps, bulk forms and ids."""

from attrs import evolve
from rowops import write
from sabotage import Saboteur, arguments, core, engine, primitive, result, spec

from alkstore_core import CodecError, DatabaseError, JobState
from alkstore_core.policy.options import PLAIN

LAST = 2**63 - 1


def inserted(change, **options):
    """Store jobs with another spec."""
    return arguments(
        "insert_jobs", lambda queue, data, spec: (queue, data, change(spec, data)), **options
    )


def _expires_late(spec, _):
    both = spec.priority < 0 and spec.expires and spec.delay and spec.delay > 0
    return evolve(spec, expires=min(spec.expires + spec.delay, LAST)) if both else spec


def _claimed_at_zero(job):
    return job and (job if job.claimed_at is not None else evolve(job, claimed_at=0))


async def _prefix_stored(real, self, payloads, opts=None):
    payloads = list(payloads)
    try:
        return await real(self, payloads, opts)
    except CodecError:
        await real(self, payloads[:1], opts)
        raise


def _by_queue(real, queue, payloads, spec, **wake):
    first = real.notes.setdefault(queue, spec.backoff_base_s)
    return real.insert_jobs(queue, payloads, evolve(spec, backoff_base_s=first), **wake)


async def _own_unseen(real, queue, job_id):
    job = await real.get_job(queue, job_id)
    return None if job is not None and job.state is JobState.PENDING else job


async def _half_undone(real):
    try:
        pending = await real.list_jobs("work", None, 10, 0)
    except DatabaseError:
        pending = []
    await real.rollback()
    if len(pending) == 3:
        await real.engine.auto.insert_jobs("work", [pending[0].payload], PLAIN.resolve())


async def _numbers_freed(real, queue, job_id):
    deleted = await real.delete_job(queue, job_id)
    await write(
        real.engine,
        "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM __alkstore_jobs)"
        " WHERE name = '__alkstore_jobs'",
    )
    return deleted


async def _numbers_freed_when_empty(real, queue, claims):
    acked = await real.ack(queue, claims)
    await write(
        real.engine,
        "DELETE FROM sqlite_sequence WHERE name = '__alkstore_jobs'"
        " AND NOT EXISTS (SELECT 1 FROM __alkstore_jobs)",
    )
    return acked


async def _numbers_freed_at_opening(real):
    await real.open()
    await write(
        real.engine,
        "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM __alkstore_jobs)"
        " WHERE name = '__alkstore_jobs'",
    )


async def _sweep_everywhere(real, queue, limit):
    return sum([await real.sweep(name, limit) for name in await real.names("queue")])


SABOTEURS = {
    "queues.enqueue.durable": Saboteur(
        # What looks like a word is held back for a second.
        inserted(lambda spec, data: evolve(spec, delay=1) if data[0] == b'"payload"' else spec),
        also={
            "scheduler.fire.ordinary": "its job carries such a word",
        },
    ),
    "queues.enqueue.defaults": Saboteur(
        # A number where there is none.
        result("get_job", _claimed_at_zero),
        also={
            "queues.redrive.fresh": "it reads the fields of a job never claimed",
            "queues.jobs.states": "it compares a list with single reads",
            "queues.release_batch.restores": "it compares a list with single reads",
            "queues.sweep.others": "it compares a list with single reads",
        },
        stateful=True,
    ),
    "queues.enqueue.resolved": Saboteur(
        inserted(_expires_late),
        also={
            "transactions.enqueue.options": "it gives a delay and an expiry at a low priority",
        },
        stateful=True,
    ),
    "queues.enqueue.run_at": Saboteur(
        # Zero taken for none.
        spec(run_at=lambda run_at: run_at or None),
        also={"numbers.exact": "0 is one of its ready times"},
        stateful=True,
    ),
    "queues.enqueue.delay_wins": Saboteur(
        core(
            "policy.options:OptionResolver.resolve",
            lambda real, self, opts=None: real(
                self,
                evolve(opts, delay=None)
                if opts and opts.run_at is not None and opts.delay == 0
                else opts,
            ),
        ),
        stateful=True,
    ),
    "queues.enqueue.attempts_clamped": Saboteur(
        core(
            "policy.options:_attempts",
            lambda real, n: 1 - n if type(n) is int and -10 < n < 0 else real(n),
        ),
        stateful=True,
    ),
    "queues.enqueue.refused": Saboteur(
        core("queues:Queue.enqueue_many", _prefix_stored),
        also={"payloads.refused": "it gives batches too"},
        stateful=True,
    ),
    "queues.stamps.by_handle": Saboteur(
        # A queue has one backoff, that of who came first.
        primitive("insert_jobs", _by_queue),
        stateful=True,
    ),
    "queues.stamps.kept": Saboteur(
        result(
            "claim",
            lambda jobs: [
                evolve(job, claim_expires_at=job.claimed_at + 300)
                if job.visibility_timeout_s < 300
                else job
                for job in jobs
            ],
        ),
        also={
            "queues.claim.stamps": "it claims a job of a shorter timeout",
            "queues.claim.batch_stamps": "it claims jobs of shorter timeouts",
        },
        stateful=True,
    ),
    "queues.stamps.tx": Saboteur(
        inserted(
            lambda spec, data: evolve(spec, visibility_timeout_s=60) if len(data) > 1 else spec,
            where="tx",
        ),
        stateful=True,
    ),
    "queues.enqueue_many.order": Saboteur(
        result("insert_jobs", lambda ids: ids[::-1] if 40 < len(ids) < 60 else ids)
    ),
    "queues.enqueue_many.alike": Saboteur(
        inserted(lambda spec, data: evolve(spec, headers=None) if len(data) > 1 else spec),
        also={"payloads.headers.kept": "it stores several with headers too"},
        stateful=True,
    ),
    "queues.enqueue_many.empty": Saboteur(
        core(
            "txops:TxOps.enqueue_many_tx",
            lambda real, self, queue, data, opts=None: real(self, queue, data or [None], opts),
        ),
        also={
            "transactions.batches": "it gives nothing as well",
        },
    ),
    "queues.enqueue_many.large": Saboteur(
        arguments("insert_jobs", lambda queue, data, spec: (queue, data[:2500], spec))
    ),
    "queues.enqueue_tx.commit": Saboteur(
        primitive("get_job", _own_unseen, where="tx"),
        also={
            "transactions.own.dead": "it reads jobs inside the transaction",
            "transactions.own.job": "it reads jobs inside the transaction",
            "queues.get.tx": "one of its jobs is pending",
        },
        stateful=True,
    ),
    "queues.enqueue_tx.rollback": Saboteur(
        primitive("rollback", _half_undone),
        also={
            "transactions.ends.turns": "three of its jobs are pending at a rollback",
        },
    ),
    "queues.ids.fresh": Saboteur(
        primitive("delete_job", _numbers_freed),
        also={
            "durability.ids": "it counts on ids as well",
            "queues.ids.reopened": "it cancels its last job too",
        },
        stateful=True,
    ),
    "queues.ids.emptied": Saboteur(
        primitive("ack", _numbers_freed_when_empty),
        also={
            "durability.ids": "it counts on ids as well",
        },
        stateful=True,
    ),
    "queues.ids.reopened": Saboteur(
        engine("open", _numbers_freed_at_opening),
        also={"durability.ids": "it counts on ids as well"},
    ),
    "queues.apart": Saboteur(primitive("sweep", _sweep_everywhere), stateful=True),
}
