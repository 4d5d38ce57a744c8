"""Faults in what is left when every store of a database was closed, and another one opened."""

import contextlib

from rowops import write
from sabotage import Saboteur, engine, harness

from alkstore_core import AlkstoreError

_homes: list[str] = []


def opening(sql):
    """Opening a store changes what is there."""

    async def opens(real):
        await real.open()
        await write(real.engine, sql)

    return engine("open", opens)


async def _close_tears(real):
    last = "(SELECT max(offset) FROM __alkstore_events)"
    many = "(SELECT count(*) FROM __alkstore_events) > 5"
    with contextlib.suppress(AlkstoreError):
        await write(real.engine, f"DELETE FROM __alkstore_events WHERE offset = {last} AND {many}")
    await real.close()


@contextlib.asynccontextmanager
async def _one_home(real):
    if _homes:
        yield _homes[-1]
        return
    async with real() as address:
        _homes.append(address)
        try:
            yield address
        finally:
            _homes.pop()


SABOTEURS = {
    "durability.jobs": Saboteur(opening("UPDATE __alkstore_dead_jobs SET headers = NULL")),
    "durability.claims": Saboteur(
        opening(
            "UPDATE __alkstore_jobs SET claim_expires_at = claim_expires_at + 1 "
            "WHERE claim_expires_at - claimed_at < 60"
        )
    ),
    "durability.streams": Saboteur(opening("DELETE FROM __alkstore_consumers")),
    "durability.schedules": Saboteur(
        opening("UPDATE __alkstore_schedules SET next_fire_at = next_fire_at + 1")
    ),
    "durability.locks": Saboteur(
        opening("UPDATE __alkstore_locks SET expires_at = expires_at + 1")
    ),
    "durability.outbox": Saboteur(
        opening(
            "UPDATE __alkstore_jobs SET visibility_timeout_s = 300 "
            "WHERE queue LIKE '__alkstore_outbox:%'"
        )
    ),
    "durability.ids": Saboteur(
        opening(
            "DELETE FROM sqlite_sequence WHERE name = '__alkstore_jobs' "
            "AND NOT EXISTS (SELECT 1 FROM __alkstore_jobs)"
        ),
        also={"queues.ids.reopened": "it promises the same for one queue"},
    ),
    "durability.new": Saboteur(harness("home", _one_home)),
    "durability.killed": Saboteur(
        engine("close", _close_tears),
        also={"lifecycle.close.others": "closing a store touches what others publish"},
        stateful=True,
    ),
}
