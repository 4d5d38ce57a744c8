"""Rates against the plain `sqlite3` module doing the same row work."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from raw import PAYLOAD, RawFile, create
from scene import Row, Sample, Stopwatch, Target, Workload, options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alkstore_core import TxHandle
    from scene import Scene, Synchronous

SECONDS = 0.8
"""How long each side of a round runs."""

PRODUCERS = 50
BATCH = 100
PREFILLED = 20_000
"""Jobs that wait before claims are measured; a side that is through before its time is up ends."""

WARM_UP = 20


async def enqueue_single(store: SqliteStore, seconds: float) -> float:
    """Await one enqueue after the other."""
    queue = store.queue("bench")
    for _ in range(WARM_UP):
        await queue.enqueue(PAYLOAD)
    return await _one_by_one(lambda: queue.enqueue(PAYLOAD), seconds)


async def enqueue_concurrent(store: SqliteStore, seconds: float) -> float:
    """Fifty tasks, each awaiting one enqueue after the other."""
    queue = store.queue("bench")
    return await _concurrently(lambda: queue.enqueue(PAYLOAD), seconds)


async def publish_concurrent(store: SqliteStore, seconds: float) -> float:
    """Fifty tasks, each awaiting one publish after the other."""
    stream = store.stream("bench")
    return await _concurrently(lambda: stream.publish(PAYLOAD), seconds)


async def claim_and_ack_singly(store: SqliteStore, seconds: float) -> float:
    """Claim a hundred, then a hundred concurrent `handle.ack()`."""
    queue = store.queue("bench")
    done = 0
    watch = Stopwatch(seconds)
    while watch.running:
        with watch.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await asyncio.gather(*(handle.ack() for handle in handles))
        _all_done(sum(acked), len(handles))
        done += len(handles)
        if not handles:
            break
    return done / watch.elapsed


async def claim_and_ack_batch(store: SqliteStore, seconds: float) -> float:
    """Claim a hundred, then one `ack_batch`."""
    queue = store.queue("bench")
    done = 0
    watch = Stopwatch(seconds)
    while watch.running:
        with watch.span():
            handles = await queue.claim_batch("worker", BATCH)
            acked = await queue.ack_batch(handles, "worker")
        _all_done(acked, len(handles))
        done += len(handles)
        if not handles:
            break
    return done / watch.elapsed


async def transactions(store: SqliteStore, seconds: float) -> float:
    """One enqueue and one publish in each transaction of our own."""
    queue, stream = store.queue("bench"), store.stream("bench")

    async def both(tx: TxHandle) -> None:
        await tx.enqueue_tx(queue, PAYLOAD)
        await tx.publish_tx(stream, PAYLOAD)
        await tx.commit()

    async def once() -> None:
        async with store.begin_tx() as tx:
            await both(tx)

    return await _one_by_one(once, seconds)


def reads(page: int) -> Callable[[SqliteStore, float], Awaitable[float]]:
    """Read a stream from its start, page by page, again and again."""

    async def read(store: SqliteStore, seconds: float) -> float:
        stream = store.stream("bench")
        done = after = 0
        watch = Stopwatch(seconds)
        while watch.running:
            with watch.span():
                events = await stream.read_since(after, page)
            done += len(events)
            after = events[-1].offset if len(events) == page else 0
        return done / watch.elapsed

    return read


def raw_reads(page: int) -> Callable[[RawFile, float], float]:
    """The same pages as tuples."""

    def read(raw: RawFile, seconds: float) -> float:
        done = after = 0
        watch = Stopwatch(seconds)
        while watch.running:
            with watch.span():
                events = raw.read(after, page)
            done += len(events)
            after = events[-1][0] if len(events) == page else 0
        return done / watch.elapsed

    return read


def raw_claim_and_delete(raw: RawFile, seconds: float) -> float:
    """Claim a hundred in one commit, delete a hundred in one commit."""
    done = 0
    watch = Stopwatch(seconds)
    while watch.running:
        with watch.span():
            claimed = raw.claim(BATCH)
            raw.delete(claimed)
        done += len(claimed)
        if not claimed:
            break
    return done / watch.elapsed


def raw_rows(step: Callable[[RawFile], object]) -> Callable[[RawFile, float], float]:
    """One row, one commit."""

    def rows(raw: RawFile, seconds: float) -> float:
        for _ in range(WARM_UP):
            step(raw)
        done, start = 0, time.perf_counter()
        while (now := time.perf_counter()) < start + seconds:
            step(raw)
            done += 1
        return done / (now - start)

    return rows


def versus(
    name: str,
    synchronous: Synchronous,
    bound: float | None,
    ours: Callable[[SqliteStore, float], Awaitable[float]],
    raw: Callable[[RawFile, float], float],
    *,
    jobs: int = 0,
    events: int = 0,
    unit: str = "jobs/s",
) -> Workload:
    """Measure raw, ours, raw, ours, …; each side of each round on a new file."""
    row = Row(
        name=f"{synchronous} {name}",
        unit=unit,
        target=None if bound is None else Target(bound=bound),
    )

    async def rounds(scene: Scene) -> AsyncIterator[Sample]:
        seconds = scene.seconds(SECONDS)
        for _ in range(scene.rounds):
            with scene.file() as path:
                await create(path, synchronous)
                with RawFile(path, synchronous) as file:
                    file.fill(scene.count(jobs, 200) if jobs else 0)
                    file.fill_stream(scene.count(events, 200) if events else 0)
                    reference = raw(file, seconds)
            with scene.file() as path:
                await create(path, synchronous)
                with RawFile(path, synchronous) as file:
                    file.fill(scene.count(jobs, 200) if jobs else 0)
                    file.fill_stream(scene.count(events, 200) if events else 0)
                async with SqliteStore(path, opts=options(synchronous)) as store:
                    rate = await ours(store, seconds)
            yield Sample(row=row.name, ours=rate, reference=reference)

    return Workload(rows=(row,), rounds=rounds)


def _suite(
    synchronous: Synchronous, single: float, producers: float, acks: float, batch: float
) -> list[Workload]:
    enqueue = raw_rows(lambda raw: raw.enqueue())
    publish = raw_rows(lambda raw: raw.publish())
    both = raw_rows(lambda raw: raw.enqueue_and_publish())
    full = synchronous == "FULL"
    return [
        versus("enqueue, one awaited", synchronous, single, enqueue_single, enqueue),
        versus("enqueue, 50 producers", synchronous, producers, enqueue_concurrent, enqueue),
        versus(
            "claim 100 + 100 concurrent acks",
            synchronous,
            acks,
            claim_and_ack_singly,
            raw_claim_and_delete,
            jobs=PREFILLED,
        ),
        versus(
            "claim 100 + ack_batch",
            synchronous,
            batch,
            claim_and_ack_batch,
            raw_claim_and_delete,
            jobs=PREFILLED,
        ),
        versus(
            "publish, 50 producers",
            synchronous,
            5 if full else None,
            publish_concurrent,
            publish,
            unit="events/s",
        ),
        versus(
            "transaction: enqueue + publish", synchronous, None, transactions, both, unit="tx/s"
        ),
    ]


async def _one_by_one(step: Callable[[], Awaitable[object]], seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while (now := time.perf_counter()) < start + seconds:
        await step()
        done += 1
    return done / (now - start)


async def _concurrently(step: Callable[[], Awaitable[object]], seconds: float) -> float:
    async def producer() -> int:
        done = 0
        while time.perf_counter() < deadline:
            await step()
            done += 1
        return done

    for _ in range(WARM_UP):
        await step()
    start = time.perf_counter()
    deadline = start + seconds
    done = await asyncio.gather(*(producer() for _ in range(PRODUCERS)))
    return sum(done) / (time.perf_counter() - start)


def _all_done(acked: int, claimed: int) -> None:
    if acked != claimed:
        message = f"{claimed} jobs were claimed but {acked} acked: this measures something else"
        raise RuntimeError(message)


ALL = [
    *_suite("FULL", 0.4, 5, 0.3, 0.5),
    *_suite("NORMAL", 0.2, 1.5, 0.25, 0.4),
    *(
        versus(
            f"read_since, pages of {page}",
            "FULL",
            0.4,
            reads(page),
            raw_reads(page),
            events=PREFILLED,
            unit="events/s",
        )
        for page in (100, 1000)
    ),
]
