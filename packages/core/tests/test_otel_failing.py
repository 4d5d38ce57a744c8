"""Tracing that fails: what is traced neither fails with it nor ends otherwise."""

import logging

import opentelemetry.sdk.metrics as sdk_metrics
import opentelemetry.sdk.trace as sdk_trace
import pytest
from dict_engine import until
from opentelemetry import context, propagate
from opentelemetry.trace import StatusCode
from telemetry import Telemetry

from alkstore_core import DatabaseError, EnqueueOpts, otel
from alkstore_core.worker import Fail, Retry, Worker

CUSTOM = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

POINTS = {
    "start_span": (sdk_trace.Tracer, "start_span"),
    "get_span_context": (sdk_trace.Span, "get_span_context"),
    "set_attribute": (sdk_trace.Span, "set_attribute"),
    "set_attributes": (sdk_trace.Span, "set_attributes"),
    "set_status": (sdk_trace.Span, "set_status"),
    "record_exception": (sdk_trace.Span, "record_exception"),
    "end": (sdk_trace.Span, "end"),
    "is_recording": (sdk_trace.Span, "is_recording"),
    "record": (sdk_metrics.Histogram, "record"),
    "add": (sdk_metrics.Counter, "add"),
    "extract": (propagate, "extract"),
    "inject": (propagate, "inject"),
    "attach": (context, "attach"),
    "detach": (context, "detach"),
}
each_point = pytest.mark.parametrize("points", [*([point] for point in POINTS), list(POINTS)])


class UnspeakableError(Exception):
    """An error without a text."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class Unspeakable:
    """A reason without a text."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


@pytest.fixture
def telemetry():
    """What is recorded."""
    return Telemetry()


@pytest.fixture
def breaking(monkeypatch):
    """Let parts of OpenTelemetry raise from now on."""

    def breaks(points):
        for point in points:
            where, name = POINTS[point]
            # What an abstract class of metrics declares, its one kind of instrument does.
            for kind in (where, *getattr(where, "__subclasses__", list)()):
                if name in vars(kind):
                    monkeypatch.setattr(kind, name, _raise)

    return breaks


def _raise(*_, **__):
    raise UnspeakableError


NO_TEXT = "Unspeakable whose text cannot be had"

# By name: how a handler ends; where its job stands then, whether later than by backoff, and why.
ENDS = {
    "returns": (None, None),
    "raises": (ValueError("no route"), ("pending", False, "ValueError: no route")),
    "retries": (Retry("busy", delay=600), ("pending", True, "busy")),
    "fails": (Fail("no such address"), ("dead", False, "no such address")),
    "raises_without_text": (
        UnspeakableError(),
        ("pending", False, "UnspeakableError whose text cannot be had"),
    ),
    "retries_without_text": (Retry(Unspeakable(), delay=600), ("pending", True, NO_TEXT)),
    "fails_without_text": (Fail(Unspeakable()), ("dead", False, NO_TEXT)),
}
each_end = pytest.mark.parametrize("end", ENDS)


async def handled(store, runs, telemetry, end):
    """What became of a job whose traced handler ended so."""
    error, _ = ENDS[end]
    queue = store.queue("work")
    job_id = await queue.enqueue(1, EnqueueOpts(headers={"traceparent": CUSTOM}))
    calls = []

    async def handler(payload):
        calls.append(payload)
        if error is not None:
            raise error

    tracing = otel.trace_jobs(**telemetry.providers)
    running = runs(Worker(store, "work", handler, middlewares=[tracing]))
    await until(lambda: calls)
    await running.end()
    job = await queue.get_job(job_id)
    return None if job is None else (str(job.state), job.run_at >= 1_600, job.last_error)


@each_end
@each_point
async def test_a_handler_ends_as_without_tracing(store, runs, telemetry, breaking, points, end):
    """Its result and its errors go through; retries keep their delay, failures are final."""
    breaking(points)

    assert ENDS[end][1] == await handled(store, runs, telemetry, end)


