"""The producers' side: a span for each sending, and its context in the headers."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING

import attrs
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from alkstore_core.headers import decode_headers
from alkstore_core.otel.carrying import carrier_of, creation_context, stamped
from alkstore_core.otel.naming import (
    BUCKETS,
    COUNT,
    ERROR,
    MESSAGE,
    Destination,
    error_type,
    meter_of,
    queue_or_outbox,
    tracer_of,
    without_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Entry, Session, Topic
    from alkstore_core.store import Store

    Stamp = Callable[[str | None], str | None]


def instrument(
    store: Store,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Whatever this store sends from now on is traced and counted, in transactions and beside.

    Each `enqueue`, `publish`, `*_many` and `*_tx` of it, also on joined transactions, and each
    firing of a schedule is a span of its own, whose context goes along in the headers. Headers
    that hold a trace context already are left as they are, and the span links to it. Where the
    4,096 bytes of headers do not suffice the context is left out.

    A span ends with its call. What a transaction sends is there only if it commits.

    Call it once, before or after `open`; a transaction that is open already is not traced. The
    providers are the global ones unless they are given.
    """
    producer = _Producer(tracer_provider, meter_provider)

    def tap(session: Session) -> None:
        plain: type[Session] = getattr(type(session), "alkstore_plain", type(session))
        session.__class__ = _traced(plain)
        vars(session)["alkstore_producer"] = producer

    store._runtime.tap(tap)  # noqa: SLF001 - part of core, as the store's other halves.


class _Producer:
    """Opens the spans of one store's sendings."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        meter = meter_of(meter_provider)
        self._tracer = tracer_of(tracer_provider)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of an operation that the producer began.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages that the producer tried to send.",
        )

    @contextlib.contextmanager
    def sending(
        self, operation: str, where: Destination, texts: Sequence[str | None], count: int
    ) -> Iterator[tuple[Span, Stamp]]:
        """A span that is current meanwhile, and what puts its context into encoded headers."""
        given = {text: creation_context(decode_headers(text)) for text in {*texts} - {None}}
        own = [Link(context) for context in given.values() if context is not None]
        said = where.attributes(operation, "send")
        details = {} if count == 1 else {COUNT: count}
        # By convention: PRODUCER if this is what the message's trace begins with.
        kind = SpanKind.CLIENT if own and len(own) == len({*texts}) else SpanKind.PRODUCER
        span = self._tracer.start_span(
            f"{operation} {where.name}", kind=kind, attributes={**said, **details}, links=own
        )
        carrier = carrier_of(trace.set_span_in_context(span))
        label = f"{where.kind} {where.name!r}"

        def stamp(text: str | None) -> str | None:
            if not carrier or given.get(text) is not None:
                return text
            return stamped(text, carrier, label)

        began = time.perf_counter()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span, functools.cache(stamp)
        except BaseException as error:
            said[ERROR] = error_type(error)
            span.set_attribute(ERROR, said[ERROR])
            span.set_status(Status(StatusCode.ERROR, str(error)))
            span.record_exception(error)
            raise
        finally:
            span.end()
            self._duration.record(time.perf_counter() - began, said)
            self._sent.add(count, without_type(said))


@functools.cache
def _traced(plain: type[Session]) -> type[Session]:
    """The same kind of session, whose two sending primitives are traced.

    A subclass rather than a wrapper: an engine's own calls, and core's, ask a session for what
    its class has beyond the seam.
    """

    class Traced(plain):  # type: ignore[misc, valid-type]
        alkstore_plain = plain
        alkstore_producer: _Producer

        async def insert_jobs(
            self,
            queue: str,
            payloads: Sequence[bytes],
            spec: JobSpec,
            *,
            wake: Sequence[Topic] = (),
        ) -> list[int]:
            where = queue_or_outbox(queue)
            sending = self.alkstore_producer.sending(
                "enqueue", where, (spec.headers,), len(payloads)
            )
            with sending as (span, stamp):
                headers = stamp(spec.headers)
                if headers is not spec.headers:
                    spec = attrs.evolve(spec, headers=headers)
                ids: list[int] = await super().insert_jobs(queue, payloads, spec, wake=wake)
                return _told(span, ids)

        async def append(
            self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
        ) -> list[int]:
            where = Destination(stream, "stream")
            sending = self.alkstore_producer.sending(
                "publish", where, [entry.headers for entry in entries], len(entries)
            )
            with sending as (span, stamp):
                sent = [entry._replace(headers=stamp(entry.headers)) for entry in entries]
                offsets: list[int] = await super().append(stream, sent, wake=wake)
                return _told(span, offsets)

    Traced.__name__ = Traced.__qualname__ = f"Traced{plain.__name__}"
    return Traced


def _told(span: Span, ids: list[int]) -> list[int]:
    """The ids, after the span has heard of a single one."""
    if len(ids) == 1:
        span.set_attribute(MESSAGE, str(ids[0]))
    return ids
