"""Rates against plain asyncpg doing the same row work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from alkstore_postgres import PostgresStore
from alkstore_postgres.contract_raw import POOL, PRODUCERS
from frame import Row, Sample, Tally, Target, Workload
from scene import PAYLOAD, Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scene import ServerScene

SLICES = 4
SLICE = 0.25
"""Each side of a round runs in so many slices of so many seconds, the other side between."""

BATCH = 100
PAGE = 100
JOBS = 40_000
EVENTS = 20_000
"""What waits before claims or reads are measured; a claiming side that is through ends early."""

Ours = Callable[[PostgresStore, Tally], Awaitable[None]]
Theirs = Callable[[Raw, Tally], Awaitable[None]]
Step = Callable[[], Awaitable[object]]


async def concurrently(steps: Sequence[Step], tally: Tally) -> None:
    """Tasks that each take their step again and again, awaiting it, until the slice is over."""

    async def task(step: Step) -> int:
        done = 0
        # Once at least: a slice that is over at once would leave nothing to divide.
        while not done or time.perf_counter() < deadline:
            await step()
            done += 1
        return done

    deadline = time.perf_counter() + tally.left
    with tally.span():
        done = await asyncio.gather(*map(task, steps))
    tally.add(sum(done))


def enqueues(tasks: int) -> Ours:
    """Tasks that enqueue one job after the other."""

    async def run(store: PostgresStore, tally: Tally) -> None:
        queue = store.queue("bench")
        await concurrently([lambda: queue.enqueue(PAYLOAD)] * tasks, tally)

    return run


def publishes(tasks: int) -> Ours:
    """Tasks that publish one event after the other."""

    async def run(store: PostgresStore, tally: Tally) -> None:
        stream = store.stream("bench")
        await concurrently([lambda: stream.publish(PAYLOAD)] * tasks, tally)

    return run


async def transactions(store: PostgresStore, tally: Tally) -> None:
    """One enqueue and one publish in each transaction of our own."""

    async def once() -> None:
        async with store.begin_tx() as tx:
            await tx.enqueue_tx("bench", PAYLOAD)
            await tx.publish_tx("bench", PAYLOAD)
            await tx.commit()

    await concurrently([once], tally)


async def claim_and_ack_singly(store: PostgresStore, tally: Tally) -> None:
    """Claim a hundred, then a hundred concurrent `handle.ack()`."""
    queue = store.queue("bench")
    while tally.running:
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await asyncio.gather(*(handle.ack() for handle in handles))
        _all_done(sum(acked), len(handles))
        tally.add(len(handles))
        if not handles:
            break


async def claim_and_ack_batch(store: PostgresStore, tally: Tally) -> None:
    """Claim a hundred, then one `ack_batch`."""
    queue = store.queue("bench")
    while tally.running:
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await queue.ack_batch(handles, "worker")
        _all_done(acked, len(handles))
        tally.add(len(handles))
        if not handles:
            break


async def reads(store: PostgresStore, tally: Tally) -> None:
    """Read a stream from its start, page by page, again and again."""
    stream = store.stream("bench")
    after = 0
    while tally.running:
        with tally.span():
            found = await stream.read_since(after, PAGE)
        tally.add(len(found))
        after = found[-1].offset if len(found) == PAGE else 0


async def raw_reads(raw: Raw, tally: Tally) -> None:
    """The same pages as records."""
    after = 0
    while tally.running:
        with tally.span():
            found = await raw.one.read(after, PAGE)
        tally.add(len(found))
        after = found[-1]["offset"] if len(found) == PAGE else 0


async def raw_claim_and_delete(raw: Raw, tally: Tally) -> None:
    """Claim a hundred in one commit, delete a hundred in one commit."""
    while tally.running:
        with tally.span():
            claimed = await raw.one.claim(BATCH)
            await raw.one.delete(claimed)
        tally.add(len(claimed))
        if not claimed:
            break


def raw_steps(steps: Callable[[Raw], Sequence[Step]]) -> Theirs:
    """Tasks that each do one row and one commit after the other."""

    async def run(raw: Raw, tally: Tally) -> None:
        await concurrently(steps(raw), tally)

    return run


def versus(
    name: str,
    bound: float | None,
    ours: Ours,
    theirs: Theirs,
    *,
    jobs: int = 0,
    events: int = 0,
    connections: int = 1,
    unit: str = "jobs/s",
) -> Workload:
    """Measure raw, ours, raw, ours, …; each side of each round in a new schema."""
    target = None if bound is None else Target(bound=bound)
    row = Row(name=name, unit=unit, target=target)

    async def rounds(scene: ServerScene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            async with AsyncExitStack() as stack:
                raw_schema = await stack.enter_async_context(scene.schema())
                our_schema = await stack.enter_async_context(scene.schema())
                for schema in (raw_schema, our_schema):
                    if jobs:
                        await scene.fill(schema, scene.count(jobs, BATCH))
                    if events:
                        await scene.fill_stream(schema, scene.count(events, BATCH))
                await scene.settle()
                raw = await stack.enter_async_context(scene.raw(raw_schema, connections))
                store = await stack.enter_async_context(scene.store(our_schema))
                reference, rate = await _take_turns(raw, theirs, store, ours, scene.seconds(SLICE))
            yield Sample(row=row.name, ours=rate, reference=reference)

    return Workload(rows=(row,), rounds=rounds)


async def _take_turns(
    raw: Raw, theirs: Theirs, store: PostgresStore, ours: Ours, seconds: float
) -> tuple[float, float]:
    raws, mine = Tally(), Tally()
    for number in range(1 + SLICES):
        if number == 1:
            # So far it was the warm-up: statements are prepared, connections made.
            raws, mine = Tally(), Tally()
        raws.more(seconds)
        await theirs(raw, raws)
        mine.more(seconds)
        await ours(store, mine)
    return raws.rate, mine.rate


def _all_done(acked: int, claimed: int) -> None:
    if acked != claimed:
        message = f"{claimed} jobs were claimed but {acked} acked: this measures something else"
        raise RuntimeError(message)


ALL = [
    versus("enqueue, one awaited", 0.6, enqueues(1), raw_steps(lambda raw: [raw.one.enqueue])),
    versus(
        f"enqueue, {PRODUCERS} producers, against asyncpg's pool of {POOL}",
        5,
        enqueues(PRODUCERS),
        raw_steps(lambda raw: [raw.pool.enqueue] * PRODUCERS),
    ),
    versus(
        f"enqueue, {PRODUCERS} producers, against {POOL} bare connections",
        None,
        enqueues(PRODUCERS),
        raw_steps(lambda raw: [each.enqueue for each in raw.rows]),
        connections=POOL,
    ),
    versus(
        "claim 100 + 100 concurrent acks",
        0.35,
        claim_and_ack_singly,
        raw_claim_and_delete,
        jobs=JOBS,
    ),
    versus("claim 100 + ack_batch", 0.6, claim_and_ack_batch, raw_claim_and_delete, jobs=JOBS),
    versus(
        "publish, one awaited",
        None,
        publishes(1),
        raw_steps(lambda raw: [raw.one.publish]),
        unit="events/s",
    ),
    versus(
        f"publish, {PRODUCERS} producers, against {POOL} bare connections",
        None,
        publishes(PRODUCERS),
        raw_steps(lambda raw: [each.publish for each in raw.rows]),
        connections=POOL,
        unit="events/s",
    ),
    versus(
        "transaction: enqueue + publish",
        None,
        transactions,
        raw_steps(lambda raw: [raw.one.enqueue_and_publish]),
        unit="tx/s",
    ),
    versus(f"read_since, pages of {PAGE}", None, reads, raw_reads, events=EVENTS, unit="events/s"),
]
