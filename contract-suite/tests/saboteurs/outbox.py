"""Faults in outboxes, and in what becomes of deliveries."""

import asyncio

from attrs import evolve
from sabotage import Saboteur, constant, core, primitive

from alkstore_core import EnqueueOpts, QueueOpts
from alkstore_core.policy.options import PLAIN, OptionResolver

OUTBOX = "__alkstore_outbox:"
RETAINING = OptionResolver(
    QueueOpts(
        visibility_timeout_s=60, max_attempts=5, backoff_base_s=5, dead_letter_retention_s=86_400
    )
)


def of_outboxes(name, change, **options):
    """A primitive is replaced where its queue is an outbox's."""
    return primitive(
        name,
        lambda real, queue, *args, **wake: (
            change(real, queue, *args, **wake)
            if queue.startswith(OUTBOX)
            else getattr(real, name)(queue, *args, **wake)
        ),
        **options,
    )


def delivering(deliver):
    """`run_once` calls `deliver(handle, delivery)` instead of the delivery."""

    def run_once(real, self, worker, delivery):
        async def around(handle):
            await deliver(handle, delivery)

        return real(self, worker, around)

    return core("outboxes:Outbox.run_once", run_once)


def _own_attempts(real, outbox, payload, opts):
    if opts is not None and type(opts.max_attempts) is int and 0 < opts.max_attempts < 5:
        opts = evolve(opts, max_attempts=None)
    return real(outbox, payload, opts)


def _late_letters(real, self, outbox, payload, opts=None):
    if payload == "letter" and opts is None:
        opts = EnqueueOpts(delay=1)
    return real(self, outbox, payload, opts)


def _surviving_rollback(real, queue, payloads, spec, **wake):
    if payloads != (b'"letter"',):
        return real.insert_jobs(queue, payloads, spec, **wake)
    session = real._target
    rollback = session.rollback

    async def keep():
        await rollback()
        await real.engine.auto.insert_jobs(queue, payloads, spec, **wake)

    async def forget():
        session.rollback = rollback
        await commit()

    commit = session.commit
    session.rollback, session.commit = keep, forget
    return real.insert_jobs(queue, payloads, spec, **wake)


async def _all_queues(real, self):
    return sorted([*await real(self), *await self.outboxes()])


async def _plain_redrive(real, queue, job_id, **wake):
    job = await real.get_job(queue, job_id)
    return (await real.insert_jobs(queue, [job.payload], PLAIN.resolve(), **wake))[0]


async def _delayed_count(real, self, worker, delivery):
    found = await real(self, worker, delivery)
    return found or (await self._backing.stats()).delayed > 0


async def _two(real, self, worker, delivery):
    return await real(self, worker, delivery) and (await real(self, worker, delivery) or True)


async def _at_once(handle, delivery):
    try:
        await delivery(handle)
    except Exception as error:  # noqa: BLE001 - as `run_once` does.
        await handle.retry(error, 0)


async def _never_dead(handle, delivery):
    try:
        await delivery(handle)
    except Exception:
        if handle.job.attempts < handle.job.max_attempts:
            raise
        await handle.release()


async def _drops_what_was_released(real, self, worker, delivery):
    seen = []

    def note(handle):
        seen.append(handle.job.id)
        return delivery(handle)

    found = await real(self, worker, note)
    for number in seen:
        job = await self._backing.get_job(number)
        if job is not None and job.attempts == 0:
            await self._backing.cancel(number)
    return found


async def _fails_when_cancelled(handle, delivery):
    try:
        await delivery(handle)
    except asyncio.CancelledError:
        await handle.fail("cancelled")
        raise


async def _beats(handle, delivery):
    await handle.heartbeat(3600)
    await delivery(handle)


async def _shared(real, queue, worker, limit):
    if queue in real.notes:
        return await asyncio.shield(real.notes[queue])
    real.notes[queue] = asyncio.ensure_future(real.claim(queue, worker, limit))
    try:
        return await real.notes[queue]
    finally:
        del real.notes[queue]


