"""Rates against plain asyncpg doing the same row work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from alkstore_postgres.contract_raw import POOL, PRODUCERS
from calling import (
    BATCH,
    Calls,
    Step,
    claim_and_ack_batch,
    claim_and_ack_singly,
    concurrently,
    enqueues,
    publishes,
    reads,
    transactions,
)
from frame import Row, Sample, Tally, Target, Workload
from scene import Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from alkstore_core import Store
    from scene import ServerScene

SLICES = 4
SLICE = 0.25
"""Each side of a round runs in so many slices of so many seconds, the other side between."""

PAGE = 100
JOBS = 40_000
EVENTS = 20_000
"""What waits before claims or reads are measured; a claiming side that is through ends early."""

Theirs = Callable[[Raw, Tally], Awaitable[None]]


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
    ours: Calls,
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
    raw: Raw, theirs: Theirs, store: Store, ours: Calls, seconds: float
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
    versus(
        f"read_since, pages of {PAGE}", None, reads(PAGE), raw_reads, events=EVENTS, unit="events/s"
    ),
]
