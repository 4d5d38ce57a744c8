"""What spans and metrics are called, and what is said of a destination.

OpenTelemetry's semantic conventions for messaging, as of their release 1.45; what they have no
word for stands in their namespace for a system's own, `messaging.alkstore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry import metrics, trace

from alkstore_core.names import outbox_behind

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
KIND: Final = "messaging.alkstore.destination.kind"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
CONSUMER: Final = "messaging.consumer.group.name"
MESSAGE: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
ATTEMPT: Final = "messaging.alkstore.attempt"
OUTCOME: Final = "messaging.alkstore.outcome"
ERROR: Final = "error.type"

SCOPE: Final = "alkstore"
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Upper bounds in seconds, those that the conventions name."""


class Destination(NamedTuple):
    """Where messages go to: a queue, an outbox or a stream. One name may stand for all three."""

    name: str
    kind: str

    def attributes(self, operation: str, operation_type: str) -> dict[str, str | int]:
        """What a span of it says from its start, so that samplers can tell by it."""
        return {
            SYSTEM: SCOPE,
            DESTINATION: self.name,
            KIND: self.kind,
            OPERATION: operation,
            OPERATION_TYPE: operation_type,
        }


def queue_or_outbox(queue: str) -> Destination:
    """A queue, or the outbox that it stands behind."""
    outbox = outbox_behind(queue)
    return Destination(queue, "queue") if outbox is None else Destination(outbox, "outbox")


def without_type(said: dict[str, str | int]) -> dict[str, str | int]:
    """What a counter of messages says: its name tells the type of the operation.

    A copy, as the SDK may keep what it was given.
    """
    return {key: value for key, value in said.items() if key != OPERATION_TYPE}


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """The tracer of a provider, or of the global one."""
    return trace.get_tracer(SCOPE, tracer_provider=provider)


def meter_of(provider: MeterProvider | None) -> Meter:
    """The meter of a provider, or of the global one."""
    return metrics.get_meter(SCOPE, meter_provider=provider)


def error_type(error: BaseException) -> str:
    """The class of an error, as the conventions want it: few different values."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__
