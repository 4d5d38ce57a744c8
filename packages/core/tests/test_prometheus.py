"""What Prometheus is told of a store, and over which wire."""

import asyncio

import pytest
from dict_engine import DictEngine
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from alkstore_core import DatabaseError, EnqueueOpts, Store
from alkstore_core.prometheus import metrics_app, metrics_text


def samples(text):
    """Each series and its value."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def shown(store, **options):
    """The series of a store alone."""
    return samples(await metrics_text(store, registry=None, **options))


async def test_jobs_by_state(clock, store):
    """Every queue and outbox, with how many jobs stand where and the oldest one's age."""
    queue = store.queue("mails")
    await queue.enqueue_many([1, 2, 3])
    await queue.enqueue(4, EnqueueOpts(delay=60))
    await store.outbox("mails").enqueue(1)
    await (await queue.claim_one("w")).fail()
    await queue.claim_one("w")
    await clock.advance(7)
    seen = await shown(store)

    states = {"ready": 1, "delayed": 1, "processing": 1, "lapsed": 0, "expired": 0, "dead": 1}
    for state, count in states.items():
        labels = (("kind", "queue"), ("queue", "mails"), ("state", state))
        assert count == seen["alkstore_queue_jobs", *labels]
    age = "alkstore_queue_oldest_ready_age_seconds"
    assert 7 == seen[age, ("kind", "queue"), ("queue", "mails")]
    assert 7 == seen[age, ("kind", "outbox"), ("queue", "mails")]


async def test_nothing_ready_is_an_age_of_0(store):
    """A series that vanished would keep an alert from ending."""
    await store.queue("mails").enqueue(1, EnqueueOpts(delay=60))
    seen = await shown(store)

    age = "alkstore_queue_oldest_ready_age_seconds"
    assert 0 == seen[age, ("kind", "queue"), ("queue", "mails")]


async def test_streams_and_consumers(store):
    """How many events there are, and how far behind each consumer is."""
    stream = store.stream("orders")
    await stream.publish_many(range(5))
    await stream.save_offset("billing", 2)
    seen = await shown(store)

    name = ("stream", "orders")
    assert 5 == seen["alkstore_stream_events", name]
    assert 5 == seen["alkstore_stream_last_offset", name]
    assert 2 == seen["alkstore_consumer_offset", ("consumer", "billing"), name]
    assert 3 == seen["alkstore_consumer_lag_events", ("consumer", "billing"), name]


async def test_locks_and_schedules(store):
    """How many leases are held, and when each schedule fires next."""
    await store.try_lock("l", "me", 5)
    await store.schedule("nightly", "@every 1d", "q", None)
    seen = await shown(store)

    assert 1 == seen["alkstore_locks",]
    next_fire = "alkstore_schedule_next_fire_timestamp_seconds"
    assert 1_000 + 86_400 == seen[next_fire, ("schedule", "nightly")]


async def test_names_with_every_character(store):
    """A name comes back from the text as it is."""
    name = 'a "quoted"\nname\\with {everything}, ünï'
    await store.queue(name).enqueue(1)
    seen = await shown(store)

    labels = (("kind", "queue"), ("queue", name), ("state", "ready"))
    assert 1 == seen["alkstore_queue_jobs", *labels]


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_that_shows_nothing_is_refused(store, limit):
    """A negative one would cut from the end; the application says so before it serves."""
    with pytest.raises(ValueError, match=f"limit must be at least 1, not {limit}"):
        await metrics_text(store, limit=limit)
    with pytest.raises(ValueError, match=f"limit must be at least 1, not {limit}"):
        metrics_app(store, limit=limit)


async def test_series_are_bounded(store):
    """Beyond the limit nothing is shown but how many more there are."""
    for number in range(5):
        await store.queue(f"q{number}").enqueue(1)
        await store.stream("s").save_offset(f"c{number}", 1)
    seen = await shown(store, limit=2)

    queues = {dict(labels)["queue"] for name, *labels in seen if name == "alkstore_queue_jobs"}
    consumers = {dict(at)["consumer"] for name, *at in seen if name == "alkstore_consumer_offset"}
    assert {"q0", "q1"} == queues
    assert {"c0", "c1"} == consumers
    omitted = {what: seen["alkstore_omitted", ("what", what)] for what in ("queues", "consumers")}
    assert {"queues": 3, "consumers": 3} == omitted
    assert 0 == seen["alkstore_omitted", ("what", "streams")]


