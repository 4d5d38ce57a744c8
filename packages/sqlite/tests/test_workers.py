"""Worker processes under load that are killed or terminated: nothing lost, nothing at once."""

import asyncio
import collections
import itertools
import random
import signal
import sqlite3
import time

import attrs
import pytest

from alkstore_core import QueueOpts
from alkstore_core.worker import Worker
from alkstore_sqlite import SqliteStore

VISIBILITY_S = 2
# Whole seconds, the queue's look at the time once a second, and a machine that is busy.
SLACK_S = 2 + 15


@attrs.define
class Handling:
    """One call of a handler."""

    attempt: int
    began: float
    ended: float | None = None
    killed: bool = False


class Records:
    """What the workers said: which handler ran when."""

    def __init__(self):
        self.of_job = collections.defaultdict(list)
        self.of_child = collections.defaultdict(list)

    async def follow(self, child):
        """Read a child to its end, which is when its handlers ended that did not say so."""
        while (line := await child.line(within=60)) is not None:
            word, *rest = line.split()
            if word == "began":
                handling = Handling(int(rest[1]), float(rest[2]))
                self.of_job[int(rest[0])].append(handling)
                self.of_child[child].append((int(rest[0]), handling))
            elif word == "ended":
                (mine,) = (
                    h
                    for number, h in self.of_child[child]
                    if (number, h.attempt) == (int(rest[0]), int(rest[1])) and h.ended is None
                )
                mine.ended = float(rest[2])
        for _, handling in self.of_child[child]:
            if handling.ended is None:
                handling.ended, handling.killed = time.monotonic(), True

    def overlaps(self):
        """Jobs that two handlers had at the same time."""
        return [
            number
            for number, all_of_it in self.of_job.items()
            for one, next_ in itertools.pairwise(sorted(all_of_it, key=lambda h: h.began))
            if next_.began < one.ended
        ]

    def longest_return(self):
        """The longest time from the end of a killed process to the next handler of its job."""
        waits = [
            next_.began - one.ended
            for all_of_it in self.of_job.values()
            for one, next_ in itertools.pairwise(sorted(all_of_it, key=lambda h: h.began))
            if one.killed
        ]
        return max(waits, default=0)


@pytest.fixture
async def crew(spawn, path):
    """Start workers, and follow what they say."""
    records, following = Records(), []

    async def start(name, grace=20):
        worker = spawn("handling.py", path, name, grace)
        await worker.expect("ready")
        following.append(asyncio.create_task(records.follow(worker)))
        return worker

    start.records = records
    start.following = following
    yield start
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


async def emptied(store, within):
    """Wait until no job is left."""
    async with asyncio.timeout(within):
        while await store.queue("work").jobs(limit=1):  # noqa: ASYNC110 - others empty it
            await asyncio.sleep(0.05)


@pytest.mark.once
@pytest.mark.timeout(300)
async def test_killed_workers_lose_nothing_and_overlap_nowhere(path, crew, integrity, scaled):
    """SIGKILL under load: each job is handled to its end, by one handler at a time.

    What a dead worker held comes back within its visibility timeout.
    """
    jobs, kills = scaled(400, 6_000), scaled(4, 40)
    dice = random.Random(11)
    options = QueueOpts(visibility_timeout_s=VISIBILITY_S, max_attempts=1_000)
    async with SqliteStore(path) as store:
        queue = store.queue("work", options)
        workers = [await crew(f"w{n}") for n in range(3)]
        ids = []
        for number in range(kills):
            ids += await queue.enqueue_many(range(jobs // kills))
            await asyncio.sleep(dice.uniform(0.05, 0.4))
            victim = workers.pop(dice.randrange(3))
            victim.kill()
            workers.append(await crew(f"w{3 + number}"))
        await emptied(store, within=120)
        stats = await queue.stats()
    for worker in workers:
        worker.process.send_signal(signal.SIGTERM)
    await asyncio.gather(*crew.following)
    for worker in workers:
        await worker.succeed()

    assert 0 == stats.dead
    assert set(ids) == set(crew.records.of_job)
    for all_of_it in crew.records.of_job.values():
        assert any(not handling.killed for handling in all_of_it)
    assert [] == crew.records.overlaps()
    assert any(h.killed for all_of_it in crew.records.of_job.values() for h in all_of_it)
    assert crew.records.longest_return() <= VISIBILITY_S + SLACK_S
    assert "ok" == integrity()


@pytest.mark.once
@pytest.mark.timeout(300)
async def test_terminated_workers_give_everything_back_at_once(path, crew, scaled):
    """SIGTERM under load: they end in order, no job is left claimed, no attempt is spent."""
    rounds = scaled(2, 20)
    async with SqliteStore(path) as store:
        queue = store.queue("work", QueueOpts(visibility_timeout_s=300))
        for number in range(rounds):
            workers = [await crew(f"r{number}-{n}", grace=0) for n in range(3)]
            await queue.enqueue_many(range(300))
            before = len(crew.records.of_job)
            async with asyncio.timeout(60):
                while len(crew.records.of_job) < before + 30:  # noqa: ASYNC110 - others do it
                    await asyncio.sleep(0.01)
            for worker in workers:
                worker.process.send_signal(signal.SIGTERM)
            for task in crew.following:
                await task
            for worker in workers:
                await worker.succeed()
            stats = await queue.stats()
            left = await queue.jobs(limit=100_000)

            assert 0 == stats.processing
            assert [] == [job.id for job in left if job.attempts]
            assert [] == crew.records.overlaps()
        await crew("last")
        await emptied(store, within=120)
        assert 0 == (await queue.stats()).dead
        assert rounds * 300 == len(crew.records.of_job)


@pytest.mark.once
@pytest.mark.timeout(120)
async def test_a_worker_cut_off_goes_before_its_claims(path):
    """While somebody else keeps the file locked no heartbeat lands: handlers go in time.

    When the lock is gone all jobs are done, by one handler at a time, and none is lost.
    """
    visibility, jobs = 3, 5
    began, gone = collections.defaultdict(list), {}
    all_begun = asyncio.Event()
    locked = True

    async def handler(payload):
        began[payload].append(time.monotonic())
        if len(began) == jobs:
            all_begun.set()
        try:
            await asyncio.sleep(60 if locked else 0)
        except asyncio.CancelledError:
            gone[payload] = time.monotonic()
            raise

    async with SqliteStore(path) as store, SqliteStore(path) as near:
        queue = store.queue("work", QueueOpts(visibility_timeout_s=visibility))
        await queue.enqueue_many(range(jobs))
        workers = [
            asyncio.create_task(Worker(store, "work", handler, grace=0).run()),
            asyncio.create_task(Worker(near, "work", handler, grace=0).run()),
        ]
        async with asyncio.timeout(20):
            await all_begun.wait()
        intruder = sqlite3.connect(path, isolation_level=None)
        intruder.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(30):
            while len(gone) < jobs:  # noqa: ASYNC110 - time decides, not an event
                await asyncio.sleep(0.01)
        locked = False
        intruder.execute("ROLLBACK")
        intruder.close()
        await emptied(store, within=60)
        assert [] == [task for task in workers if task.done()]
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert 0 == (await queue.stats()).dead

    assert [2] * jobs == [len(times) for times in began.values()]
    for payload, (first, second) in began.items():
        # Every heartbeat that may have landed lay before the lock.
        assert first < gone[payload] < second
