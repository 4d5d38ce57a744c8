"""The consumers' side: a span around each handler, in the trace of who sent the message."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from alkstore_core.otel.carrying import creation_context, extracted
from alkstore_core.otel.guarding import Guard, error_text
from alkstore_core.otel.naming import (
    ATTEMPT,
    BUCKETS,
    CONSUMER,
    ERROR,
    MESSAGE,
    OUTCOME,
    Destination,
    error_type,
    meter_of,
    queue_or_outbox,
    tracer_of,
    without_type,
)
from alkstore_core.worker.endings import Outcome, attempt_under_way, ending

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from alkstore_core.jobs import JobHandle
    from alkstore_core.values import StreamEvent
    from alkstore_core.worker.handlers import CallNext, Middleware

_FAILED = frozenset({Outcome.RETRIED, Outcome.DEAD})


def trace_jobs(
    *,
    link_only: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Middleware[JobHandle]:
    """A middleware for a `Worker`, an `OutboxWorker` or an `App`: a span around each handler.

    The span is a child of the one that enqueued the job, so all of it is one trace; with
    `link_only` it begins a trace of its own, or goes on with the current one, and links to the
    other. It is current within the handler, also in the thread of a plain function.

    Put it first: what is outside of it is not measured, and an error that a middleware outside
    of it turns into another one is recorded as it was. The providers are the global ones unless
    they are given.
    """
    processing = _Processing(tracer_provider, meter_provider, link_only=link_only)

    async def traced(handle: JobHandle, call_next: CallNext) -> object:
        job = handle.job
        return await processing.run(
            queue_or_outbox(job.queue),
            job.headers,
            {MESSAGE: str(job.id), ATTEMPT: job.attempts},
            call_next,
        )

    return traced


def trace_events(
    *,
    link_only: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Middleware[StreamEvent]:
    """As `trace_jobs`, for a `Consumer`, whose name it tells."""
    processing = _Processing(tracer_provider, meter_provider, link_only=link_only)

    async def traced(event: StreamEvent, call_next: CallNext) -> object:
        where = Destination(event.stream, "stream")
        details: dict[str, str | int] = {MESSAGE: str(event.offset)}
        consumer: str | None = None
        if (attempt := attempt_under_way.get()) is not None:
            details[ATTEMPT] = attempt.number
            consumer = attempt.consumer
        return await processing.run(where, event.headers, details, call_next, consumer)

    return traced


class _Processing:
    """Opens the spans of handlers."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        *,
        link_only: bool,
    ) -> None:
        meter = meter_of(meter_provider)
        self._tracer = tracer_of(tracer_provider)
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of a handler's call.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that handlers were called for.",
        )
        self._link_only = link_only
        self._guard = Guard()

    async def run(
        self,
        where: Destination,
        headers: dict[str, str] | None,
        details: dict[str, str | int],
        call_next: CallNext,
        consumer: str | None = None,
    ) -> object:
        """Call the handler within its span."""
        said = where.attributes("process", "process")
        if consumer is not None:
            said[CONSUMER] = consumer
        span: Span = trace.INVALID_SPAN
        token = None
        context = contexts.get_current()
        with self._guard.step("starting a span"):
            span, context = self._start(where, headers, {**said, **details})
        with self._guard.step("making a span current"):
            token = contexts.attach(context)
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            return await call_next()
        except BaseException as raised:
            error = raised
            raise
        finally:
            if token is not None:
                with self._guard.step("leaving a span"):
                    contexts.detach(token)
            self._end(span, error, said, time.perf_counter() - began)
            # A frame that holds the error whose traceback holds it would outlive both.
            del error

    def _start(
        self, where: Destination, headers: dict[str, str] | None, said: dict[str, str | int]
    ) -> tuple[Span, Context]:
        ambient = trace.get_current_span()
        context = contexts.get_current()
        links: list[Link] = []
        with self._guard.step("reading a message's trace context"):
            if headers and (creation := creation_context(headers)) is not None:
                # What else the message brings along, such as baggage, goes with either parent.
                context = extracted(headers, context)
                links.append(Link(creation))
                if self._link_only:
                    context = trace.set_span_in_context(ambient, context)
                elif ambient.get_span_context().is_valid:
                    links.append(Link(ambient.get_span_context()))
        span = self._tracer.start_span(
            f"process {where.name}",
            context=context,
            kind=SpanKind.CONSUMER,
            attributes=said,
            links=links,
        )
        return span, trace.set_span_in_context(span, context)

    def _end(
        self, span: Span, error: BaseException | None, said: dict[str, str | int], seconds: float
    ) -> None:
        """Each step for itself, so that the failure of one takes no other along."""
        cancelled = isinstance(error, asyncio.CancelledError)
        with self._guard.step("asking for an outcome"):
            said.update(_ended(error))
        with self._guard.step("telling a span its outcome"):
            span.set_attributes({key: said[key] for key in (OUTCOME, ERROR) if key in said})
            if ERROR in said:
                text = str(said[ERROR]) if error is None or cancelled else error_text(error)
                span.set_status(Status(StatusCode.ERROR, text))
        if error is not None and not cancelled:
            with self._guard.step("recording an exception"):
                span.record_exception(error)
        with self._guard.step("ending a span"):
            span.end()
        with self._guard.step("recording a metric"):
            self._duration.record(seconds, said)
        with self._guard.step("recording a metric"):
            self._consumed.add(1, without_type(said))


def _ended(error: BaseException | None) -> dict[str, str | int]:
    """What the end of a handler is called."""
    end = ending(error)
    said: dict[str, str | int] = {OUTCOME: str(end.outcome)}
    if end.timed_out:
        said[ERROR] = "timeout"
    elif end.outcome is Outcome.LOST:
        said[ERROR] = "claim_lost"
    elif error is not None and not isinstance(error, asyncio.CancelledError):
        said[ERROR] = error_type(error)
    elif end.outcome in _FAILED:
        said[ERROR] = "cancelled"
    return said
