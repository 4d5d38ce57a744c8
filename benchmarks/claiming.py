"""Claims with many jobs in the table, against claims with next to none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calling import BATCH, PAYLOAD
from frame import Row, Sample, Tally, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alkstore_core import Queue
    from frame import Scene

SLICES = 4
YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What stands in the table."""

    name: str
    count: int = 0
    delay: int = 0
    priority: int = 0


NONE = Backlog(name="none")


async def claim_batches(queue: Queue, tally: Tally) -> None:
    """Claim and ack a hundred at a time. As many are enqueued before, so the backlog stays."""
    while tally.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with tally.span():
            handles = await queue.claim_batch("worker", BATCH)
            tally.add(await queue.ack_batch(handles, "worker"))


async def claim_singly(queue: Queue, tally: Tally) -> None:
    """Claim one at a time."""
    while tally.running:
        await queue.enqueue_many([PAYLOAD] * BATCH)
        with tally.span():
            handles = [await queue.claim_one("worker") for _ in range(BATCH)]
        tally.add(await queue.ack_batch([handle for handle in handles if handle], "worker"))


WAYS: dict[str, Callable[[Queue, Tally], Awaitable[None]]] = {
    "backlog: claim 100 + ack_batch": claim_batches,
    "backlog: claim_one": claim_singly,
}


def rows(backlogs: Sequence[Backlog]) -> tuple[Row, ...]:
    """Each way to claim behind each backlog."""
    return tuple(
        Row(name=_name(backlog, way), unit="jobs/s", target=Target(bound=0.8))
        for way in WAYS
        for backlog in backlogs
    )


async def turns(scene: Scene, queues: Mapping[Backlog, Queue], seconds: float) -> list[Sample]:
    """Claim from the queues in turns, a slice each; the one without a backlog is the reference."""
    samples = []
    for way, claim in WAYS.items():
        tallies = {backlog: Tally() for backlog in queues}
        for _ in range(SLICES):
            for backlog, tally in tallies.items():
                tally.more(scene.seconds(seconds))
                await claim(queues[backlog], tally)
        small = tallies.pop(NONE).rate
        for backlog, tally in tallies.items():
            samples.append(Sample(row=_name(backlog, way), ours=tally.rate, reference=small))
    return samples


def _name(backlog: Backlog, way: str) -> str:
    return f"{way}, {backlog.name}"
