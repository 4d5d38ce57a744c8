"""SIGKILL at random under load: what was acknowledged is there, nothing happens twice."""

import asyncio
import random

import pytest

pytestmark = pytest.mark.once


KILLS = 10
PROCESSES = 4

# The leader's lease is what a killed process leaves behind; nobody waits a minute for it here.
END_LEASE = "UPDATE alkstore.__alkstore_locks SET expires_at = 0"


async def hear(child, acknowledged):
    """Note what a process says until it is gone; a line it did not finish is not said."""
    async for line in child.stdout:
        if line.endswith(b"\n"):
            kind, _, number = line.decode().partition(" ")
            acknowledged[kind].add(int(number))


async def kill_at_random(spawn, url, acknowledged):
    """Keep some processes busy, and kill one after the other; the next comes meanwhile."""
    chance = random.Random(5)
    children = []
    enough = asyncio.Semaphore(0)
    heard = []

    async def start():
        child = await spawn("busy.py", url)
        children.append(child)
        enough.release()
        heard.append(asyncio.create_task(hear(child, acknowledged)))

    starting = [asyncio.create_task(start()) for _ in range(PROCESSES)]
    for _ in range(KILLS):
        await enough.acquire()
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        victim = children.pop(chance.randrange(len(children)))
        victim.kill()
        await victim.wait()
        yield
        starting.append(asyncio.create_task(start()))
    await asyncio.gather(*starting)
    for child in children:
        child.kill()
    await asyncio.gather(*(child.wait() for child in children), *heard)


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_killed_processes(spawn, store, sql, postgres_url):
    """No acknowledged job or event is lost, no event skipped, no boundary fired twice."""
    await sql.execute("CREATE TABLE done (id bigint)")
    schedule = await store.schedule("each", "@every 1s", "ticks", None)
    events = await store.stream("news").subscribe("reader")
    seen = []

    async def read():
        async for event in events:
            seen.append(event.offset)
            await events.save_offset()

    reading = asyncio.create_task(read())
    acknowledged = {"job": set(), "event": set()}
    async for _ in kill_at_random(spawn, postgres_url, acknowledged):
        await sql.execute(END_LEASE)
    assert len(acknowledged["job"]) > 100

    async with asyncio.timeout(20):
        # A killed process' last transaction may still be on its way to its end.
        while await sql.fetchval(  # noqa: ASYNC110 - the server does not say
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'alkstore' AND state <> 'idle'"
        ):
            await asyncio.sleep(0.05)
    left = {id_ for (id_,) in await sql.fetch("SELECT id FROM alkstore.__alkstore_jobs")}
    done = {id_ for (id_,) in await sql.fetch("SELECT id FROM done")}
    assert set() == acknowledged["job"] - left - done

    stored = await sql.fetch('SELECT "offset" FROM alkstore.__alkstore_events ORDER BY 1')
    offsets = [offset for (offset,) in stored]
    assert set() == acknowledged["event"] - set(offsets)
    async with asyncio.timeout(20):
        while len(seen) < len(offsets):  # noqa: ASYNC110 - the reader does not say
            await asyncio.sleep(0.02)
    assert offsets == seen
    await events.close()
    await reading
    assert offsets[-1] == await store.stream("news").get_offset("reader")

    (now,) = await store.schedules()
    fired = (await store.queue("ticks").stats()).ready
    assert now.next_fire_at - schedule.next_fire_at == fired > 5
    assert 0 == await sql.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
