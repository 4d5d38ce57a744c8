"""Handlers that are traced: in the trace of who sent, with what became of the message."""

import asyncio

import pytest
from dict_engine import until
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from outcomes import ENDINGS, Scenes
from telemetry import Telemetry

from alkstore_core import EnqueueOpts, JobHandle, otel
from alkstore_core.worker import Consumer, Fail, OutboxWorker, Retry, Worker

ERRORS = {"retried", "dead", "lost"}


@pytest.fixture
def telemetry():
    """What is recorded."""
    return Telemetry()


@pytest.fixture
def traced(store, telemetry):
    """The open store, traced."""
    otel.instrument(store, **telemetry.providers)
    return store


@pytest.fixture
def tracing(telemetry):
    """The middleware."""
    return otel.trace_jobs(**telemetry.providers)


def parent_of(span):
    """The ids of a span's trace and of its parent in it."""
    return span.context.trace_id, None if span.parent is None else span.parent.span_id


def ids(span):
    """The ids of a span's trace and of itself in it."""
    return span.context.trace_id, span.context.span_id


def linked(span):
    """The ids of what a span links to."""
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def plain(seen):
    """A handler that runs in a thread, and notes what is current there."""

    def handler(payload):
        seen.append((payload, trace.get_current_span().get_span_context()))

    return handler


def asynchronous(seen):
    """A handler that notes what is current."""

    async def handler(payload):
        await asyncio.sleep(0)
        seen.append((payload, trace.get_current_span().get_span_context()))

    return handler


@pytest.mark.parametrize("kind", [asynchronous, plain])
async def test_from_a_transaction_to_the_handler(traced, telemetry, tracing, runs, kind):
    """One trace: the request, the enqueue in its transaction, the handler, also in a thread."""
    seen = []
    with telemetry.tracer.start_as_current_span("request"):
        async with traced.transaction() as tx:
            await tx.enqueue_tx("work", "payload")
    runs(Worker(traced, "work", kind(seen), middlewares=[tracing]))
    await _wait_for(lambda: telemetry.named("process work"))

    request, sent = telemetry.one("request"), telemetry.one("enqueue work")
    handled = telemetry.one("process work")
    assert ids(request) == parent_of(sent)
    assert ids(sent) == parent_of(handled)
    assert [ids(sent)] == linked(handled)
    assert [("payload", handled.context)] == seen
    assert SpanKind.CONSUMER is handled.kind
    assert {
        "messaging.system": "alkstore",
        "messaging.destination.name": "work",
        "messaging.alkstore.destination.kind": "queue",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "1",
        "messaging.alkstore.attempt": 1,
        "messaging.alkstore.outcome": "acked",
    } == handled.attributes


async def _wait_for(happened):
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - a thread has no event of this loop.
            await asyncio.sleep(0.001)


async def test_each_attempt_is_a_span(traced, telemetry, tracing, runs):
    """All of them are children of the one enqueue, and say which attempt they are."""
    await traced.queue("work").enqueue(1)
    tries = []

    async def handler(_):
        tries.append(1)
        if len(tries) < 3:
            raise Retry("not yet", delay=0)

    runs(Worker(traced, "work", handler, middlewares=[tracing]))
    await until(lambda: len(telemetry.named("process work")) == 3)

    sent, handled = telemetry.one("enqueue work"), telemetry.named("process work")
    assert [ids(sent)] * 3 == [parent_of(span) for span in handled]
    said = [
        (s.attributes[f"messaging.alkstore.{a}"]) for s in handled for a in ("attempt", "outcome")
    ]
    assert [1, "retried", 2, "retried", 3, "acked"] == said


async def test_a_batch_s_handlers_are_siblings(traced, telemetry, tracing, runs):
    """Each job of an `enqueue_many` is handled in a span of its own, below the one enqueue."""
    await traced.queue("work").enqueue_many([1, 2, 3])
    runs(Worker(traced, "work", asynchronous([]), middlewares=[tracing]))
    await until(lambda: len(telemetry.named("process work")) == 3)

    sent, handled = telemetry.one("enqueue work"), telemetry.named("process work")
    assert [ids(sent)] * 3 == [parent_of(span) for span in handled]
    assert {"1", "2", "3"} == {span.attributes["messaging.message.id"] for span in handled}


