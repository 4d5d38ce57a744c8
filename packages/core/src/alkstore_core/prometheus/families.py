"""An overview as Prometheus' metric families, with a bound on how many series they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from alkstore_core.overview import ConsumerOverview, Overview, QueueOverview, StreamOverview

STATES: Final = ("ready", "delayed", "processing", "lapsed", "expired", "dead")


def families_of(seen: Overview, limit: int) -> list[Metric]:
    """Every gauge, for the first `limit` queues, streams, consumers and schedules."""
    consumers = [(stream.name, found) for stream in seen.streams for found in stream.consumers]
    families = [
        *_of_queues(seen.queues[:limit]),
        *_of_streams(seen.streams[:limit]),
        *_of_consumers(consumers[:limit]),
    ]
    locks = GaugeMetricFamily("alkstore_locks", "Leases that somebody holds.", len(seen.locks))
    next_fires = GaugeMetricFamily(
        "alkstore_schedule_next_fire_timestamp_seconds",
        "When a schedule fires next, in unix time.",
        labels=("schedule",),
    )
    for schedule in seen.schedules[:limit]:
        next_fires.add_metric((schedule.name,), schedule.next_fire_at)
    omitted = GaugeMetricFamily(
        "alkstore_omitted",
        "How many are not shown here, because there are more than the limit.",
        labels=("what",),
    )
    for what, found in (
        ("queues", seen.queues),
        ("streams", seen.streams),
        ("consumers", consumers),
        ("schedules", seen.schedules),
    ):
        omitted.add_metric((what,), max(len(found) - limit, 0))
    return [*families, locks, next_fires, omitted]


def _of_queues(queues: tuple[QueueOverview, ...]) -> list[Metric]:
    jobs = GaugeMetricFamily(
        "alkstore_queue_jobs",
        "Jobs of a queue, or messages of an outbox, by where they stand.",
        labels=("queue", "kind", "state"),
    )
    oldest = GaugeMetricFamily(
        "alkstore_queue_oldest_ready_age_seconds",
        "For how long the oldest ready job has been ready; 0 when none is.",
        labels=("queue", "kind"),
    )
    for queue in queues:
        for state in STATES:
            jobs.add_metric((queue.name, queue.kind, state), getattr(queue.stats, state))
        oldest.add_metric((queue.name, queue.kind), queue.stats.oldest_ready_age_s or 0)
    return [jobs, oldest]


def _of_streams(streams: tuple[StreamOverview, ...]) -> list[Metric]:
    events = GaugeMetricFamily(
        "alkstore_stream_events", "Events that are stored of a stream.", labels=("stream",)
    )
    last = GaugeMetricFamily(
        "alkstore_stream_last_offset", "The offset of a stream's last event.", labels=("stream",)
    )
    for stream in streams:
        events.add_metric((stream.name,), stream.bounds.count)
        last.add_metric((stream.name,), stream.bounds.last)
    return [events, last]


def _of_consumers(consumers: list[tuple[str, ConsumerOverview]]) -> list[Metric]:
    offsets = GaugeMetricFamily(
        "alkstore_consumer_offset",
        "The offset that a consumer has saved.",
        labels=("stream", "consumer"),
    )
    lags = GaugeMetricFamily(
        "alkstore_consumer_lag_events",
        "Stored events behind the offset that a consumer has saved.",
        labels=("stream", "consumer"),
    )
    for stream, consumer in consumers:
        offsets.add_metric((stream, consumer.name), consumer.offset)
        lags.add_metric((stream, consumer.name), consumer.lag)
    return [offsets, lags]
