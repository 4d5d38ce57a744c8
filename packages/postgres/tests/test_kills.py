"""SIGKILL at random under load: what was acknowledged is there, nothing happens twice.

`ALKSTORE_STRESS=full` kills for a minute.
"""

import asyncio
import collections
import logging
import os
import random
import time

import pytest

from alkstore_core.requests import SCHEDULES as SCHEDULES_TOPIC
from alkstore_postgres.channels import channel_of

pytestmark = pytest.mark.once

_log = logging.getLogger(__name__)

FULL = os.environ.get("ALKSTORE_STRESS") == "full"
SECONDS = 60.0 if FULL else 0.0
KILLS = 10
"""At least."""

ROLES = ("publish", "work", "lead", "reader-0") * (2 if FULL else 1)
# None so short that more boundaries pass before the first fires than are made up for.
SCHEDULES = {f"each-{n}": n for n in (2, 3, 5)}

# A lease is what a killed leader leaves behind; nobody waits a minute for it here.
END_LEASE = "UPDATE alkstore.__alkstore_locks SET expires_at = 0"
END_CLAIMS = "UPDATE alkstore.__alkstore_jobs SET claim_expires_at = 0 WHERE state = 'processing'"
LEADER = (
    "SELECT split_part(owner, ':', 2)::int FROM alkstore.__alkstore_locks "
    "WHERE name = '__alkstore_scheduler'"
)
BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'alkstore' AND state <> 'idle'"
)


class Crowd:
    """Processes that are busy, one in each place, and what they have said so far."""

    def __init__(self, spawn, url):
        self._spawn = spawn
        self._url = url
        self._hearing = []
        self.children = {}
        self.said = collections.defaultdict(list)
        self.kills = collections.Counter()

    async def start(self, place):
        """Put a process into a place."""
        # Each follower has a name of its own, and its successor the same.
        role = f"reader-{place}" if ROLES[place].startswith("reader") else ROLES[place]
        child = await self._spawn("busy.py", self._url, role)
        self.children[place] = child
        self._hearing.append(asyncio.create_task(self._hear(child)))

    async def kill(self, place, why):
        """Kill what is in a place."""
        child = self.children.pop(place)
        child.kill()
        await child.wait()
        self.kills[why] += 1

    async def end(self):
        """Kill all that are left, and hear them out."""
        for place in list(self.children):
            await self.kill(place, "at the end")
        await asyncio.gather(*self._hearing)

    async def _hear(self, child):
        # A line that was not finished is not said.
        async for line in child.stdout:
            if line.endswith(b"\n"):
                kind, _, number = line.decode().partition(" ")
                self.said[kind].append(int(number))


async def kill_at_random(crowd, sql):
    """Kill one after the other, and each fourth time whoever leads; the next comes meanwhile."""
    chance = random.Random(5)
    starting = {asyncio.create_task(crowd.start(place)) for place in range(len(ROLES))}
    until = None
    enough = collections.Counter({"the leader": 1, "at random": KILLS})
    while until is None or time.monotonic() < until or not crowd.kills >= enough:
        await asyncio.sleep(chance.uniform(0.1, 0.5) if FULL else chance.uniform(0.3, 0.8))
        done, starting = {t for t in starting if t.done()}, {t for t in starting if not t.done()}
        await asyncio.gather(*done)
        if until is None:
            # The clock starts once all are busy.
            until = None if starting else time.monotonic() + SECONDS
            continue
        if not crowd.children:
            continue
        place, why = chance.choice(sorted(crowd.children)), "at random"
        leader = await sql.fetchval(LEADER)
        leading = [p for p, child in crowd.children.items() if child.pid == leader]
        if leading and crowd.kills["the leader"] * 4 <= crowd.kills.total():
            place, why = leading[0], "the leader"
        await crowd.kill(place, why)
        # Now and then that of a leader that lives ends as well.
        if leading in ([], [place]) or crowd.kills.total() % 10 == 0:
            await sql.execute(END_LEASE)
            # Whoever stands by waits for the end that it knows of.
            await sql.execute("SELECT pg_notify($1, '')", channel_of("alkstore", SCHEDULES_TOPIC))
        starting.add(asyncio.create_task(crowd.start(place)))
    await asyncio.gather(*starting)
    await crowd.end()


