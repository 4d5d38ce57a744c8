"""Traces and metrics by OpenTelemetry's API, for who installs `alkstore-core[otel]`.

`instrument` makes a store's producers send their trace context along, in the headers of jobs,
messages and events; the middlewares `trace_jobs` and `trace_events` go on with it around each
handler. Nothing else in core knows this package, so who does not import it pays nothing.

Names are those of OpenTelemetry's semantic conventions for messaging.
"""

try:
    import opentelemetry.trace  # noqa: F401 - asked for here, to say what is missing.
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        "alkstore_core.otel needs OpenTelemetry's API: pip install 'alkstore-core[otel]'",
        name=_missing.name,
    ) from _missing

from alkstore_core.otel.consuming import trace_events, trace_jobs
from alkstore_core.otel.producing import instrument

__all__ = ["instrument", "trace_events", "trace_jobs"]
