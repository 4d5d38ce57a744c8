"""Producers that are traced: a span for each sending, its context in the headers."""

import logging
import subprocess
import sys

import pytest
from dict_engine import DictEngine
from opentelemetry import baggage, context
from opentelemetry.trace import SpanKind, StatusCode
from telemetry import Telemetry, traceparent

from alkstore_core import Closed, DatabaseError, EnqueueOpts, Store, otel
from alkstore_core.headers import MAX_HEADERS_BYTES, encode_headers
from alkstore_core.sync import SyncStore

CUSTOM = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def telemetry():
    """What is recorded."""
    return Telemetry()


@pytest.fixture
def traced(store, telemetry):
    """The open store, traced."""
    otel.instrument(store, **telemetry.providers)
    return store


class Sending:
    """Each way of sending one message with headers, by name."""

    def __init__(self, store):
        self.store = store

    async def enqueue(self, headers):
        """A job, committed."""
        await self.store.queue("work").enqueue(1, EnqueueOpts(headers=headers))

    async def outbox_enqueue(self, headers):
        """A message, committed."""
        await self.store.outbox("work").enqueue(1, EnqueueOpts(headers=headers))

    async def publish(self, headers):
        """An event, committed."""
        await self.store.stream("work").publish(1, headers)

    async def publish_with_key(self, headers):
        """An event with a key, committed."""
        await self.store.stream("work").publish_with_key("key", 1, headers)

    async def enqueue_tx(self, headers):
        """A job in a transaction."""
        async with self.store.transaction() as tx:
            await tx.enqueue_tx("work", 1, EnqueueOpts(headers=headers))

    async def enqueue_many_tx(self, headers):
        """Several jobs in a transaction, though it is one."""
        async with self.store.transaction() as tx:
            await tx.enqueue_many_tx("work", [1], EnqueueOpts(headers=headers))

    async def outbox_enqueue_tx(self, headers):
        """A message in a transaction."""
        async with self.store.transaction() as tx:
            await tx.outbox_enqueue_tx("work", 1, EnqueueOpts(headers=headers))

    async def publish_tx(self, headers):
        """An event in a transaction."""
        async with self.store.transaction() as tx:
            await tx.publish_tx("work", 1, headers)

    async def publish_with_key_tx(self, headers):
        """An event with a key in a transaction."""
        async with self.store.transaction() as tx:
            await tx.publish_with_key_tx("work", "key", 1, headers)


WAYS = [name for name in vars(Sending) if not name.startswith("_")]
each_way = pytest.mark.parametrize("way", WAYS)


def sent_by(way):
    """The name of the span, and the kind of the destination."""
    if "publish" in way:
        return "publish work", "stream"
    return "enqueue work", "outbox" if "outbox" in way else "queue"


def stored_headers(engine):
    """The headers of all that is stored."""
    stored = [*engine.data.jobs.values(), *engine.data.events.values()]
    return [item.headers for item in stored]


@each_way
async def test_every_way_of_sending_takes_its_span_along(engine, traced, telemetry, way):
    """The headers name the span of the sending, which is a child of the current one."""
    with telemetry.tracer.start_as_current_span("request") as request:
        await getattr(Sending(traced), way)({"tenant": "17"})
    name, kind = sent_by(way)
    span = telemetry.one(name)

    assert [{"tenant": "17", "traceparent": traceparent(span)}] == stored_headers(engine)
    assert request.get_span_context().span_id == span.parent.span_id
    assert SpanKind.PRODUCER is span.kind
    assert StatusCode.UNSET is span.status.status_code
    assert {
        "messaging.system": "alkstore",
        "messaging.destination.name": "work",
        "messaging.alkstore.destination.kind": kind,
        "messaging.operation.name": name.split()[0],
        "messaging.operation.type": "send",
        "messaging.message.id": "1",
    } == span.attributes