async def column(sql, query):
    """The values of a query's only column."""
    return [value for (value,) in await sql.fetch(query)]


async def until(condition):
    """Wait until something that nobody announces is so."""
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.alone
@pytest.mark.timeout(400)
async def test_killed_processes(spawn, store, sql, postgres_url):
    """No acknowledged job, event or offset is lost, no event skipped, no boundary fired twice."""
    await sql.execute("CREATE TABLE done (id bigint)")
    await sql.execute('CREATE TABLE followed (who text, "offset" bigint)')
    schedules = {
        name: await store.schedule(name, f"@every {n}s", name, None)
        for name, n in SCHEDULES.items()
    }
    events = await store.stream("news").subscribe("onlooker")
    seen = []

    async def read():
        async for event in events:
            seen.append(event.offset)
            await events.save_offset()

    reading = asyncio.create_task(read())
    crowd = Crowd(spawn, postgres_url)
    await kill_at_random(crowd, sql)
    said = crowd.said

    async def quiet():
        # A killed process' last transaction may still be on its way to its end.
        return not await sql.fetchval(BUSY)

    await until(quiet)
    boundaries = await check_schedules(store, sql, schedules)
    jobs = await check_jobs(store, sql, said)
    stored = await check_events(sql, said)

    async def all_seen():
        return len(seen) >= len(stored)

    await until(all_seen)
    assert stored == seen
    await events.close()
    await reading
    assert stored[-1] == await store.stream("news").get_offset("onlooker")
    assert 0 == await sql.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    _log.info(
        "kills %s, %s jobs, %s events, boundaries %s",
        dict(crowd.kills),
        jobs,
        len(stored),
        boundaries,
    )
    _log.info("acknowledged %s", {kind: len(numbers) for kind, numbers in sorted(said.items())})


async def check_schedules(store, sql, schedules):
    """Each boundary that a schedule has passed has made one job; give their number."""
    passed = {}
    for now in await store.schedules():
        first, interval = schedules[now.name].next_fire_at, SCHEDULES[now.name]
        passed[now.name] = (now.next_fire_at - first) // interval
    fired = dict(
        await sql.fetch(
            "SELECT queue, count(*) FROM alkstore.__alkstore_jobs "
            "WHERE queue LIKE 'each-%' GROUP BY queue"
        )
    )
    assert passed == fired
    assert passed["each-2"] > max(SECONDS / 4, 1)
    return passed


async def check_jobs(store, sql, said):
    """Each acknowledged job is there or was done, and none was acked twice; do what is left."""
    left = set(await column(sql, "SELECT id FROM alkstore.__alkstore_jobs WHERE queue = 'work'"))
    done = set(await column(sql, "SELECT id FROM done"))
    assert set() == set(said["job"]) - left - done
    assert len(set(said["acked"])) == len(said["acked"])
    assert set() == set(said["acked"]) & left
    assert set() == set(said["acked"]) - done
    assert len(said["job"]) > 100
    await sql.execute(END_CLAIMS)
    finished = []
    while handles := await store.queue("work").claim_batch("last", 500):
        finished += [handle.job.id for handle in handles]
        assert len(handles) == await store.queue("work").ack_batch(handles, "last")
    assert left == set(finished)
    assert len(left) == len(finished)
    return len(left | done)


async def check_events(sql, said):
    """Each acknowledged event is there, and each follower has noted all up to where it stands."""
    stored = await column(sql, 'SELECT "offset" FROM alkstore.__alkstore_events ORDER BY 1')
    assert set() == set(said["event"]) - set(stored)
    saved = dict(
        await sql.fetch(
            'SELECT consumer, "offset" FROM alkstore.__alkstore_consumers '
            "WHERE consumer LIKE 'reader-%'"
        )
    )
    assert len(saved) == sum(role.startswith("reader") for role in ROLES)
    for who, reached in saved.items():
        assert max(said[who]) <= reached
        noted = await column(sql, f"SELECT \"offset\" FROM followed WHERE who = '{who}' ORDER BY 1")
        assert [offset for offset in stored if offset <= reached] == noted
    return stored
