"""Several producer and worker processes on one file, also when workers are killed."""

import asyncio
import collections
import random

import pytest

from alkstore_sqlite import SqliteStore

PRODUCERS = 4
WORKERS = 6


class Tally:
    """What the processes said: which jobs were promised, handled and acked, and by whom."""

    def __init__(self, expected) -> None:
        self.expected = expected
        self.made = []
        self.handled = []
        self.acked = []
        self.last_batch = {}
        self.all_handled = asyncio.Event()

    async def follow(self, child) -> None:
        """Read a child to its end."""
        while (line := await child.line(within=60)) is not None:
            word, *ids = line.split()
            getattr(self, word).extend(map(int, ids))
            if word == "handled":
                self.last_batch[child] = set(map(int, ids))
            if word == "acked" and len(set(self.acked)) == self.expected:
                self.all_handled.set()


async def start_producers(spawn, path, each):
    """Start them and let them all begin at once."""
    producers = [spawn("producer.py", path, n * each, each) for n in range(PRODUCERS)]
    for producer in producers:
        await producer.expect("ready")
    for producer in producers:
        producer.tell("go")
    return producers


async def start_worker(spawn, path, clock, number, form):
    """Start one and wait until it listens."""
    worker = spawn("worker.py", path, clock.path, f"worker-{number}", form)
    await worker.expect("ready")
    return worker


@pytest.mark.timeout(240)
async def test_each_job_is_handled_once(path, spawn, shared_clock, integrity, scaled):
    """Six batch-claiming workers handle and ack each job of four producers exactly once."""
    each = scaled(300, 6000)
    tally = Tally(PRODUCERS * each)
    # Time stands still for the claims, so nothing lapses however slow the machine is.
    workers = await asyncio.gather(
        *(start_worker(spawn, path, shared_clock, n, "batch") for n in range(WORKERS))
    )
    producers = await start_producers(spawn, path, each)

    following = [asyncio.create_task(tally.follow(child)) for child in producers + workers]
    async with asyncio.timeout(100):
        await tally.all_handled.wait()
    for worker in workers:
        worker.hang_up()
    await asyncio.gather(*following)
    for child in producers + workers:
        assert [] == await child.succeed()

    assert sorted(tally.made) == sorted(tally.handled)
    assert sorted(tally.made) == sorted(tally.acked)
    assert PRODUCERS * each == len(set(tally.made))
    assert "ok" == integrity()


@pytest.mark.timeout(240)
async def test_killed_workers_lose_no_job(path, spawn, shared_clock, integrity, scaled):
    """Jobs in flight in killed workers are handled by others; each job is acked once."""
    each = scaled(300, 6000)
    kills = scaled(5, 40)
    dice = random.Random(6)
    tally = Tally(PRODUCERS * each)
    workers = await asyncio.gather(
        *(start_worker(spawn, path, shared_clock, n, "single") for n in range(WORKERS))
    )
    producers = await start_producers(spawn, path, each)
    following = [asyncio.create_task(tally.follow(child)) for child in producers + workers]

    killed = []
    for number in range(WORKERS, WORKERS + kills):
        await asyncio.sleep(dice.uniform(0, 0.2))
        victim = workers.pop(dice.randrange(WORKERS))
        victim.kill()
        killed.append(victim)
        workers.append(await start_worker(spawn, path, shared_clock, number, "single"))
        following.append(asyncio.create_task(tally.follow(workers[-1])))
    for producer in producers:
        await asyncio.to_thread(producer.process.wait, 60)
        assert 0 == producer.process.returncode, producer.stderr
    shared_clock.advance(61)
    async with SqliteStore(path, clock=shared_clock) as store:
        async with asyncio.timeout(60):
            while await store.queue("work").jobs(limit=1):  # noqa: ASYNC110 - others empty it
                await asyncio.sleep(0.02)
    for worker in workers:
        worker.hang_up()
    await asyncio.gather(*following)
    for child in producers + workers:
        assert [] == await child.succeed()

    assert PRODUCERS * each == len(set(tally.made))
    assert set(tally.made) == set(tally.handled)
    acks = collections.Counter(tally.acked)
    assert {1} == set(acks.values())
    # An ack that landed and was not said any more can only be one of a killed worker's last.
    unsaid = set(tally.made) - set(acks)
    assert unsaid <= set().union(*(tally.last_batch.get(child, set()) for child in killed))
    assert "ok" == integrity()


async def test_no_reader_skips_an_event(path, spawn, scaled):
    """A subscriber gets each promised event of four processes once, in ascending order."""
    count = scaled(150, 2000)
    publishers = [spawn("publisher.py", path, seed, count) for seed in range(PRODUCERS)]
    for publisher in publishers:
        await publisher.expect("ready")
    received = []

    async def receive(events) -> None:
        while not received or received[-1].payload != b'"last"':
            received.append(await events.recv())

    async with SqliteStore(path) as store, store.stream("events").subscribe("me") as events:
        receiving = asyncio.create_task(receive(events))
        for publisher in publishers:
            publisher.tell("go")
        lines = await asyncio.gather(*(publisher.succeed() for publisher in publishers))
        made = {int(offset) for said in lines for line in said for offset in line.split()[1:]}
        last = await store.stream("events").publish("last")
        async with asyncio.timeout(20):
            await receiving

    assert len(made) > PRODUCERS * count
    assert sorted({*made, last}) == [event.offset for event in received]