@each_way
async def test_a_trace_context_of_the_caller_s_own_stays(engine, traced, telemetry, way):
    """It is sent as it is, and the span of the sending links to it."""
    await getattr(Sending(traced), way)({"traceparent": CUSTOM})
    span = telemetry.one(sent_by(way)[0])

    assert [{"traceparent": CUSTOM}] == stored_headers(engine)
    assert [CUSTOM] == [traceparent_of(link) for link in span.links]
    assert SpanKind.CLIENT is span.kind


@each_way
async def test_header_names_are_the_same_in_any_case(engine, traced, telemetry, way):
    """What a web framework calls `Traceparent` is a trace context, and gets no second one."""
    await getattr(Sending(traced), way)({"Traceparent": CUSTOM})
    span = telemetry.one(sent_by(way)[0])

    assert [{"Traceparent": CUSTOM}] == stored_headers(engine)
    assert [CUSTOM] == [traceparent_of(link) for link in span.links]


def traceparent_of(link):
    """The header that a link's context came in."""
    return f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-01"


@each_way
@pytest.mark.parametrize("room", [0, 60])
async def test_headers_without_room_stay_as_they_are(engine, traced, telemetry, caplog, way, room):
    """A trace context makes no error of what is legal without it, and says so to who debugs."""
    caplog.set_level(logging.DEBUG, "alkstore_core.otel")
    filler = MAX_HEADERS_BYTES - room - len(encode_headers({"filler": ""}))
    headers = {"filler": "x" * filler}
    await getattr(Sending(traced), way)(headers)

    assert [headers] == stored_headers(engine)
    _, kind = sent_by(way)
    assert [f"{kind} 'work': no room in the headers for a trace context"] == caplog.messages


async def test_what_still_fits_is_sent(engine, traced, caplog):
    """Baggage that is too long does not keep the trace context back."""
    caplog.set_level(logging.DEBUG, "alkstore_core.otel")
    long = baggage.set_baggage("one", "x" * 3_000, baggage.set_baggage("other", "x" * 3_000))
    token = context.attach(long)
    try:
        await traced.queue("work").enqueue(1)
    finally:
        context.detach(token)

    assert [["traceparent"]] == [list(headers) for headers in stored_headers(engine)]
    assert ["queue 'work': no room in the headers for baggage"] == caplog.messages


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"traceparent": CUSTOM}, set()),
        ({"baggage": "tenant=mine"}, {"traceparent"}),
        ({"Baggage": "tenant=mine"}, {"traceparent"}),
    ],
)
async def test_no_header_of_the_caller_s_is_replaced(engine, traced, own, added):
    """Nothing is mixed into a context of the caller's own; other headers keep their values."""
    token = context.attach(baggage.set_baggage("tenant", "ours"))
    try:
        await traced.queue("work").enqueue(1, EnqueueOpts(headers=own))
    finally:
        context.detach(token)
    (headers,) = stored_headers(engine)

    assert own.keys() | added == headers.keys()
    assert own == {key: headers[key] for key in own}


async def test_a_forked_child_is_refused_as_ever(clock, telemetry):
    """There is no span of what was not tried."""
    store = Store(DictEngine(clock))
    await store.open()
    otel.instrument(store, **telemetry.providers)
    store._runtime.forget_parent()
    with pytest.raises(DatabaseError, match="before the process forked"):
        await store.queue("work").enqueue(1)

    assert () == telemetry.spans


async def test_a_batch_is_one_span(engine, traced, telemetry):
    """All its jobs, or events, carry the context of the one sending."""
    await traced.queue("work").enqueue_many([1, 2, 3])
    await traced.stream("facts").publish_many([1, 2])
    jobs, events = telemetry.one("enqueue work"), telemetry.one("publish facts")

    assert [
        *[{"traceparent": traceparent(jobs)}] * 3,
        *[{"traceparent": traceparent(events)}] * 2,
    ] == stored_headers(engine)
    assert 3 == jobs.attributes["messaging.batch.message_count"]
    assert 2 == events.attributes["messaging.batch.message_count"]
    assert "messaging.message.id" not in jobs.attributes


