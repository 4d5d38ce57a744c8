"""Several processes at one database, or several clients where there is one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._elsewhere import client, elsewhere, time_passes
from alkstore_contract.traces import expect_nothing, write_everything
from alkstore_core import QueueOpts, StopToken

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_contract.suite._elsewhere import Talk
    from alkstore_core import Store

JOBS = 30


async def produce(store: Store, line: Talk, who: int) -> None:
    """Enqueue jobs, call by call and in transactions."""
    for number in range(0, JOBS, 2):
        await store.queue("work").enqueue([who, number])
        async with store.transaction() as tx:
            await tx.enqueue_tx("work", [who, number + 1])
    line.say("over")


async def work(store: Store, line: Talk, who: int) -> None:
    """Do jobs and tell of each, until one says it is over."""
    queue = store.queue("work")
    async with queue.wakes() as wakes:
        while True:
            handle = await queue.claim_one(f"worker {who}")
            if handle is None:
                await wakes.recv()
                continue
            payload = handle.job.payload.decode()
            expect(await handle.ack(), f"the ack of {payload} was refused")
            line.say(payload)
            if payload == '"over"':
                return


@prop("processes.once", decided="Queues/Claim", group="process", seconds=60)
async def once(case: Case) -> None:
    """Producers and workers in several processes: each job is done once."""
    store = await client(case)
    workers = [await elsewhere(case, work, who) for who in range(3)]
    producers = [await elsewhere(case, produce, who) for who in range(2)]
    for producer in producers:
        await producer.hear()
    await store.queue("work").enqueue_many(["over"] * len(workers))
    done: list[str] = []

    async def listen(worker: Any) -> None:
        while (payload := await worker.hear()) != '"over"':
            done.append(payload)
        await worker.end()

    await asyncio.gather(*(listen(worker) for worker in workers))
    expected = sorted(f"[{who},{number}]" for who in range(2) for number in range(JOBS))
    expect_equal(sorted(done), expected, "the jobs that were done")


async def claim_and_hang(store: Store, line: Talk) -> None:
    """Claim a job and do nothing with it."""
    handle = await store.queue("work").claim_one("doomed")
    line.say(None if handle is None else handle.job.attempts)
    await line.hear()


@prop("processes.killed.worker", decided="Queues/Claim", group="process")
async def killed_worker(case: Case) -> None:
    """The job of a worker that was killed comes back when its claim has lapsed, with a wake."""
    store = await client(case)
    await store.queue("work", QueueOpts(visibility_timeout_s=1)).enqueue("job")
    worker = await elsewhere(case, claim_and_hang)
    expect_equal(await worker.hear(), 1, "the doomed worker's attempt")
    await worker.kill()
    async with store.queue("work").wakes() as wakes:
        await time_passes(case, 2)
        while (handle := await store.queue("work").claim_one("heir")) is None:
            await wakes.recv()
    expect_equal((handle.job.payload, handle.job.attempts), (b'"job"', 2), "the job")


async def begin_and_hang(store: Store, line: Talk) -> None:
    """Write in a transaction that is never committed."""
    tx = await store.begin_tx()
    await write_everything(tx)
    line.say("written")
    await line.hear()
    await tx.commit()


@prop("processes.killed.transaction", decided="Transactions/One transaction", group="process")
async def killed_transaction(case: Case) -> None:
    """Nothing is left of a transaction whose process was killed, and it is in nobody's way."""
    store = await client(case)
    other = await elsewhere(case, begin_and_hang)
    await other.hear()
    await expect_nothing(store, "while the transaction is open")
    await other.kill()
    async with asyncio.timeout(5):
        await store.queue("after").enqueue("a write")
    await expect_nothing(store, "after the process was killed")


async def listen_to_all(store: Store, line: Talk) -> None:
    """Read at each wake of a channel, a queue and a stream, and tell when there is more."""
    async with (
        store.listen("news") as channel,
        store.queue("work").wakes() as queue,
        store.stream("log").subscribe("reader") as events,
    ):
        line.say("attached")
        for number in range(1, 6):
            # A wake may come twice; one that came before its commit would be the last one.
            while len(await store.stream("note").read_since(0, 100)) < number:
                await channel.recv()
            line.say("channel")
            while len(await store.queue("work").jobs()) < number:
                await queue.recv()
            line.say("queue")
            event = await events.recv()
            line.say(None if event is None else int(event.payload))