async def test_what_the_process_counts_comes_along(store):
    """The text has the store's gauges and the registry's metrics, each family once."""
    registry = CollectorRegistry()
    Counter("my_things", "Mine.", registry=registry).inc(3)
    text = await metrics_text(store, registry=registry)

    assert 3 == samples(text)["my_things_total",]
    families = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


async def ask(app, method="GET", kind="http"):
    """The status, the headers and the body of an answer."""
    sent = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    await app({"type": kind, "method": method, "path": "/metrics", "headers": []}, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


async def test_the_app_serves_the_text(store):
    """A GET gets the text with the type that Prometheus asks for."""
    await store.queue("mails").enqueue(1)
    status, headers, body = await ask(metrics_app(store, registry=None))

    assert 200 == status
    assert headers[b"content-type"].startswith(b"text/plain; version=")
    assert str(len(body)).encode() == headers[b"content-length"]
    assert body.decode() == await metrics_text(store, registry=None)


async def test_head_has_no_body(store):
    """A HEAD gets the headers alone."""
    status, headers, body = await ask(metrics_app(store), "HEAD")
    assert (200, b"") == (status, body)
    assert int(headers[b"content-length"]) > 0


async def test_other_methods_are_refused(store):
    """Nothing is changed here."""
    status, headers, _ = await ask(metrics_app(store), "POST")
    assert (405, b"GET, HEAD") == (status, headers[b"allow"])


async def test_a_database_that_refuses_fails_the_scrape(engine, store):
    """No numbers rather than old or empty ones."""
    engine.faults["names"].append(DatabaseError("the disk is gone"))
    status, _, body = await ask(metrics_app(store))
    assert (503, b"the disk is gone\n") == (status, body)


async def test_a_store_that_is_not_open_fails_the_scrape(clock):
    """It says so."""
    status, _, body = await ask(metrics_app(Store(DictEngine(clock))))
    assert 503 == status
    assert b"not open" in body


async def test_scrapes_at_the_same_time_are_one_count(engine, store):
    """Many scrapes of a slow database ask it once, and the next one asks again."""
    app = metrics_app(store, registry=None)
    gate = engine.hold("before", "names")
    scrapes = [asyncio.create_task(ask(app)) for _ in range(20)]
    await gate.reached.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    assert 1 == engine.calls.count("names")
    scrapes[0].cancel()
    del engine.gates["before", "names"]
    gate.open()
    answers = await asyncio.gather(*scrapes[1:])
    assert [200] * 19 == [status for status, _, _ in answers]
    asked = engine.calls.count("names")
    await store.queue("mails").enqueue(1)
    assert b'queue="mails"' in (await ask(app))[2]
    assert asked < engine.calls.count("names")


async def test_a_silent_database_fails_the_scrape(engine, monkeypatch, store):
    """It is not waited for for ever, and scrapes that give up leave one count behind, not each."""
    monkeypatch.setattr("alkstore_core.prometheus.serving.ANSWER_S", 0.01)
    engine.hold("before", "names")
    app = metrics_app(store)
    for _ in range(3):
        status, _, body = await ask(app)
        assert (503, True) == (status, b"has not answered within" in body)
    assert 1 == engine.calls.count("names")


async def test_a_server_may_ask_before_it_begins_and_ends(store):
    """The application answers the lifespan protocol, so that it can stand alone."""
    asked = ["lifespan.startup", "lifespan.shutdown"]
    sent = []

    async def receive():
        return {"type": asked.pop(0)}

    async def send(message):
        sent.append(message["type"])

    await metrics_app(store)({"type": "lifespan"}, receive, send)
    assert ["lifespan.startup.complete", "lifespan.shutdown.complete"] == sent


async def test_no_other_protocol(store):
    """A websocket is refused."""
    with pytest.raises(ValueError, match="over http, not over websocket"):
        await ask(metrics_app(store), kind="websocket")