async def test_a_refused_sending_is_an_error(engine, traced, telemetry):
    """The span tells the error, which reaches the caller as it was."""
    engine.faults["insert_jobs"].append(DatabaseError("the disk is full"))
    with pytest.raises(DatabaseError, match="the disk is full"):
        await traced.queue("work").enqueue(1)
    span = telemetry.one("enqueue work")

    assert StatusCode.ERROR is span.status.status_code
    assert "DatabaseError: the disk is full" == span.status.description
    assert "alkstore_core.errors.DatabaseError" == span.attributes["error.type"]
    assert ["exception"] == [event.name for event in span.events]


async def test_sendings_are_counted(traced, telemetry):
    """By destination: how many messages, and how long the calls took."""
    await traced.queue("work").enqueue(1)
    await traced.queue("work").enqueue_many([1, 2, 3])
    said = {
        "messaging.system": "alkstore",
        "messaging.destination.name": "work",
        "messaging.alkstore.destination.kind": "queue",
        "messaging.operation.name": "enqueue",
    }

    assert [(said, 4)] == telemetry.points("messaging.client.sent.messages")
    assert [({**said, "messaging.operation.type": "send"}, 2)] == telemetry.points(
        "messaging.client.operation.duration"
    )


async def test_before_or_after_open(clock, telemetry):
    """It does not matter when a store is instrumented, or if it is twice."""
    store = Store(DictEngine(clock))
    otel.instrument(store, **telemetry.providers)
    async with store:
        await store.queue("early").enqueue(1)
        otel.instrument(store, **telemetry.providers)
        await store.queue("late").enqueue(1)
        async with store.transaction() as tx:
            await tx.enqueue_tx("late", 1)

    assert 1 == len(telemetry.named("enqueue early"))
    assert 2 == len(telemetry.named("enqueue late"))


def test_a_blocking_store_is_traced(engine, telemetry):
    """As the asynchronous store within it, which may be given as well."""
    with SyncStore(Store(engine)) as store:
        otel.instrument(store, **telemetry.providers)
        store.queue("work").enqueue(1)
        with store.transaction() as tx:
            tx.publish_tx("facts", 1)

    assert ["enqueue work", "publish facts"] == [span.name for span in telemetry.spans]


def test_what_is_no_store_is_refused(store):
    """With what would be one."""
    with pytest.raises(TypeError, match="takes a Store or a SyncStore, not a Queue"):
        otel.instrument(store.queue("work"))


async def test_a_closed_store_is_refused(clock):
    """None of it opens again, so tracing it is a mistake."""
    async with Store(DictEngine(clock)) as store:
        pass
    with pytest.raises(Closed, match="construct and open a new one"):
        otel.instrument(store)


async def test_another_store_of_the_class_is_not_traced(clock, traced, telemetry):
    """Who instruments one store has instrumented one store."""
    async with Store(DictEngine(clock)) as other:
        await other.queue("work").enqueue(1)

    assert () == telemetry.spans


async def test_a_program_without_an_sdk_sends_nothing_along(engine, store):
    """The API alone has no trace: no header is stored for it."""
    otel.instrument(store)
    await store.queue("work").enqueue(1)
    await store.stream("work").publish(1, {"tenant": "17"})

    assert [None, {"tenant": "17"}] == stored_headers(engine)


OFF = """
import asyncio, sys
import alkstore_core, alkstore_core.worker, alkstore_core.overview
print(sorted(m for m in sys.modules if m.startswith(("opentelemetry", "prometheus_client"))))
"""


def test_core_and_its_workers_import_neither():
    """Who does not ask for telemetry does not load it, whether it is installed or not."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, check=True, text=True)
    assert "[]" == done.stdout.strip()


MISSING = """
import sys
sys.modules["opentelemetry"] = sys.modules["prometheus_client"] = None
for name in ("otel", "prometheus"):
    try:
        __import__(f"alkstore_core.{name}")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_what_is_missing_is_said():
    """Without its extra a module says which one to install."""
    command = [sys.executable, "-c", MISSING]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert "pip install 'alkstore-core[otel]'" in done.stdout
    assert "pip install 'alkstore-core[prometheus]'" in done.stdout