@prop("processes.wakes.outward", decided="Notify", group="process")
async def wakes_outward(case: Case) -> None:
    """What is committed here wakes receivers in another process, which can read it then."""
    store = await client(case)
    other = await elsewhere(case, listen_to_all)
    await other.hear()
    for number in range(1, 6):
        async with store.transaction() as tx:
            await tx.notify_tx("news", number)
            await tx.publish_tx("note", number)
        expect_equal(await other.hear(), "channel", "what woke the other process")
        await store.queue("work").enqueue(number)
        expect_equal(await other.hear(), "queue", "what woke the other process")
        await store.stream("log").publish(number)
        expect_equal(await other.hear(), number, "the event that it was given")
    await other.end()


async def commit_on_demand(store: Store, line: Talk) -> None:
    """Commit something of each kind whenever asked."""
    line.say("ready")
    while (number := await line.hear()) is not None:
        async with store.transaction() as tx:
            await tx.publish_tx("log", number)
            await tx.enqueue_tx("work", number)
            await tx.notify_tx("news", number)


@prop("processes.wakes.inward", decided="Notify", group="process")
async def wakes_inward(case: Case) -> None:
    """What another process commits wakes the receivers here, which can read it then."""
    store = await client(case)
    other = await elsewhere(case, commit_on_demand)
    await other.hear()
    async with (
        store.listen("news") as channel,
        store.queue("work").wakes() as queue,
        store.stream("log").subscribe("reader") as events,
    ):
        for number in range(1, 6):
            await other.say(number)
            while len(await store.stream("log").read_since(0, 100)) < number:
                await channel.recv()
            while len(await store.queue("work").jobs()) < number:
                await queue.recv()
            event = await events.recv()
            expect_equal(event and int(event.payload), number, "the event")
    await other.say(None)
    await other.end()


async def lock_on_demand(store: Store, line: Talk) -> None:
    """Take a lock, tell its token, and release it when told."""
    lock = await store.try_lock("door", "there", 300)
    line.say(None if lock is None else lock.token)
    await line.hear()
    line.say(lock is not None and await lock.release())


@prop("processes.locks", decided="Locks", group="process")
async def locks(case: Case) -> None:
    """A lock that one process holds cannot be taken in another, until it is released there."""
    store = await client(case)
    other = await elsewhere(case, lock_on_demand)
    token = await other.hear()
    expect(token is not None, "the free lock was not given")
    expect_equal(await store.try_lock("door", "here", 300), None, "while it is held elsewhere")
    await other.say("release")
    expect(await other.hear(), "the holder's release was refused")
    await other.end()
    lock: Any = await store.try_lock("door", "here", 300)
    expect(lock is not None, "the released lock was not given")
    expect(lock.token > token, f"token {lock.token} came after {token}")


async def lock_and_hang(store: Store, line: Talk) -> None:
    """Take a lock for a second, and do nothing more."""
    lock = await store.try_lock("door", "doomed", 1)
    line.say(lock is not None)
    await line.hear()


@prop("processes.killed.lock", decided="Locks", group="process")
async def killed_lock(case: Case) -> None:
    """The lock of a process that was killed can be taken when its lease has lapsed."""
    store = await client(case)
    other = await elsewhere(case, lock_and_hang)
    expect(await other.hear(), "the free lock was not given")
    await other.kill()
    await time_passes(case, 2)
    # Nothing announces the lapse of a lease.
    while await store.try_lock("door", "heir", 300) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def run_schedules(store: Store, line: Talk) -> None:
    """Run schedules until told to stop."""
    stop = StopToken()
    running = asyncio.ensure_future(store.run_schedules(stop))
    try:
        line.say("running")
        await line.hear()
    finally:
        stop.stop()
        await running
    line.say("over")


