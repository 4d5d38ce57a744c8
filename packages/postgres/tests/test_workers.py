"""Workers and consumers on a server: killed, terminated, cut off, and two at the same event.

`ALKSTORE_STRESS=full` makes the first one long.
"""

import asyncio
import collections
import itertools
import os
import random
import signal
import time

import attrs
import pytest
from sqlalchemy import text

from alkstore_core import QueueOpts
from alkstore_core.sql import SqlTxHandle
from alkstore_core.worker import Consumer, Worker
from alkstore_postgres import PostgresOpts, PostgresStore

FULL = os.environ.get("ALKSTORE_STRESS") == "full"
JOBS, ENDINGS = (8_000, 40) if FULL else (400, 4)
VISIBILITY_S = 2
# Whole seconds, the queue's look at the time once a second, and a machine that is busy.
SLACK_S = 2 + 15
FREE_LOCK = "DELETE FROM alkstore.__alkstore_locks WHERE name = $1"


@attrs.define
class Handling:
    """One call of a handler."""

    attempt: int
    began: float
    ended: float | None = None
    killed: bool = False


class Crew:
    """Worker processes and what they say: which handler ran when."""

    def __init__(self, spawn, url):
        self._spawn, self._url = spawn, url
        self._number = itertools.count()
        self.hearing = []
        self.of_job = collections.defaultdict(list)

    async def join(self):
        """Start one."""
        child = await self._spawn("handling.py", self._url, f"w{next(self._number)}")
        self.hearing.append(asyncio.create_task(self._hear(child)))
        return child

    async def _hear(self, child):
        mine = {}
        async for line in child.stdout:
            if not line.endswith(b"\n"):
                break
            word, *rest = line.decode().split()
            if word == "began":
                handling = Handling(int(rest[1]), float(rest[2]))
                self.of_job[int(rest[0])].append(handling)
                mine[rest[0], rest[1]] = handling
            elif word == "ended":
                mine.pop((rest[0], rest[1])).ended = float(rest[2])
        await child.wait()
        for handling in mine.values():
            handling.ended, handling.killed = time.monotonic(), True

    def neighbours(self):
        """Each call of a handler with the next one for the same job."""
        for number, handlings in self.of_job.items():
            for one, after in itertools.pairwise(sorted(handlings, key=lambda h: h.began)):
                yield number, one, after


async def empty(queue, within):
    """Wait until no job is left."""
    async with asyncio.timeout(within):
        while await queue.jobs(limit=1):  # noqa: ASYNC110 - others empty it
            await asyncio.sleep(0.05)


@pytest.mark.once
@pytest.mark.timeout(400)
async def test_killed_and_terminated_workers_lose_nothing(postgres_url, store, spawn):
    """SIGKILL and SIGTERM under load: each job handled to its end, by one handler at a time.

    What a dead worker held comes back within its visibility timeout; what one that was told to
    end held comes back at once.
    """
    dice = random.Random(5)
    options = QueueOpts(visibility_timeout_s=VISIBILITY_S, max_attempts=1_000)
    queue = store.queue("work", options)
    crew = Crew(spawn, postgres_url)
    workers = [await crew.join() for _ in range(3)]
    ids = []
    for number in range(ENDINGS):
        ids += await queue.enqueue_many(range(JOBS // ENDINGS))
        await asyncio.sleep(dice.uniform(0.05, 0.4))
        victim = workers.pop(dice.randrange(3))
        victim.send_signal(signal.SIGTERM if number % 2 else signal.SIGKILL)
        workers.append(await crew.join())
    await empty(queue, within=200)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    await asyncio.gather(*crew.hearing)
    killed = [h for handlings in crew.of_job.values() for h in handlings if h.killed]

    assert [0, 0, 0] == [worker.returncode for worker in workers]
    assert 0 == (await queue.stats()).dead
    assert set(ids) == set(crew.of_job)
    assert killed
    assert [] == [number for number, one, after in crew.neighbours() if after.began < one.ended]
    waits = [after.began - one.ended for _, one, after in crew.neighbours() if one.killed]
    assert max(waits) <= VISIBILITY_S + SLACK_S


@pytest.mark.timeout(200)
async def test_a_worker_cut_off_goes_before_its_claims(postgres_url, store, proxy_to):
    """Without a database its handler is cancelled before others get the job; then all is done."""
    proxy = await proxy_to(postgres_url)
    options = QueueOpts(visibility_timeout_s=4, max_attempts=1_000)
    (number,) = await store.queue("work", options).enqueue_many([None])
    far, near = [], []
    begun, done = asyncio.Event(), asyncio.Event()

    async def cut_off():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            far.append(time.monotonic())
            raise

    async def successor():
        near.append(time.monotonic())
        done.set()

    async with PostgresStore(proxy.url, opts=PostgresOpts(migrate=False)) as away:
        lost = asyncio.create_task(Worker(away, "work", cut_off, grace=0).run())
        await begun.wait()
        proxy.refuse()
        proxy.cut()
        other = asyncio.create_task(Worker(store, "work", successor).run())
        async with asyncio.timeout(60):
            await done.wait()
        proxy.refuse(refusing=False)
        await empty(store.queue("work"), within=60)
        assert not lost.done()
        for task in (lost, other):
            task.cancel()
        await asyncio.gather(lost, other, return_exceptions=True)

    assert 1 == len(far) == len(near)
    assert far[0] < near[0]
    assert await store.queue("work").get_job(number) is None


async def test_two_that_take_themselves_for_live_write_once(store, postgres_url, sql):
    """With its lock stolen, a consumer under way and its successor meet at the offset's row."""
    await sql.execute("CREATE TABLE effects (who text)")
    await store.stream("s").publish(None)
    begun, go = asyncio.Event(), asyncio.Event()
    calls = []

    def writing(who, wait):
        async def handler(tx: SqlTxHandle):
            calls.append(who)
            await tx.connection.execute(text("INSERT INTO effects VALUES (:who)"), {"who": who})
            begun.set()
            if wait:
                await go.wait()

        return handler

    first = Consumer(store, "s", "c", writing("first", wait=True))
    async with PostgresStore(postgres_url) as other:
        second = Consumer(other, "s", "c", writing("second", wait=False))
        tasks = [asyncio.create_task(first.run())]
        await begun.wait()
        await sql.execute(FREE_LOCK, first.lock)
        tasks.append(asyncio.create_task(second.run()))
        async with asyncio.timeout(60):
            while not await sql.fetchval(  # noqa: ASYNC110 - the server has no event of ours
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND query ILIKE '%consumers%'"
            ):
                await asyncio.sleep(0.01)
        go.set()
        await store.stream("s").publish(None)
        async with asyncio.timeout(60):
            while await store.stream("s").get_offset("c") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert 2 == await sql.fetchval("SELECT count(*) FROM effects")
    assert "first" == calls[0]
