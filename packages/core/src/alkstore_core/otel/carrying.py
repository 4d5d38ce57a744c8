"""The trace context in headers, which hold 4,096 bytes and belong to the caller."""

from __future__ import annotations

import itertools
import logging

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from alkstore_core.errors import CodecError
from alkstore_core.headers import decode_headers, encode_headers

_log = logging.getLogger(__name__)


def creation_context(headers: dict[str, str] | None) -> trace.SpanContext | None:
    """The context that a message was made in, when its headers hold one."""
    if not headers:
        return None
    span = trace.get_current_span(propagate.extract(headers, Context()))
    found = span.get_span_context()
    return found if found.is_valid else None


def carrier_of(context: Context) -> dict[str, str]:
    """What the propagators want to send along."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context=context)
    return carrier


def stamped(text: str | None, carrier: dict[str, str], where: str) -> str | None:
    """Encoded headers with a trace context beside what the caller has set, which stays.

    What does not fit is left out, the last first: a trace context fails no enqueue.
    """
    own = decode_headers(text) or {}
    added = [(key, value) for key, value in carrier.items() if key not in own]
    for count in range(len(added), 0, -1):
        try:
            fitting = encode_headers({**own, **dict(itertools.islice(added, count))})
        except CodecError:
            continue
        if count < len(added):
            _log.debug("%s: no room in the headers for %s", where, ", ".join(dict(added[count:])))
        return fitting
    if added:
        _log.debug("%s: no room in the headers for a trace context", where)
    return text
