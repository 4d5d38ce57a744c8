"""A process killed at any instant: what it was promised is there, what it was not is whole."""

import asyncio
import collections
import random
import time

import pytest

from alkstore_core import ManualClock
from alkstore_sqlite import SqliteStore


async def pages(read, position):
    """Everything that a paged read gives."""
    found, after = [], 0
    while page := await read(after):
        found += page
        after = position(page[-1])
    return found


async def all_jobs(queue):
    """Every live job of a queue."""
    return await pages(lambda after: queue.jobs(limit=1000, after_id=after), lambda job: job.id)


async def all_events(stream):
    """Every event of a stream."""
    return await pages(lambda after: stream.read_since(after, 1000), lambda event: event.offset)


async def kill_in_full_flight(spawn, path, first, instant, *, after=None):
    """Let 50 tasks write for `instant` seconds, kill them, return what they said.

    With `after` the time begins when that word was said for the first time.
    """
    child = spawn("group_writer.py", path, first)
    await child.expect("ready")
    said = collections.defaultdict(set)
    begun = asyncio.Event()

    async def follow() -> None:
        while (line := await child.line()) is not None:
            word, number = line.split()
            said[word].add(int(number))
            if word == after:
                begun.set()

    following = asyncio.create_task(follow())
    if after is not None:
        async with asyncio.timeout(30):
            await begun.wait()
    await asyncio.sleep(instant)
    child.kill()
    await following
    return said


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_kill_loses_no_acknowledged_write(path, sql, spawn, integrity, scaled, seed):
    """After SIGKILL at random instants of group commits every promise holds and nothing is
    half there; the next writer is not kept waiting.
    """
    sql("CREATE TABLE orders (number INTEGER NOT NULL)")
    dice = random.Random(seed)
    said = collections.defaultdict(set)
    for turn in range(scaled(5, 40)):
        latest = await kill_in_full_flight(
            spawn,
            path,
            turn * 1_000_000,
            dice.uniform(0.02, 0.5),
            after=["acked", "published", "moved", None][turn % 4],
        )
        killed_at = time.monotonic()
        for word, numbers in latest.items():
            said[word] |= numbers
        async with SqliteStore(path) as store:
            said["enqueued"].add(await store.queue("work").enqueue("the next writer"))
            assert time.monotonic() - killed_at < 2

            present = {job.id for job in await all_jobs(store.queue("work"))}
            assert said["enqueued"] - said["acking"] <= present
            assert not said["acked"] & present
            events = {event.offset for event in await all_events(store.stream("events"))}
            assert said["published"] <= events
            rows = [number for (number,) in sql("SELECT number FROM orders ORDER BY rowid")]
            jobs = [job.payload_as(int) for job in await all_jobs(store.queue("moves"))]
            moves = [event.payload_as(int) for event in await all_events(store.stream("moves"))]
            assert rows == jobs == moves
            assert said["moved"] <= set(rows)

    assert said["acked"]
    assert said["published"]
    assert said["moved"]
    assert "ok" == integrity()


async def test_jobs_in_flight_in_a_killed_process_come_back(path, sql, spawn):
    """What a killed worker had claimed is handed out again, once, after its deadline."""
    sql("CREATE TABLE orders (number INTEGER NOT NULL)")
    said = await kill_in_full_flight(spawn, path, 0, 0.2, after="claimed")
    in_flight = said["claimed"]
    assert in_flight

    # The child claimed by the wall clock and the default visibility timeout of 300 s.
    clock = ManualClock(start=int(time.time()))
    async with SqliteStore(path, clock=clock) as store:
        queue = store.queue("work")
        before = {handle.job.id for handle in await queue.claim_batch("other", 100_000)}
        assert not before & in_flight
        await clock.advance(301)
        later = await queue.claim_batch("other", 100_000)

    attempts = {handle.job.id: handle.job.attempts for handle in later}
    assert in_flight <= set(attempts)
    assert {2} == {attempts[job_id] for job_id in in_flight}


async def test_an_open_store_writes_on_after_anothers_death(path, sql, spawn):
    """A store that is open while another process dies in mid-write goes on at once."""
    sql("CREATE TABLE orders (number INTEGER NOT NULL)")
    async with SqliteStore(path) as store:
        for turn in range(3):
            await kill_in_full_flight(spawn, path, turn * 1_000_000, 0.1)
            async with asyncio.timeout(2):
                await store.queue("mine").enqueue(turn)
                async with store.transaction() as tx:
                    await tx.enqueue_tx("mine", turn)

        assert 6 == len(await store.queue("mine").jobs())


@pytest.mark.alone
async def test_the_wal_stays_small_under_load_with_readers(path, spawn, scaled):
    """Beside readers that never pause, a steady load keeps the write-ahead log under 20 MB."""
    wal = path.with_name("app.db-wal")
    seconds = scaled(4, 60)
    largest = writes = 0
    ends = time.monotonic() + seconds
    async with SqliteStore(path) as store:
        readers = [spawn("reader.py", path) for _ in range(2)]
        for reader in readers:
            await reader.expect("ready")
        queue = store.queue("work")
        async with store.stream("events").subscribe("idle"), queue.wakes():
            while time.monotonic() < ends or writes < 200 * seconds:
                await asyncio.gather(
                    *(queue.enqueue("x" * 4000) for _ in range(5)),
                    *(store.stream("events").publish("x" * 4000) for _ in range(5)),
                )
                await queue.ack_batch(await queue.claim_batch("me", 4), "me")
                writes += 11
                largest = max(largest, wal.stat().st_size)
        for reader in readers:
            reader.hang_up()
        for reader in readers:
            assert int(await reader.expect("read")) > 0

    assert largest < 20_000_000
