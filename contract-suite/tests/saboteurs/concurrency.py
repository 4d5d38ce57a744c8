"""Faults that show only when there are many callers."""

from sabotage import Saboteur, primitive

from alkstore_core import DatabaseError
from alkstore_core.spi import Claim


def lost_when(crowded):
    """A claim that meets others loses a job."""

    async def claim(real, queue, worker, limit):
        busy = real.notes.setdefault("busy", [])
        busy.append(id(real.engine))
        try:
            jobs = await real.claim(queue, worker, limit)
            if jobs and crowded(busy, id(real.engine)):
                last = jobs.pop()
                await real.ack(queue, [Claim(last.id, last.attempts)])
        finally:
            busy.remove(id(real.engine))
        return jobs

    return primitive("claim", claim)


async def _buried_in_a_crowd(real, queue, claim, error):
    busy = real.notes["burying"] = real.notes.get("burying", 0) + 1
    try:
        if busy > 1:
            return bool(await real.ack(queue, [claim]))
        return await real.bury(queue, claim, error)
    finally:
        real.notes["burying"] -= 1


async def _locked_in_a_crowd(real, name, owner, ttl):
    busy = real.notes["locking"] = real.notes.get("locking", 0) + 1
    try:
        if busy > 2:
            raise DatabaseError("the database is locked")
        return await real.acquire(name, owner, ttl)
    finally:
        real.notes["locking"] -= 1


SABOTEURS = {
    "concurrency.clients": Saboteur(
        lost_when(lambda busy, me: any(other != me for other in busy)),
        also={
            "outbox.run.exclusive": "its workers are of several clients",
            "queues.claim.exclusive": "its workers are of several clients",
            "queues.claim.exclusive_batch": "its workers are of several clients",
            "concurrency.conservation": "its workers are of two clients",
        },
    ),
    "concurrency.conservation": Saboteur(primitive("bury", _buried_in_a_crowd)),
    "concurrency.everything": Saboteur(
        primitive("acquire", _locked_in_a_crowd),
        also={
            "locks.acquire.one_winner": "many try for one lock",
            "locks.same_owner.together": "many try for one lock",
        },
    ),
    "concurrency.tasks": Saboteur(
        lost_when(lambda busy, me: busy.count(me) > 3),
        also={
            "queues.claim.exclusive": "its workers meet as well",
            "queues.claim.exclusive_batch": "its workers meet as well",
        },
    ),
}
