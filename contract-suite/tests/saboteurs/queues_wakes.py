"""Faults in whom and when a queue wakes."""

from sabotage import Saboteur, primitive

from alkstore_core import JobState
from alkstore_core.spi import Topic


def silent(name, unless=lambda args, kwargs: False, **options):
    """A primitive wakes nobody."""

    def call(real, *args, wake=(), **kwargs):
        woken = wake if unless(args, kwargs) else ()
        return getattr(real, name)(*args, wake=woken, **kwargs)

    return primitive(name, call, **options)


def due(keep):
    """The timer does not hear of queues where something is due, unless `keep` says so."""

    async def next_due(real, queues):
        seconds = await real.next_due(queues)
        return {
            queue: wait
            for queue, wait in seconds.items()
            if wait > 0 or keep(wait, await real.list_jobs(queue, None, 10, 0))
        }

    return primitive("next_due", next_due)


async def _woken_in_vain(real):
    await real.rollback()
    real.engine.auto._fire(Topic("queue", "work"), None)


async def _too_soon(real, queue, payloads, spec, **wake):
    ids = await real.insert_jobs(queue, payloads, spec, **wake)
    real.engine.auto._fire(Topic("queue", queue), None)
    return ids


def _everybody(real, queue, payloads, spec, *, wake=()):
    return real.insert_jobs(queue, payloads, spec, wake=(*wake, Topic("queue", "work")))


def _tired(real, queue, payloads, spec, *, wake=()):
    count = real.notes["inserts"] = real.notes.get("inserts", 0) + 1
    return real.insert_jobs(queue, payloads, spec, wake=wake if count <= 20 else ())


SABOTEURS = {
    "queues.wakes.enqueue": Saboteur(
        silent("insert_jobs", lambda args, _: len(args[1]) != 2, where="auto")
    ),
    "queues.wakes.commit": Saboteur(
        # As soon as the job is in the transaction.
        primitive("insert_jobs", _too_soon, where="tx"),
        also={"queues.wakes.rollback": "the wake came before the rollback"},
        stateful=True,
    ),
    "queues.wakes.rollback": Saboteur(primitive("rollback", _woken_in_vain), stateful=True),
    "queues.wakes.others": Saboteur(primitive("insert_jobs", _everybody), stateful=True),
    "queues.wakes.retry": Saboteur(silent("requeue"), stateful=True),
    "queues.wakes.release": Saboteur(
        silent("release", lambda _, kwargs: kwargs.get("unseen")), stateful=True
    ),
    "queues.wakes.redrive": Saboteur(silent("redrive"), stateful=True),
    "queues.wakes.due": Saboteur(
        due(lambda wait, jobs: len(jobs) > 1 or wait < -10 or jobs[0].state is JobState.PROCESSING)
    ),
    "queues.wakes.nearer": Saboteur(
        due(lambda wait, jobs: len(jobs) == 1),
        also={"queues.nothing_alone": "it waits for a job that comes due, beside others"},
    ),
    "queues.wakes.lapse": Saboteur(
        due(lambda wait, jobs: jobs[0].state is not JobState.PROCESSING),
        also={"queues.nothing_alone": "it waits for a job that comes due, beside lapsed ones"},
        stateful=True,
    ),
    "queues.wakes.overdue": Saboteur(
        due(lambda wait, jobs: wait >= -10),
        also={"queues.nothing_alone": "it waits for a job that is long due"},
    ),
    "queues.wakes.worker": Saboteur(primitive("insert_jobs", _tired, where="auto")),
}
