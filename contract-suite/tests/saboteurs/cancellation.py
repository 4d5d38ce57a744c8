"""Faults in cancelled calls."""

import asyncio

from sabotage import Saboteur, code, core, primitive

from alkstore_core import DatabaseError
from saboteurs.streams_reading import rewind


async def _settled_by_cancelling(real, self, *args):
    try:
        return await real(self, *args)
    except asyncio.CancelledError:
        self._settled = True
        raise


async def _jobs_one_by_one(real, queue, payloads, spec, **wake):
    ids = []
    for payload in payloads:
        ids += await real.insert_jobs(queue, [payload], spec, **wake)
    return ids


async def _events_one_by_one(real, stream, entries, **wake):
    offsets = []
    for entry in entries:
        offsets += await real.append(stream, [entry], **wake)
    return offsets


async def _exhausted_by_cancelling(real, self, *args):
    if getattr(self, "lost", 0) >= 10:
        raise DatabaseError("no connection is left")
    try:
        return await real(self, *args)
    except asyncio.CancelledError:
        self.lost = getattr(self, "lost", 0) + 1
        raise


async def _locked_for_nobody(real, name, owner, ttl):
    try:
        return await real.acquire(name, owner, ttl)
    except asyncio.CancelledError:
        await real.acquire(name, f"{owner}?", ttl)
        raise


async def _takes_a_neighbour(real, queue, payloads, spec, **wake):
    try:
        ids = await real.insert_jobs(queue, payloads, spec, **wake)
    except asyncio.CancelledError:
        real.notes["cancelled"] = True
        raise
    if real.notes.pop("cancelled", False):
        await real.delete_job(queue, ids[0])
    return ids


async def _set_back_by_cancelling(real, stream, consumer, offset):
    try:
        await real.save_offset(stream, consumer, offset)
    except asyncio.CancelledError:
        await rewind(real, stream, consumer, 0)
        raise


async def _committed_by_cancelling(real, stream, entries, **wake):
    try:
        return await real.append(stream, entries, **wake)
    except asyncio.CancelledError:
        await real.commit()
        raise


SABOTEURS = {
    "cancellation.ack": Saboteur(core("jobs:JobHandle.ack", _settled_by_cancelling)),
    "cancellation.enqueue": Saboteur(primitive("insert_jobs", _jobs_one_by_one, where="auto")),
    "cancellation.leaks": Saboteur(
        code("alkstore_mem.engine:Client.run", _exhausted_by_cancelling)
    ),
    "cancellation.lock": Saboteur(primitive("acquire", _locked_for_nobody)),
    "cancellation.neighbours": Saboteur(primitive("insert_jobs", _takes_a_neighbour, where="auto")),
    "cancellation.publish": Saboteur(primitive("append", _events_one_by_one, where="auto")),
    "cancellation.retry": Saboteur(core("jobs:JobHandle.retry", _settled_by_cancelling)),
    "cancellation.save_offset": Saboteur(
        primitive("save_offset", _set_back_by_cancelling, where="auto")
    ),
    "cancellation.transaction": Saboteur(primitive("append", _committed_by_cancelling, where="tx")),
}
