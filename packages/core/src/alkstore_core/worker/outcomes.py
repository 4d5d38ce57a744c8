"""What a handler may raise to say what becomes of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_core.errors import AlkstoreError
from alkstore_core.integers import check_i64

if TYPE_CHECKING:
    from typing import Any


class Retry(AlkstoreError):  # noqa: N818 - a handler says `raise Retry`.
    """Raised by a handler: try again, in `delay` seconds; without them the backoff decides.

    `reason`, a text or an exception, becomes the job's `last_error`. A job whose attempts are
    used up is dead instead.

    Raises:
        DatabaseError: `delay` is not an i64.

    """

    # Also of a subclass whose `__init__` does not call this one.
    reason: Any = None
    delay: int | None = None

    def __init__(self, reason: Any = None, delay: int | None = None) -> None:
        super().__init__(reason, delay)
        self.reason = reason
        self.delay = None if delay is None else check_i64("delay", delay)

    def __str__(self) -> str:
        return "the handler wants to try again" if self.reason is None else str(self.reason)


class Fail(AlkstoreError):  # noqa: N818 - as above.
    """Raised by a handler: no retry will heal it. The job is dead at once, with `reason`."""

    # As above.
    reason: Any = None

    def __init__(self, reason: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return "failed" if self.reason is None else str(self.reason)


class ClaimLost(AlkstoreError):  # noqa: N818 - as the others.
    """Somebody else may do the work now, so its handler was cancelled.

    The handler sees an `asyncio.CancelledError` whose first argument is this error.
    """


class PoisonedEvent(AlkstoreError):  # noqa: N818 - as the others.
    """A consumer stopped at an event that its handler cannot take.

    `stream`, `consumer` and `offset` name it; `__cause__` is what the handler raised last.
    Nothing is skipped: the next run begins at this very event.
    """

    def __init__(self, stream: str, consumer: str, offset: int) -> None:
        super().__init__(stream, consumer, offset)
        self.stream = stream
        self.consumer = consumer
        self.offset = offset

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer!r} of stream {self.stream!r} stopped at offset "
            f"{self.offset}, which its handler cannot take; mend the handler, or skip the event "
            "with save_offset"
        )
