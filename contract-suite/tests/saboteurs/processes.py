"""Faults in what processes do to each other; shown by several clients of one process."""

import asyncio

from rowops import write
from sabotage import Saboteur, arguments, core, engine, primitive, spec

from alkstore_core.policy.options import PLAIN
from alkstore_core.spi import Entry


async def _shared(real, queue, worker, limit):
    if queue != "work" or not worker.startswith("worker "):
        return await real.claim(queue, worker, limit)
    if queue in real.notes:
        return await asyncio.shield(real.notes[queue])
    real.notes[queue] = asyncio.ensure_future(real.claim(queue, worker, limit))
    try:
        return await real.notes[queue]
    finally:
        del real.notes[queue]


async def _closing_commits(real, self):
    for transaction in tuple(self.transactions):
        await transaction.commit()
    await real(self)


def _forget_channels(real):
    woken = real._target._woken
    for topic in [topic for topic in woken if topic.kind == "channel"]:
        del woken[topic]


async def _publishing_silences(real, *args, **wake):
    offsets = await real.append(*args, **wake)
    _forget_channels(real)
    return offsets


async def _silent_after_jobs(real, topics):
    if not any(topic.kind == "queue" for topic in real._target._woken):
        await real.signal(topics)


async def _doubtful_release(real, name, token, **wake):
    now = await real.engine.now()
    long = [info.token for info in await real.list_locks() if 200 < info.expires_at - now <= 300]
    return await real.release_lock(name, token, **wake) and token not in long


async def _standby_fires(real, self):
    pause = await real(self)
    session = self._runtime.session()
    now = await self._runtime.engine.now()
    for plan in await session.list_schedules():
        if plan.next_fire_at <= now and plan.spec == "@every 1s":
            await session.insert_jobs(plan.queue, [plan.payload], PLAIN.resolve())
    return min(pause, 1)


def _forgets_a_long_rest(real, next_fire_at, interval, now):
    found = real(next_fire_at, interval, now)
    return found._replace(fires=()) if interval == 1 and len(found.fires) > 30 else found


async def _first_open_clears(real):
    await real.open()
    await write(real.engine, "DELETE FROM __alkstore_jobs WHERE CAST(payload AS TEXT) = '0'")


def _spaced(stream, entries):
    if stream != "log":
        return stream, entries
    return stream, [
        Entry(payload.replace(b",", b", "), *rest) if payload.startswith(b"[") else entry
        for entry in entries
        for payload, *rest in [entry]
    ]


SABOTEURS = {
    "processes.once": Saboteur(
        primitive("claim", _shared),
        also={
            "queues.claim.exclusive": "there workers claim at the same time as well",
            "queues.claim.exclusive_batch": "they do there",
        },
        stateful=True,
    ),
    "processes.killed.worker": Saboteur(
        spec(visibility_timeout_s=lambda seconds: 5 if seconds == 1 else seconds)
    ),
    "processes.killed.transaction": Saboteur(
        core("runtime:Runtime._settle", _closing_commits),
        also={
            "lifecycle.close.transactions": "closing rolls open transactions back",
            "lifecycle.close.under_way": "there a transaction is open, too",
            "lifecycle.handles_after_close": "the handle says committed instead of closed",
        },
        stateful=True,
    ),
    "processes.wakes.outward": Saboteur(
        primitive("append", _publishing_silences, where="tx"),
        also={"notify.readable": "there an event follows the signal as well"},
        stateful=True,
    ),
    "processes.wakes.inward": Saboteur(
        primitive("signal", _silent_after_jobs, where="tx"),
        also={
            "lifecycle.open.twice": "there a signal follows a job as well",
            "notify.payload.tx": "there it does",
        },
        stateful=True,
    ),
    "processes.locks": Saboteur(primitive("release_lock", _doubtful_release)),
    "processes.killed.lock": Saboteur(
        arguments("acquire", lambda name, owner, ttl: (name, owner, 5 if ttl == 1 else ttl)),
        also={"time.at_least": "a lock for a second is not free after two"},
    ),
    "processes.scheduler": Saboteur(core("scheduler:_Runner._standby", _standby_fires)),
    "processes.killed.leader": Saboteur(
        core("policy.boundaries:due_boundaries", _forgets_a_long_rest),
        also={"scheduler.catch_up.each": "a schedule of one second rests for longer there"},
        stateful=True,
    ),
    "processes.first_open": Saboteur(
        engine("open", _first_open_clears),
        also={
            "queues.claim.cancelled": "a client is opened when the first job is there",
            "queues.claim.cancelled_batch": "there as well",
        },
    ),
    "processes.stream": Saboteur(arguments("append", _spaced, where="tx"), stateful=True),
}
