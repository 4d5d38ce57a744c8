"""Faults in what is still there after every store was closed."""

import contextlib

from rowops import write
from sabotage import Saboteur, engine, harness, primitive

_OUTBOX = "substr(queue, 1, 11) = '__alkstore_'"


def at_opening(sql):
    """A statement that is run whenever a store is opened."""

    async def open_(real):
        await real.open()
        await write(real, sql)

    return engine("open", open_)


def at_third_opening(sql):
    """A statement that is run when a store is opened for the third time, and later."""

    async def open_(real):
        await real.open()
        real.notes["opened"] = real.notes.get("opened", 0) + 1
        if real.notes["opened"] > 2:
            await write(real, sql)

    return engine("open", open_)


_homes = []


def _has_everything(subject, address):
    """Whether something of each kind is in that database of the memory engine's harness."""
    rows = subject._base._databases[address].connection.execute(
        "SELECT 1 FROM __alkstore_locks, __alkstore_schedules, __alkstore_events LIMIT 1"
    )
    return rows.fetchone() is not None


@contextlib.asynccontextmanager
async def _one_home(real):
    if _homes and _has_everything(real.__self__, _homes[0]):
        yield _homes[0]
        return
    async with real() as address:
        _homes.append(address)
        try:
            yield address
        finally:
            _homes.clear()


async def _half_is_lost(real, stream, entries, **wake):
    lost = real.engine.clock is None and entries[0].payload == b"1"
    return [1] if lost else await real.append(stream, entries, **wake)


SABOTEURS = {
    "durability.claims": Saboteur(
        at_opening("UPDATE __alkstore_jobs SET claim_expires_at = 0 WHERE worker_id IS NOT NULL"),
        also={"durability.jobs": "one of its jobs is claimed"},
        stateful=True,
    ),
    "durability.ids": Saboteur(
        at_third_opening(
            "DELETE FROM sqlite_sequence WHERE name = '__alkstore_jobs'"
            " AND NOT EXISTS (SELECT 1 FROM __alkstore_jobs)"
        ),
        stateful=True,
    ),
    "durability.jobs": Saboteur(
        at_opening("UPDATE __alkstore_dead_jobs SET headers = NULL"), stateful=True
    ),
    "durability.killed": Saboteur(primitive("append", _half_is_lost, where="tx"), base="sqlite"),
    "durability.locks": Saboteur(
        at_opening("UPDATE __alkstore_locks SET expires_at = expires_at + 1"), stateful=True
    ),
    "durability.new": Saboteur(harness("home", _one_home)),
    "durability.outbox": Saboteur(
        at_opening(f"UPDATE __alkstore_jobs SET visibility_timeout_s = 300 WHERE {_OUTBOX}"),
        stateful=True,
    ),
    "durability.schedules": Saboteur(at_opening("DELETE FROM __alkstore_schedules"), stateful=True),
    "durability.streams": Saboteur(at_opening("DELETE FROM __alkstore_consumers"), stateful=True),
}
