"""The producers' side: a span for each sending, and its context in the headers."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING

import attrs
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from alkstore_core.headers import decode_headers
from alkstore_core.otel.carrying import carrier_of, creation_context, stamped
from alkstore_core.otel.guarding import Guard, error_text
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
from alkstore_core.store import Store
from alkstore_core.sync.store import SyncStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanContext, TracerProvider

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Entry, Session, Topic


def instrument(
    store: Store | SyncStore[Any],
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Whatever this store sends from now on is traced and counted, in transactions and beside.

    Each `enqueue`, `publish`, `*_many` and `*_tx` of it, also on joined transactions, and each
    firing of a schedule is a span of its own, whose context goes along in the headers. Headers
    that hold a trace context already are left as they are, and the span links to it. Where the
    4,096 bytes of headers do not suffice the context is left out. Nor does anything else that
    fails within tracing fail a call, or keep it from having succeeded: it is logged.

    A span ends with its call. What a transaction sends is there only if it commits.

    Call it once, before or after `open`; a transaction that is open already is not traced. The
    providers are the global ones unless they are given.

    Raises:
        Closed: the store was closed; none of it opens again.
        TypeError: it is no store.

    """
    inner: object = store.wrapped if isinstance(store, SyncStore) else store
    if not isinstance(inner, Store):
        raise TypeError(f"instrument takes a Store or a SyncStore, not a {type(inner).__name__}")
    producer = _Producer(tracer_provider, meter_provider)

    def tap(session: Session) -> None:
        plain: type[Session] = getattr(type(session), "alkstore_plain", type(session))
        # In this order: a blocking store's calls run in another thread meanwhile.
        vars(session)["alkstore_producer"] = producer
        session.__class__ = _traced(plain)

    inner._runtime.tap(tap)  # noqa: SLF001 - part of core, as the store's other halves.


class _Producer:
    """Opens the spans of one store's sendings."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        meter = meter_of(meter_provider)
        self.guard = Guard()
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
    ) -> Iterator[_Sending]:
        """A span that is current meanwhile."""
        said = where.attributes(operation, "send")
        sending = _Sending(self.guard, f"{where.kind} {where.name!r}")
        token = None
        with self.guard.step("reading the trace context of headers"):
            sending.read(texts)
        with self.guard.step("starting a span"):
            own = [Link(context) for context in sending.given.values() if context is not None]
            # By convention: PRODUCER if this is what the message's trace begins with.
            client = own and len(own) == len({*texts})
            sending.span = self._tracer.start_span(
                f"{operation} {where.name}",
                kind=SpanKind.CLIENT if client else SpanKind.PRODUCER,
                attributes={**said, **({} if count == 1 else {COUNT: count})},
                links=own,
            )
        with self.guard.step("making a span current"):
            token = contexts.attach(trace.set_span_in_context(sending.span))
        with self.guard.step("making headers of a trace context"):
            sending.carrier = carrier_of(trace.set_span_in_context(sending.span))
        began = time.perf_counter()
        try:
            yield sending
        except BaseException as error:
            with self.guard.step("telling a span its error"):
                said[ERROR] = error_type(error)
                sending.span.set_attribute(ERROR, said[ERROR])
                sending.span.set_status(Status(StatusCode.ERROR, error_text(error)))
            with self.guard.step("recording an exception"):
                sending.span.record_exception(error)
            raise
        finally:
            if token is not None:
                with self.guard.step("leaving a span"):
                    contexts.detach(token)
            with self.guard.step("ending a span"):
                sending.span.end()
            with self.guard.step("recording a metric"):
                self._duration.record(time.perf_counter() - began, said)
            with self.guard.step("recording a metric"):
                self._sent.add(count, without_type(said))


class _Sending:
    """One sending: its span, and what the headers are to say of it."""

    def __init__(self, guard: Guard, label: str) -> None:
        self.given: dict[str | None, SpanContext | None] = {}
        self.carrier: dict[str, str] = {}
        self.span: Span = trace.INVALID_SPAN
        self._guard = guard
        self._label = label
        self._stamped: dict[str | None, str | None] = {}

    def read(self, texts: Sequence[str | None]) -> None:
        """Find out which encoded headers have a trace context of their own."""
        self.given = {text: creation_context(decode_headers(text)) for text in {*texts} - {None}}

    def stamp(self, text: str | None) -> str | None:
        """Encoded headers with the span's context, unless they have one of their own."""
        if not self.carrier or self.given.get(text) is not None:
            return text
        if text not in self._stamped:
            self._stamped[text] = text
            with self._guard.step("adding a trace context to headers"):
                self._stamped[text] = stamped(text, self.carrier, self._label)
        return self._stamped[text]

    def told(self, ids: list[int]) -> list[int]:
        """The ids, after the span has heard of a single one."""
        if len(ids) == 1:
            with self._guard.step("telling a span its message"):
                self.span.set_attribute(MESSAGE, str(ids[0]))
        return ids


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
            with sending as sent:
                headers = sent.stamp(spec.headers)
                if headers is not spec.headers:
                    spec = attrs.evolve(spec, headers=headers)
                ids: list[int] = await super().insert_jobs(queue, payloads, spec, wake=wake)
                return sent.told(ids)

        async def append(
            self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
        ) -> list[int]:
            where = Destination(stream, "stream")
            sending = self.alkstore_producer.sending(
                "publish", where, [entry.headers for entry in entries], len(entries)
            )
            with sending as sent:
                entries = [entry._replace(headers=sent.stamp(entry.headers)) for entry in entries]
                offsets: list[int] = await super().append(stream, entries, wake=wake)
                return sent.told(offsets)

    Traced.__name__ = Traced.__qualname__ = f"Traced{plain.__name__}"
    return Traced