@each_end
async def test_errors_without_text_are_told(store, runs, telemetry, end):
    """Whatever the handler raised, there is a span of it, and it is counted."""
    await handled(store, runs, telemetry, end)
    span = telemetry.one("process work")

    expected = ENDS[end][1]
    assert (None if expected is None else expected[2]) == span.status.description
    assert 1 == len(telemetry.points("messaging.process.duration"))
    assert 1 == len(telemetry.points("messaging.client.consumed.messages"))


@pytest.mark.parametrize("point", ["set_attributes", "set_status", "record_exception"])
async def test_a_failing_step_takes_no_other_along(store, runs, telemetry, breaking, point):
    """The span ends and the metrics are recorded, with what could be told."""
    breaking([point])
    await handled(store, runs, telemetry, "fails")

    assert telemetry.one("process work")
    ((said, count),) = telemetry.points("messaging.client.consumed.messages")
    assert ("dead", 1) == (said["messaging.alkstore.outcome"], count)


async def test_a_message_whose_context_cannot_be_read_begins_a_trace(
    store, runs, telemetry, breaking
):
    """Its handler is measured as others are."""
    breaking(["extract"])
    await handled(store, runs, telemetry, "returns")

    assert telemetry.one("process work").parent is None


@each_point
async def test_what_is_sent_is_sent(engine, store, telemetry, breaking, points):
    """No call fails, and none says that it did after it had sent."""
    otel.instrument(store, **telemetry.providers)
    breaking(points)

    assert 1 == await store.queue("work").enqueue(1)
    assert [2, 3] == await store.queue("work").enqueue_many([2, 3])
    async with store.transaction() as tx:
        assert 4 == await tx.enqueue_tx("work", 4, EnqueueOpts(headers={"tenant": "17"}))
        await tx.publish_tx("facts", 1, {"traceparent": CUSTOM})
    assert {1, 2, 3, 4} == engine.data.jobs.keys()
    assert [{"traceparent": CUSTOM}] == [event.headers for event in engine.data.events.values()]
    (job,) = await store.queue("work").jobs(None, 1, 3)
    assert "17" == job.headers["tenant"]


@each_point
async def test_what_is_refused_is_refused_as_it_was(engine, store, telemetry, breaking, points):
    """The error that the caller gets is that of the database."""
    otel.instrument(store, **telemetry.providers)
    breaking(points)
    engine.faults["insert_jobs"].append(DatabaseError("the disk is full"))

    with pytest.raises(DatabaseError, match="the disk is full") as caught:
        await store.queue("work").enqueue(1)
    assert caught.value.__context__ is None


async def test_an_error_without_text_ends_the_span_of_a_sending(engine, store, telemetry):
    """It reaches the caller, and the span is there."""
    otel.instrument(store, **telemetry.providers)
    engine.faults["insert_jobs"].append(UnspeakableError())

    with pytest.raises(UnspeakableError):
        await store.queue("work").enqueue(1)
    span = telemetry.one("enqueue work")
    assert StatusCode.ERROR is span.status.status_code
    assert "UnspeakableError whose text cannot be had" == span.status.description


async def test_a_failure_is_a_warning_once(store, telemetry, breaking, caplog):
    """A tracer that is broken does not fill the log; who debugs sees each of its failures."""
    caplog.set_level(logging.DEBUG, "alkstore_core.otel")
    otel.instrument(store, **telemetry.providers)
    breaking(["end", "add"])
    for number in range(3):
        await store.queue("work").enqueue(number)

    told = [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records]
    why = "failed, nothing else does: UnspeakableError whose text cannot be had"
    span, metric = f"tracing: ending a span {why}", f"tracing: recording a metric {why}"
    assert [
        *[("WARNING", span), ("WARNING", metric)],
        *[("DEBUG", span), ("DEBUG", metric)] * 2,
    ] == [(level, text) for level, text, _ in told]
    assert [True, True, *[False] * 4] == [bool(trace) for _, _, trace in told]
