"""A copy from file to file, whose process is killed again and again, comes out whole."""

import os
import random
import signal

import pytest

from alkstore_core import CopyRefused, EnqueueOpts, QueueOpts, copy_store
from alkstore_sqlite import SqliteOpts, SqliteStore

KILLS = 10


@pytest.fixture
def elsewhere(tmp_path):
    """The file that is copied to."""
    return tmp_path / "target.db"


async def fill(store, rows, dice) -> None:
    """About so many rows: half events of three streams, half jobs of three queues."""
    streams = [store.stream(name) for name in ("orders", "Über", "audit")]
    queues = [store.queue(name, QueueOpts(visibility_timeout_s=1)) for name in "abc"]
    page = 500
    for number in range(0, rows, 2 * page):
        # By the wall clock, so that events have several times when there are many.
        stream, queue = dice.choice(streams), dice.choice(queues)
        async with store.transaction() as tx:
            for n in range(page):
                key = f"k{dice.randrange(5)}"
                await tx.publish_with_key_tx(stream.name, key, {"n": number + n, "é": "\0"})
        opts = EnqueueOpts(priority=dice.randrange(-2, 3), headers={"trace": str(number)})
        await queue.enqueue_many([{"n": number + n} for n in range(page)], opts)
        for handle in await queue.claim_batch("w", page // 10):
            if dice.random() < 0.5:
                await handle.fail(f"failed {handle.job.id}")
            else:
                await handle.retry("later", dice.randrange(3))
    for stream in streams:
        bounds = await stream.bounds()
        await stream.trim_to(bounds.first + 7)
        for consumer in range(5):
            await stream.save_offset(f"c{consumer}", dice.randint(0, bounds.last + 5))
    await store.schedule("nightly", "@every 1d", "a", {"run": True})
    await store.outbox("mail").enqueue({"to": "somebody"})


async def unread(store):
    """What each consumer has before it, one at a time."""
    for name in await store.streams():
        stream = store.stream(name)
        for place in await stream.consumers():
            after = place.offset
            while page := await stream.read_since(after, 1000):
                for event in page:
                    yield name, place.consumer, event.key, event.payload, event.created_at
                after = page[-1].offset


async def handed_out(store):
    """What workers would get, in their order, of a clock that has passed every time."""
    found = []
    for name in await store.queues():
        while handles := await store.queue(name).claim_batch("w", 1000):
            found += [(name, h.job.payload, h.job.priority, h.job.attempts) for h in handles]
    return found


async def buried(store):
    """Every dead job of queue a, without its id."""
    found, after = [], 0
    while page := await store.queue("a").dead_jobs(1000, after):
        found += [(j.payload, j.last_error, j.died_at, j.created_at, j.attempts) for j in page]
        after = page[-1].id
    return found


@pytest.mark.once
@pytest.mark.timeout(900)
async def test_a_copy_that_is_killed_ten_times_comes_out_whole(
    path, elsewhere, clock, spawn, scaled, integrity
):
    """Consumers' unread events and workers' jobs are equal on both sides after SIGKILLs at random
    points; nothing is there twice.
    """
    dice = random.Random(7)
    rows, batch = scaled(4_000, 100_000), scaled(50, 1000)
    async with SqliteStore(path, clock=clock) as source:
        await fill(source, rows, dice)
        await clock.advance(100)
    for kill in range(KILLS):
        where = ("copying", dice.randint(1, 7)) if kill < 8 else ("verifying", 1)
        child = spawn("copier.py", path, elsewhere, batch, *where, dice.uniform(0, 0.02))
        said = await child.rest(within=300)
        # One that was ready before its end came has copied all, and the next finds it so.
        assert child.process.returncode in ({-signal.SIGKILL} if kill < 8 else {-signal.SIGKILL, 0})
        assert kill >= 8 or not said
    child = spawn("copier.py", path, elsewhere, batch)
    (last,) = [line for line in await child.succeed(within=300) if line.startswith("whole")]
    jobs, dead, events, moved = map(int, last.split()[1:])
    assert moved == jobs + dead + events >= rows // 2
    assert integrity() == "ok"
    async with SqliteStore(path, clock=clock) as source, SqliteStore(elsewhere, clock=clock) as to:
        before = [event async for event in unread(source)]
        assert before
        assert before == [event async for event in unread(to)]
        assert await buried(source) == await buried(to) != []
        assert await source.schedules() == await to.schedules()
        assert await handed_out(source) == await handed_out(to) != []


async def test_a_publisher_of_another_process_is_noticed(path, elsewhere, spawn):
    """A copy beside somebody who goes on publishing is refused."""
    async with SqliteStore(path) as source, SqliteStore(elsewhere) as target:
        await source.stream("events").publish_many(list(range(3000)))
        child = spawn("publisher.py", path, 1, 1_000_000)
        await child.expect("ready")
        child.tell("go")
        await child.expect("made")
        with pytest.raises(CopyRefused, match=r"somebody writes|still open|has changed"):
            await copy_store(source, target)


@pytest.mark.parametrize("write", ["publish_tx", "enqueue_tx"])
async def test_an_open_transaction_of_another_store_is_noticed(path, elsewhere, write):
    """What it is about to commit would be missing from the copy."""
    hasty = SqliteOpts(busy_timeout=0.2)
    async with (
        SqliteStore(path, opts=hasty) as source,
        SqliteStore(path) as other,
        SqliteStore(elsewhere) as target,
    ):
        await source.stream("s").publish(1)
        async with other.transaction() as tx:
            await getattr(tx, write)("s", 2)
            with pytest.raises(CopyRefused, match="somebody writes to the source"):
                await copy_store(source, target)
        await copy_store(source, target)
        copied = await target.stream("s").read_since(0, 9)
        assert 2 == len(copied) + len(await target.queue("s").jobs())


async def test_lapsed_claims_may_be_copied(store, clock, elsewhere):
    """What a killed worker held is taken up on the other side like here."""
    await store.queue("work", QueueOpts(visibility_timeout_s=5)).enqueue("left")
    await store.queue("work").claim_one("killed")
    async with SqliteStore(elsewhere, clock=clock) as target:
        with pytest.raises(CopyRefused, match="live claims"):
            await copy_store(store, target)
        await clock.advance(6)
        await copy_store(store, target)
        handle = await target.queue("work").claim_one("next")
        assert (handle.job.payload, handle.job.attempts) == (b'"left"', 2)


@pytest.mark.parametrize("second", [os.link, os.symlink, None])
async def test_one_file_under_two_names_is_refused(path, elsewhere, second):
    """Hard links too, in which SQLite sees two databases; nothing is written by either name."""
    async with SqliteStore(path) as source:
        await source.queue("q").enqueue(1)
    if second is None:
        elsewhere = path
    else:
        second(path, elsewhere)
    async with SqliteStore(path) as source, SqliteStore(elsewhere) as target:
        for one, other in ((source, target), (target, source)):
            with pytest.raises(CopyRefused, match="source and target are one database"):
                await copy_store(one, other)
        assert [] == await target.locks()
        assert [] == await source.schedules() == await target.schedules()
    async with SqliteStore(path) as source:
        assert [1] == [job.payload_as(int) for job in await source.queue("q").jobs()]