SABOTEURS = {
    "outbox.stamps": Saboteur(constant("policy.options:OUTBOX", RETAINING)),
    "outbox.options": Saboteur(core("requests:outbox_enqueue", _own_attempts), stateful=True),
    "outbox.tx.commit": Saboteur(
        core("txops:TxOps.outbox_enqueue_tx", _late_letters),
        also={
            "outbox.stamps": "it looks at the ready time as well",
            "durability.outbox": "it delivers at once what was committed",
        },
    ),
    "outbox.tx.rollback": Saboteur(
        of_outboxes("insert_jobs", _surviving_rollback, where="tx"), stateful=True
    ),
    "outbox.tx.names": Saboteur(
        core(
            "txops:TxOps.outbox_enqueue_tx",
            lambda real, self, name, *args: real(self, "ab" if name == "a\0b" else name, *args),
        ),
        also={"names.nul": "it refuses the same names in every call"},
    ),
    "outbox.names": Saboteur(
        core("names:backing_queue", lambda real, outbox: real(outbox)[:255]),
        also={"names.longest": "two names that differ at their end become one"},
    ),
    "outbox.unreachable": Saboteur(
        core(
            "txops:TxOps.get_job_tx",
            lambda real, self, queue, job_id: real(
                self, "x" if str(queue).startswith(OUTBOX) else queue, job_id
            ),
        )
    ),
    "outbox.apart": Saboteur(
        core("store:Store.queues", _all_queues),
        also={
            "inspection.clients": "it lists queues beside an outbox",
            "inspection.outboxes": "queues and outboxes are listed apart",
            "lifecycle.unopened_handles": "what was stored by way of each is listed",
        },
        stateful=True,
    ),
    "outbox.backing.wakes": Saboteur(
        of_outboxes(
            "insert_jobs", lambda real, *args, wake=(): real.insert_jobs(*args), where="tx"
        ),
        stateful=True,
    ),
    "outbox.backing.inspect": Saboteur(
        of_outboxes("list_dead", lambda real, *args: []), stateful=True
    ),
    "outbox.backing.redrive": Saboteur(of_outboxes("redrive", _plain_redrive), stateful=True),
    "outbox.backing.sweep": Saboteur(of_outboxes("sweep", lambda *_: 0), stateful=True),
    "outbox.run.nothing": Saboteur(core("outboxes:Outbox.run_once", _delayed_count), stateful=True),
    "outbox.run.success": Saboteur(
        core(
            "outboxes:Outbox.run_once",
            lambda real, self, worker, delivery: real(
                self, worker.title() if isinstance(worker, str) else worker, delivery
            ),
        ),
        stateful=True,
    ),
    "outbox.run.one": Saboteur(
        core("outboxes:Outbox.run_once", _two),
        also={"outbox.backing.inspect": "a second message is buried, too"},
        stateful=True,
    ),
    "outbox.run.failure": Saboteur(delivering(_at_once), stateful=True),
    "outbox.run.exhausted": Saboteur(delivering(_never_dead), stateful=True),
    "outbox.run.settled": Saboteur(
        core("outboxes:Outbox.run_once", _drops_what_was_released), stateful=True
    ),
    "outbox.run.cancelled": Saboteur(delivering(_fails_when_cancelled)),
    "outbox.run.slow": Saboteur(
        delivering(_beats),
        also={"outbox.run.cancelled": "there the message comes back when its lease is over"},
        stateful=True,
    ),
    "outbox.run.heartbeat": Saboteur(
        of_outboxes("extend", lambda real, queue, claims, seconds: [c.id for c in claims])
    ),
    "outbox.run.exclusive": Saboteur(of_outboxes("claim", _shared)),
    "outbox.run.worker": Saboteur(
        core(
            "outboxes:Outbox.run_once",
            lambda real, self, worker, delivery: real(
                self, "w" if worker == " " else worker, delivery
            ),
        )
    ),
}