async def test_through_an_outbox(traced, telemetry, tracing, runs):
    """The outbox has its own name, not that of the queue behind it."""
    async with traced.transaction() as tx:
        await tx.outbox_enqueue_tx("mail", 1)
    runs(OutboxWorker(traced, "mail", asynchronous([]), middlewares=[tracing]))
    await until(lambda: telemetry.named("process mail"))

    sent, handled = telemetry.one("enqueue mail"), telemetry.one("process mail")
    assert ids(sent) == parent_of(handled)
    assert "outbox" == handled.attributes["messaging.alkstore.destination.kind"]


async def test_through_a_stream(traced, telemetry, runs):
    """An event's handler goes on with the publisher's trace, and names its consumer."""
    async with traced.transaction() as tx:
        await tx.publish_tx("orders", 1)
    tracing = otel.trace_events(**telemetry.providers)
    tries = []

    async def handler(_):
        tries.append(1)
        if len(tries) == 1:
            raise Retry("not yet", delay=0)

    runs(Consumer(traced, "orders", "billing", handler, middlewares=[tracing]))
    await until(lambda: len(telemetry.named("process orders")) == 2)

    sent, (first, second) = telemetry.one("publish orders"), telemetry.named("process orders")
    assert ids(sent) == parent_of(first) == parent_of(second)
    assert ("retried", 1) == tuple(
        first.attributes[f"messaging.alkstore.{what}"] for what in ("outcome", "attempt")
    )
    assert {
        "messaging.system": "alkstore",
        "messaging.destination.name": "orders",
        "messaging.alkstore.destination.kind": "stream",
        "messaging.consumer.group.name": "billing",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "1",
        "messaging.alkstore.attempt": 2,
        "messaging.alkstore.outcome": "acked",
    } == second.attributes


async def test_consumers_that_share_a_middleware(traced, telemetry, runs):
    """Each tells its own name, in spans and in metrics."""
    await traced.stream("orders").publish(1)
    tracing = otel.trace_events(**telemetry.providers)
    for name in ("billing", "search"):
        runs(Consumer(traced, "orders", name, asynchronous([]), middlewares=[tracing]))
    await until(lambda: len(telemetry.named("process orders")) == 2)

    group = "messaging.consumer.group.name"
    assert ["billing", "search"] == sorted(
        span.attributes[group] for span in telemetry.named("process orders")
    )
    counted = telemetry.points("messaging.client.consumed.messages")
    assert {"billing", "search"} == {said[group] for said, _ in counted if group in said}


async def test_an_event_beside_any_consumer(traced, telemetry):
    """A loop of one's own has no consumer's name to tell."""
    await traced.stream("orders").publish(1)
    (event,) = await traced.stream("orders").read_since(0, 1)

    async def handle():
        return "done"

    assert "done" == await otel.trace_events(**telemetry.providers)(event, handle)
    assert "messaging.consumer.group.name" not in telemetry.one("process orders").attributes


async def test_what_a_handler_sends_is_its_child(traced, telemetry, tracing, runs):
    """A job that a handler enqueues goes on with the same trace."""
    await traced.queue("first").enqueue(1)

    async def handler(_):
        await traced.queue("second").enqueue(2)

    runs(Worker(traced, "first", handler, middlewares=[tracing]))
    await until(lambda: telemetry.named("process first"))

    assert ids(telemetry.one("process first")) == parent_of(telemetry.one("enqueue second"))


@pytest.mark.parametrize("scene", ENDINGS)
async def test_what_became_of_the_job(engine, store, runs, clock, telemetry, tracing, scene):
    """The span, and the metrics, have the outcome and the error; what failed is an error."""
    await Scenes(engine, store, runs, clock).play(scene, [tracing])
    await until(lambda: telemetry.spans)
    outcome, _, error = ENDINGS[scene]
    span = telemetry.one("process q")

    assert outcome == span.attributes["messaging.alkstore.outcome"]
    assert error == span.attributes.get("error.type")
    expected = StatusCode.ERROR if outcome in ERRORS else StatusCode.UNSET
    assert expected is span.status.status_code
    said = {
        "messaging.system": "alkstore",
        "messaging.destination.name": "q",
        "messaging.alkstore.destination.kind": "queue",
        "messaging.operation.name": "process",
        "messaging.alkstore.outcome": outcome,
        **({} if error is None else {"error.type": error}),
    }
    assert [(said, 1)] == telemetry.points("messaging.client.consumed.messages")
    assert [({**said, "messaging.operation.type": "process"}, 1)] == telemetry.points(
        "messaging.process.duration"
    )


