"""Faults in what is told to operators."""

from sabotage import Saboteur, core, engine, primitive, result, statement
from sqlalchemy import union

from alkstore_core import Finding
from alkstore_core.sql import inspection
from alkstore_core.sql.tables import DELAYED, PROCESSING, READY, dead_jobs, jobs


async def _ever_seen(real, kind):
    seen = real.notes.setdefault(kind, set())
    seen |= {*await real.names(kind)}
    return [*seen]


async def _mark_left(real, stream, horizon, limit):
    """Where a stream was trimmed empty a checkpoint stays, so that it has a place to go on."""
    trimmed = await real.trim(stream, horizon, limit)
    if trimmed and not (await real.bounds(stream)).count:
        await real.save_offset(stream, "trimmed", horizon)
    return trimmed


async def _first_asks(real, kind):
    first = real.notes.setdefault(kind, real.engine)
    return await real.names(kind) if kind == "queue" or first is real.engine else []


async def _short_names(real, self):
    return [name.partition(":")[0] for name in await real(self)]


SABOTEURS = {
    "inspection.fresh": Saboteur(
        engine(
            "diagnose",
            lambda real: [Finding(code="empty", severity="info", message="nothing is in it")],
        )
    ),
    "inspection.queues": Saboteur(
        # Jobs that a claim set aside for the sweep are in no queue.
        statement(
            "inspection:QUEUE_NAMES",
            lambda _: union(
                *(
                    inspection._distinct(name, jobs.c.queue, jobs.c.state == state)
                    for name, state in (
                        ("ready", READY),
                        ("delayed", DELAYED),
                        ("processing", PROCESSING),
                    )
                ),
                inspection._distinct("dead", dead_jobs.c.queue),
            ),
        ),
        stateful=True,
    ),
    "inspection.queues_emptied": Saboteur(primitive("names", _ever_seen), stateful=True),
    "inspection.outboxes": Saboteur(core("store:Store.outboxes", _short_names)),
    "inspection.streams": Saboteur(
        primitive("trim", _mark_left),
        also={"copy.consumers": "it trims a stream whole"},
    ),
    "inspection.schedules": Saboteur(
        result("list_schedules", lambda found: found[::-1]),
        also={
            "copy.schedules": "it lists several",
            "scheduler.stored": "it lists several",
            "scheduler.isolation": "it fires several in the order of their names",
        },
        stateful=True,
    ),
    "inspection.clients": Saboteur(primitive("names", _first_asks)),
}
