"""Rates against the plain `sqlite3` module doing the same row work."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from calling import (
    BATCH,
    Calls,
    claim_and_ack_batch,
    claim_and_ack_singly,
    enqueues,
    publishes,
    reads,
    transactions,
)
from frame import Row, Sample, Tally, Target, Workload
from raw import RawFile, create
from scene import options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scene import FileScene, Synchronous

SLICES = 4
SLICE = 0.2
"""Each side of a round runs in so many slices of so many seconds, the other side between."""

PRODUCERS = 50
JOBS = 60_000
EVENTS = 20_000
"""What waits before claims or reads are measured; a claiming side that is through ends early."""

Raw = Callable[[RawFile, Tally], None]


def raw_reads(page: int) -> Raw:
    """The same pages as tuples."""

    def read(raw: RawFile, tally: Tally) -> None:
        after = 0
        while tally.running:
            with tally.span():
                events = raw.read(after, page)
            tally.add(len(events))
            after = events[-1][0] if len(events) == page else 0

    return read


def raw_claim_and_delete(raw: RawFile, tally: Tally) -> None:
    """Claim a hundred in one commit, delete a hundred in one commit."""
    while tally.running:
        with tally.span():
            claimed = raw.claim(BATCH)
            raw.delete(claimed)
        tally.add(len(claimed))
        if not claimed:
            break


def raw_rows(step: Callable[[RawFile], object]) -> Raw:
    """One row, one commit."""

    def rows(raw: RawFile, tally: Tally) -> None:
        done, deadline = 0, time.perf_counter() + tally.left
        with tally.span():
            while not done or time.perf_counter() < deadline:
                step(raw)
                done += 1
        tally.add(done)

    return rows


def versus(
    name: str,
    synchronous: Synchronous,
    bound: float | None,
    ours: Calls,
    raw: Raw,
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

    async def rounds(scene: FileScene) -> AsyncIterator[Sample]:
        for _ in range(scene.rounds):
            async with AsyncExitStack() as stack:
                raw_path = stack.enter_context(scene.file())
                our_path = stack.enter_context(scene.file())
                for path in (raw_path, our_path):
                    await create(path, synchronous)
                    with RawFile(path, synchronous) as file:
                        file.fill(scene.count(jobs, BATCH) if jobs else 0)
                        file.fill_stream(scene.count(events, BATCH) if events else 0)
                file = stack.enter_context(RawFile(raw_path, synchronous))
                store = await stack.enter_async_context(
                    SqliteStore(our_path, opts=options(synchronous))
                )
                reference, rate = await _take_turns(file, raw, store, ours, scene.seconds(SLICE))
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
        versus("enqueue, one awaited", synchronous, single, enqueues(1), enqueue),
        versus(
            f"enqueue, {PRODUCERS} producers", synchronous, producers, enqueues(PRODUCERS), enqueue
        ),
        versus(
            "claim 100 + 100 concurrent acks",
            synchronous,
            acks,
            claim_and_ack_singly,
            raw_claim_and_delete,
            jobs=JOBS,
        ),
        versus(
            "claim 100 + ack_batch",
            synchronous,
            batch,
            claim_and_ack_batch,
            raw_claim_and_delete,
            jobs=JOBS,
        ),
        versus(
            f"publish, {PRODUCERS} producers",
            synchronous,
            5 if full else None,
            publishes(PRODUCERS),
            publish,
            unit="events/s",
        ),
        versus(
            "transaction: enqueue + publish", synchronous, None, transactions, both, unit="tx/s"
        ),
    ]


async def _take_turns(
    file: RawFile, raw: Raw, store: SqliteStore, ours: Calls, seconds: float
) -> tuple[float, float]:
    raws, mine = Tally(), Tally()
    for number in range(1 + SLICES):
        if number == 1:
            # So far it was the warm-up: statements are compiled, pages and names in memory.
            raws, mine = Tally(), Tally()
        raws.more(seconds)
        raw(file, raws)
        mine.more(seconds)
        await ours(store, mine)
    return raws.rate, mine.rate


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
            events=EVENTS,
            unit="events/s",
        )
        for page in (100, 1000)
    ),
]
