"""One stream: its events by offset, and how far its consumers have read."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alkstore_core import StreamEvent

_offset = attrgetter("offset")


class Log:
    """The events of one stream, ascending, and each consumer's saved offset."""

    def __init__(self) -> None:
        self.events: list[StreamEvent] = []
        self.consumers: dict[str, int] = {}

    def copy(self) -> Log:
        """One that can be changed apart from this one."""
        twin = Log()
        twin.events = self.events.copy()
        twin.consumers = self.consumers.copy()
        return twin

    def up_to(self, offset: int) -> int:
        """How many events have an offset <= `offset`: where the first one above it stands."""
        return bisect_right(self.events, offset, key=_offset)
