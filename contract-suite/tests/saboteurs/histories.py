"""Faults that only a longer history shows: each needs several things that stand together."""

from attrs import evolve
from sabotage import Saboteur, arguments, claimed, primitive, result

START = 1_700_000_000


def late(job):
    """A later attempt's job is a second younger than it is."""
    return job.created_at + (job.attempts > 2)


async def _second_job_of_a_transaction(real, queue, payloads, spec, **wake):
    count = real._target.__dict__.setdefault("_inserted", [])
    count.append(queue)
    if len(count) > 1:
        spec = evolve(spec, priority=spec.priority + 1)
    return await real.insert_jobs(queue, payloads, spec, **wake)


async def _every_eighth_is_lost(real, topics):
    real.notes["notified"] = real.notes.get("notified", 0) + 1
    if real.notes["notified"] % 8:
        await real.signal(topics)


async def _after_an_event(real, queue, payloads, spec, **wake):
    if any(topic.kind == "stream" for topic in real._target._woken):
        spec = evolve(spec, max_attempts=spec.max_attempts + 1)
    return await real.insert_jobs(queue, payloads, spec, **wake)


async def _priority_stays_once_it_fired(real, entry, **wake):
    for plan in await real.list_schedules():
        same = (plan.name, plan.spec) == (entry.name, entry.spec)
        if same and plan.next_fire_at > START + 2 * entry.every:
            entry = entry._replace(priority=plan.priority)
    return await real.put_schedule(entry, **wake)


SABOTEURS = {
    "histories.queues": Saboteur(
        claimed(created_at=lambda job: job.created_at if job.queue[:1] == "_" else late(job)),
        stateful=True,
    ),
    "histories.outbox": Saboteur(
        claimed(created_at=lambda job: late(job) if job.queue[:1] == "_" else job.created_at),
        stateful=True,
    ),
    "histories.streams": Saboteur(
        result(
            "read_from",
            lambda events: [
                evolve(event, created_at=event.created_at + (number > 2))
                for number, event in enumerate(events)
            ],
        ),
        stateful=True,
    ),
    "histories.locks": Saboteur(
        arguments("renew", lambda name, token, ttl: (name, token, ttl + (token > 8))),
        stateful=True,
    ),
    "histories.scheduler": Saboteur(
        primitive("put_schedule", _priority_stays_once_it_fired), stateful=True
    ),
    "histories.transactions": Saboteur(
        primitive("insert_jobs", _second_job_of_a_transaction, where="tx"),
        also={
            "queues.stamps.tx": "it enqueues several jobs in a transaction",
            "scheduler.fire.stamps": "one tick fires two schedules in a transaction",
        },
        stateful=True,
    ),
    "histories.notify": Saboteur(
        primitive("signal", _every_eighth_is_lost),
        also={
            "notify.many_channels": "it notifies eight channels and more",
            "notify.none_missed": "it notifies as often",
            "notify.readable": "it does, too",
        },
        stateful=True,
    ),
    "histories.all": Saboteur(primitive("insert_jobs", _after_an_event, where="tx"), stateful=True),
}