@prop("processes.scheduler", decided="Scheduler/Running", group="process")
async def scheduler(case: Case) -> None:
    """Runners in several processes fire each boundary once between them."""
    store = await client(case)
    runners = [await elsewhere(case, run_schedules) for _ in range(2)]
    for runner in runners:
        await runner.hear()
    schedule = await store.schedule("tick", "@every 1s", "work", 1)
    async with store.queue("work").wakes() as wakes:
        for count in (1, 2):
            await time_passes(case, 1)
            while len(await store.queue("work").jobs(limit=1_000)) < count:
                await wakes.recv()
    for runner in runners:
        await runner.say("stop")
        await runner.hear()
    (after,) = await store.schedules()
    boundaries = after.next_fire_at - schedule.next_fire_at
    jobs = await store.queue("work").jobs(limit=1_000)
    expect_equal(len(jobs), boundaries, "jobs of so many boundaries")


@prop("processes.killed.leader", decided="Scheduler/Running", group="process")
async def killed_leader(case: Case) -> None:
    """When the leading process was killed, another one leads once the lease has lapsed."""
    store = await client(case)
    leader = await elsewhere(case, run_schedules)
    await leader.hear()
    await store.schedule("tick", "@every 1s", "work", 1)
    async with store.queue("work").wakes() as wakes:
        await time_passes(case, 1)
        while not (before := await store.queue("work").jobs(limit=1_000)):
            await wakes.recv()
    lease = [lock.expires_at for lock in await store.locks()]
    await leader.kill()
    # The heir lives on the case's clock, which needs no waiting: it stands behind the lease.
    await case.advance(max(lease[0] + 1 - case.clock.now(), 0))
    heir = await case.store()
    stop = StopToken()
    running = asyncio.ensure_future(heir.run_schedules(stop))
    async with heir.queue("work").wakes() as wakes:
        while len(await heir.queue("work").jobs(limit=1_000)) <= len(before):
            await wakes.recv()
    stop.stop()
    await running


async def open_and_enqueue(store: Store, line: Talk, who: int) -> None:
    """Be there, and leave a job."""
    await store.queue("work").enqueue(who)
    line.say(who)


@prop("processes.first_open", decided="Store/Lifecycle", group="process")
async def first_open(case: Case) -> None:
    """Several processes may be the first ones to open a new database, at the same time."""
    others = [await elsewhere(case, open_and_enqueue, who) for who in range(3)]
    for other in others:
        await other.hear()
        await other.end()
    store = await client(case)
    payloads = sorted(job.payload for job in await store.queue("work").jobs())
    expect_equal(payloads, [b"0", b"1", b"2"], "what they left")


PUBLISHED = 12
UNDONE = 4
"""One of so many is rolled back."""


async def publish(store: Store, line: Talk, who: int) -> None:
    """Publish, call by call and in transactions, some of them rolled back."""
    line.say("ready")
    await line.hear()
    for number in range(PUBLISHED):
        async with store.begin_tx() as tx:
            await tx.publish_tx("log", [who, number])
            if number % UNDONE:
                await tx.commit()
        await store.stream("log").publish([who, number + 100])
    line.say("over")


@prop("processes.stream", decided="Streams/Subscribe", group="process")
async def stream(case: Case) -> None:
    """A subscriber gets every event that other processes publish at the same time, in order."""
    store = await client(case)
    others = [await elsewhere(case, publish, who) for who in range(2)]
    wanted = {
        f"[{who},{number}]"
        for who in range(2)
        for number in (*range(PUBLISHED), *range(100, 100 + PUBLISHED))
        if number % UNDONE or number >= 100  # noqa: PLR2004 - not in a transaction
    }
    for other in others:
        await other.hear()
    seen: list[str] = []
    offsets: list[int] = []
    async with store.stream("log").subscribe("reader") as events:
        for other in others:
            await other.say("go")
        async for event in events:
            seen.append(event.payload.decode())
            offsets.append(event.offset)
            if len(seen) == len(wanted):
                break
    expect_equal(sorted(seen), sorted(wanted), "the events")
    expect_equal(offsets, sorted(set(offsets)), "their offsets")
    for other in others:
        await other.end()
