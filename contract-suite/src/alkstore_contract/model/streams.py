"""Streams: a log for each name, and how far its consumers have come."""

from __future__ import annotations

from attrs import frozen


@frozen
class Event:
    """An event; only the offset orders events."""

    offset: int
    stream: str
    key: str | None
    payload: bytes
    headers: dict[str, str] | None
    created_at: int


class Streams:
    """All events of a database. Offsets are the engine's choice; they ascend in each stream."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}
        self.trimmed: dict[str, list[Event]] = {}
        self.highest: dict[str, int] = {}
        self.positions: dict[tuple[str, str], int] = {}

    def copy(self) -> Streams:
        """The same events and positions, apart."""
        other = Streams()
        other.events = {name: list(events) for name, events in self.events.items()}
        other.trimmed = {name: list(events) for name, events in self.trimmed.items()}
        other.highest, other.positions = dict(self.highest), dict(self.positions)
        return other

    def publish(self, event: Event) -> None:
        """The event stands in its stream, in the order of offsets."""
        events = self.events.setdefault(event.stream, [])
        events.append(event)
        events.sort(key=lambda e: e.offset)
        self.highest[event.stream] = max(event.offset, self.highest.get(event.stream, 0))

    def read(self, stream: str, after: int, limit: int) -> list[Event]:
        """Up to `limit` events strictly after an offset, ascending, gaps or no gaps."""
        found = [event for event in self.events.get(stream, []) if event.offset > after]
        return found[: max(limit, 0)]

    def position(self, stream: str, consumer: str) -> int:
        """Where a consumer stands; an unknown one stands at 0."""
        return self.positions.get((stream, consumer), 0)

    def save(self, stream: str, consumer: str, offset: int) -> None:
        """Forward only."""
        here = self.position(stream, consumer)
        self.positions[stream, consumer] = max(here, offset)

    def trim(self, stream: str, horizon: int) -> int:
        """Events up to and including the horizon are gone; what remains keeps its offset."""
        events = self.events.get(stream, [])
        gone = [event for event in events if event.offset <= horizon]
        self.events[stream] = [event for event in events if event.offset > horizon]
        self.trimmed.setdefault(stream, []).extend(gone)
        return len(gone)

    def bounds(self, stream: str) -> tuple[int, int, int]:
        """First and last offset and how many there are; zeros when there is none."""
        events = self.events.get(stream, [])
        return (events[0].offset, events[-1].offset, len(events)) if events else (0, 0, 0)

    def consumers(self, stream: str) -> dict[str, int]:
        """Who has saved an offset above 0, and which."""
        return {
            consumer: offset
            for (name, consumer), offset in self.positions.items()
            if name == stream and offset > 0
        }

    def names(self) -> set[str]:
        """The streams that hold an event or an offset."""
        read = {stream for (stream, _), offset in self.positions.items() if offset > 0}
        return read | {stream for stream, events in self.events.items() if events}
