"""Two looks at a store, and what honestly can be said of the time between them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import frozen

from alkstore_core.overview import Overview, overview

if TYPE_CHECKING:
    from alkstore_core import QueueStats, Store
    from alkstore_core.overview import ConsumerOverview, QueueOverview, StreamOverview


@frozen(kw_only=True)
class Look:
    """What was seen, when on a clock of intervals, and how long it took to look, in seconds."""

    seen: Overview
    mark: float
    took: float


async def look(store: Store) -> Look:
    """Look at everything that is in an open store."""
    began = time.monotonic()
    seen = await overview(store)
    took = time.monotonic() - began
    return Look(seen=seen, mark=began, took=took)


class Rates:
    """Changes per second between two looks; `None` for what was not there in both.

    They are differences of what is stored, and no counts of what happened: a job that came and
    was done between the looks is in none of them.
    """

    def __init__(self, before: Look, after: Look) -> None:
        # A look of no duration after the other one would divide by zero.
        self.seconds: float = max(after.mark - before.mark, 1e-6)
        self._queues = {(q.kind, q.name): q.stats for q in before.seen.queues}
        self._streams = {stream.name: stream for stream in before.seen.streams}

    def backlog(self, queue: QueueOverview) -> float | None:
        """How the number of jobs that are not dead has changed."""
        before = self._queues.get((queue.kind, queue.name))
        return None if before is None else self._per_s(live(queue.stats) - live(before))

    def dead(self, queue: QueueOverview) -> float | None:
        """How the number of dead jobs has changed."""
        before = self._queues.get((queue.kind, queue.name))
        return None if before is None else self._per_s(queue.stats.dead - before.dead)

    def events(self, stream: StreamOverview) -> float | None:
        """How many events were published; `None` when some were trimmed meanwhile, too.

        Offsets have gaps, so it is their number that is compared.
        """
        before = self._streams.get(stream.name)
        if before is None:
            return None
        was, now = before.bounds, stream.bounds
        if was.count and (was.first != now.first or now.count < was.count):
            return None
        return self._per_s(now.count - was.count)

    def lag(self, stream: StreamOverview, consumer: ConsumerOverview) -> float | None:
        """How a consumer's lag has changed."""
        before = self._streams.get(stream.name)
        for was in before.consumers if before is not None else ():
            if was.name == consumer.name:
                return self._per_s(consumer.lag - was.lag)
        return None

    def _per_s(self, difference: int) -> float:
        return difference / self.seconds


def live(stats: QueueStats) -> int:
    """All jobs that are not dead."""
    return stats.ready + stats.delayed + stats.processing + stats.lapsed + stats.expired
