"""What Prometheus is told of handlers."""

import pytest
from dict_engine import until
from outcomes import ENDINGS, Scenes
from prometheus_client import CollectorRegistry

from alkstore_core.prometheus import WorkerMetrics, metrics_text
from alkstore_core.worker import Consumer, OutboxWorker, Retry


@pytest.fixture
def registry():
    """A registry of its own."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    """Counters there."""
    return WorkerMetrics(registry=registry)


@pytest.mark.parametrize("scene", ENDINGS)
async def test_jobs_by_outcome(engine, store, runs, clock, registry, metrics, scene):
    """Each call is counted once, by what became of its job, and measured."""
    await Scenes(engine, store, runs, clock).play(scene, [metrics.jobs])
    outcome, timed_out, _ = ENDINGS[scene]
    job = {"queue": "q", "kind": "queue"}

    handled = {
        sample.labels["outcome"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "alkstore_jobs_handled_total"
    }
    assert {outcome: 1} == handled
    assert (1 if timed_out else None) == registry.get_sample_value(
        "alkstore_jobs_timed_out_total", job
    )
    assert 1 == registry.get_sample_value("alkstore_job_duration_seconds_count", job)


async def test_messages_of_an_outbox(store, runs, registry, metrics):
    """They have the outbox's name, and are told from a queue's of that name."""
    await store.outbox("mail").enqueue(1)

    async def handler(_):
        pass

    runs(OutboxWorker(store, "mail", handler, middlewares=[metrics.jobs]))
    labels = {"queue": "mail", "kind": "outbox", "outcome": "acked"}
    await until(lambda: registry.get_sample_value("alkstore_jobs_handled_total", labels))


async def test_events_by_outcome(store, runs, registry, metrics):
    """By stream and consumer."""
    await store.stream("orders").publish(1)
    tries = []

    async def handler(_):
        tries.append(1)
        if len(tries) == 1:
            raise Retry("busy", delay=0)

    runs(Consumer(store, "orders", "billing", handler, middlewares=[metrics.events]))
    event = {"stream": "orders", "consumer": "billing"}

    def handled(outcome):
        labels = {**event, "outcome": outcome}
        return registry.get_sample_value("alkstore_events_handled_total", labels)

    await until(lambda: handled("acked"))
    assert (1, 1) == (handled("retried"), handled("acked"))
    assert 2 == registry.get_sample_value("alkstore_event_duration_seconds_count", event)


async def test_consumers_that_share_a_middleware(store, runs, registry, metrics):
    """Each is counted under its own name; a loop of one's own has none."""
    await store.stream("orders").publish(1)

    async def handler(_):
        pass

    async def handle():
        return "done"

    def handled(consumer):
        labels = {"stream": "orders", "consumer": consumer, "outcome": "acked"}
        return registry.get_sample_value("alkstore_events_handled_total", labels)

    for name in ("billing", "search"):
        runs(Consumer(store, "orders", name, handler, middlewares=[metrics.events]))
    await until(lambda: handled("billing") and handled("search"))
    (event,) = await store.stream("orders").read_since(0, 1)
    assert "done" == await metrics.events(event, handle)
    assert [1, 1, 1] == [handled(name) for name in ("billing", "search", "")]


async def test_both_kinds_in_one_text(engine, store, runs, clock, registry, metrics):
    """What stands in the store, and what this process did."""
    await Scenes(engine, store, runs, clock).play("retried", [metrics.jobs])
    text = await metrics_text(store, registry=registry)

    assert 'alkstore_jobs_handled_total{kind="queue",outcome="retried",queue="q"} 1.0' in text
    assert 'alkstore_queue_jobs{kind="queue",queue="q",state="delayed"} 1.0' in text


def test_twice_in_one_registry_is_refused(registry, metrics):
    """Two objects would count into the same series."""
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        WorkerMetrics(registry=registry)