async def test_the_exception_is_recorded(engine, store, runs, clock, telemetry, tracing):
    """With its type, its text and where it came from."""
    await Scenes(engine, store, runs, clock).play("retried", [tracing])
    span = telemetry.one("process q")
    (event,) = span.events

    assert "ValueError: no route" == span.status.description
    assert "exception" == event.name
    assert "ValueError" == event.attributes["exception.type"]
    assert "no route" == event.attributes["exception.message"]
    assert "in handler" in event.attributes["exception.stacktrace"]


async def test_link_only_begins_a_trace_of_its_own(traced, telemetry, runs):
    """Who wants short traces gets a link instead of a parent."""
    tracing = otel.trace_jobs(link_only=True, **telemetry.providers)
    await traced.queue("work").enqueue(1)
    runs(Worker(traced, "work", asynchronous([]), middlewares=[tracing]))
    await until(lambda: telemetry.named("process work"))

    sent, handled = telemetry.one("enqueue work"), telemetry.one("process work")
    assert handled.parent is None
    assert sent.context.trace_id != handled.context.trace_id
    assert [ids(sent)] == linked(handled)


@pytest.mark.parametrize("link_only", [True, False])
async def test_the_current_span_is_not_lost(traced, telemetry, runs, link_only):
    """What runs the worker in a span finds it as a link, or, with `link_only`, as the parent."""
    tracing = otel.trace_jobs(link_only=link_only, **telemetry.providers)
    await traced.queue("work").enqueue(1)
    with telemetry.tracer.start_as_current_span("ambient") as ambient:
        running = runs(Worker(traced, "work", asynchronous([]), middlewares=[tracing]))
        await until(lambda: telemetry.named("process work"))
        await running.end()

    sent, handled = telemetry.one("enqueue work"), telemetry.one("process work")
    if link_only:
        assert ids(ambient) == parent_of(handled)
        assert [ids(sent)] == linked(handled)
    else:
        assert ids(sent) == parent_of(handled)
        assert [ids(sent), ids(ambient)] == linked(handled)


@pytest.mark.parametrize("headers", [None, {"traceparent": "nonsense"}, {"tenant": "17"}])
async def test_a_message_without_a_trace_begins_one(store, telemetry, tracing, runs, headers):
    """Also what was enqueued by somebody who traces nothing, or something else."""
    await store.queue("work").enqueue(1, EnqueueOpts(headers=headers))
    runs(Worker(store, "work", asynchronous([]), middlewares=[tracing]))
    await until(lambda: telemetry.spans)
    handled = telemetry.one("process work")

    assert handled.parent is None
    assert () == handled.links


async def test_header_names_are_the_same_in_any_case(store, telemetry, tracing, runs):
    """A message that was sent on with the headers of a request goes on with its trace."""
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"Traceparent": f"00-{trace_id}-{span_id}-01"}
    await store.queue("work").enqueue(1, EnqueueOpts(headers=headers))
    runs(Worker(store, "work", asynchronous([]), middlewares=[tracing]))
    await until(lambda: telemetry.spans)

    assert (int(trace_id, 16), int(span_id, 16)) == parent_of(telemetry.one("process work"))


async def test_baggage_travels_along(traced, tracing, runs):
    """What the producer put into it is there in the handler."""
    token = context.attach(baggage.set_baggage("tenant", "17"))
    try:
        await traced.queue("work").enqueue(1)
    finally:
        context.detach(token)
    seen = []

    async def handler(_):
        seen.append(baggage.get_baggage("tenant"))

    runs(Worker(traced, "work", handler, middlewares=[tracing]))
    await until(lambda: seen)

    assert ["17"] == seen


async def test_by_run_once(traced, telemetry, tracing):
    """A loop of one's own may call the middleware itself."""
    outbox = traced.outbox("mail")
    await outbox.enqueue(1)

    async def failing():
        raise Fail("no such address")

    async def deliver(handle: JobHandle):
        await tracing(handle, failing)

    await outbox.run_once("w", deliver)

    handled = telemetry.one("process mail")
    assert ids(telemetry.one("enqueue mail")) == parent_of(handled)
    assert StatusCode.ERROR is handled.status.status_code


async def test_nothing_stays_current(traced, tracing, runs):
    """The next job of the same worker does not find itself in the trace of the one before."""
    await traced.queue("work").enqueue_many([1, 2])
    seen = []
    runs(Worker(traced, "work", asynchronous(seen), concurrency=1, middlewares=[tracing]))
    await until(lambda: len(seen) == 2)

    assert 2 == len({span.span_id for _, span in seen})
    assert not trace.get_current_span().get_span_context().is_valid
