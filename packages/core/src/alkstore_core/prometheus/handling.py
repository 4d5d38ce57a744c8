"""What handlers did: counted by middlewares, in the process that runs them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from prometheus_client import REGISTRY, Counter, Histogram

from alkstore_core.names import outbox_behind
from alkstore_core.worker.endings import attempt_under_way, ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

    from alkstore_core.jobs import JobHandle
    from alkstore_core.values import StreamEvent
    from alkstore_core.worker.handlers import CallNext

BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)
"""Upper bounds in seconds: handlers take milliseconds, or a quarter of an hour."""


class WorkerMetrics:
    """Counters and histograms of one registry, and the middlewares that move them.

    `alkstore_jobs_handled_total` and `alkstore_events_handled_total` count by outcome, the
    histograms `alkstore_job_duration_seconds` and `alkstore_event_duration_seconds` measure,
    `alkstore_jobs_timed_out_total` counts what took longer than its worker's `timeout`. Labels
    are the names of queues, streams and consumers that have a handler here, so they are few.

    Put its middlewares first: what is outside of them is not measured. One object serves all
    workers of a process; a second one on the same registry is refused by it, with `ValueError`.
    """

    def __init__(
        self, *, registry: CollectorRegistry = REGISTRY, buckets: Sequence[float] = BUCKETS
    ) -> None:
        job = ("queue", "kind")
        event = ("stream", "consumer")
        self._jobs = Counter(
            "alkstore_jobs_handled",
            "Calls of handlers for jobs and messages, by what became of the job.",
            (*job, "outcome"),
            registry=registry,
        )
        self._timed_out = Counter(
            "alkstore_jobs_timed_out",
            "Calls of handlers for jobs and messages that took longer than the timeout.",
            job,
            registry=registry,
        )
        self._job_seconds = Histogram(
            "alkstore_job_duration_seconds",
            "How long handlers of jobs and messages took.",
            job,
            registry=registry,
            buckets=buckets,
        )
        self._events = Counter(
            "alkstore_events_handled",
            "Calls of handlers for events, by what became of the event.",
            (*event, "outcome"),
            registry=registry,
        )
        self._event_seconds = Histogram(
            "alkstore_event_duration_seconds",
            "How long handlers of events took.",
            event,
            registry=registry,
            buckets=buckets,
        )

    async def jobs(self, handle: JobHandle, call_next: CallNext) -> object:
        """The middleware for a `Worker`, an `OutboxWorker` or an `App`: `middlewares=[m.jobs]`."""
        queue = handle.job.queue
        outbox = outbox_behind(queue)
        labels = (queue, "queue") if outbox is None else (outbox, "outbox")
        return await self._counted(labels, call_next, self._jobs, self._job_seconds)

    async def events(self, event: StreamEvent, call_next: CallNext) -> object:
        """The middleware for a `Consumer`: `middlewares=[m.events]`. It labels by its name.

        Without one, in a loop of one's own, that label is empty.
        """
        attempt = attempt_under_way.get()
        consumer = None if attempt is None else attempt.consumer
        labels = (event.stream, consumer or "")
        return await self._counted(labels, call_next, self._events, self._event_seconds)

    async def _counted(
        self, labels: tuple[str, str], call_next: CallNext, calls: Counter, seconds: Histogram
    ) -> object:
        began = time.perf_counter()
        try:
            result = await call_next()
        except BaseException as error:
            self._count(labels, error, calls)
            raise
        else:
            self._count(labels, None, calls)
            return result
        finally:
            seconds.labels(*labels).observe(time.perf_counter() - began)

    def _count(self, labels: tuple[str, str], error: BaseException | None, calls: Counter) -> None:
        end = ending(error)
        calls.labels(*labels, str(end.outcome)).inc()
        if end.timed_out:
            self._timed_out.labels(*labels).inc()
