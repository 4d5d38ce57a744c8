"""The trace context in headers, which hold 4,096 bytes and belong to the caller."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from alkstore_core.errors import CodecError
from alkstore_core.headers import decode_headers, encode_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)


class _AnyCase(Getter["Mapping[str, str]"]):
    """Header names are the same in any case, as in HTTP, where they may come from."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        if key in carrier:
            return [carrier[key]]
        wanted = key.lower()
        return [carrier[name] for name in carrier if name.lower() == wanted] or None

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


_any_case = _AnyCase()


def extracted(headers: dict[str, str], context: Context) -> Context:
    """A context with what the headers bring along, which is also baggage and the like."""
    return propagate.extract(headers, context, getter=_any_case)


def creation_context(headers: dict[str, str] | None) -> trace.SpanContext | None:
    """The context that a message was made in, when its headers hold one."""
    if not headers:
        return None
    span = trace.get_current_span(extracted(headers, Context()))
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
    taken = {key.lower() for key in own}
    added = [(key, value) for key, value in carrier.items() if key.lower() not in taken]
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
