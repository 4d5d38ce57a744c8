"""Streams for code that blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from alkstore_core.sync.given import collected
from alkstore_core.sync.receivers import attached_events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.stop import StopToken
    from alkstore_core.streams import StreamHandle
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.sync.receivers import SyncEventReceiver
    from alkstore_core.values import ConsumerPosition, StreamBounds, StreamEvent


@final
class SyncStreamHandle:
    """A stream of one name, as `StreamHandle`. Each call does what the one of that name does."""

    __slots__ = ("_bridge", "_stream")

    def __init__(self, bridge: Bridge, stream: StreamHandle) -> None:
        self._bridge = bridge
        self._stream = stream

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._stream.name

    def publish(self, payload: Any, headers: dict[str, str] | None = None) -> int:
        """The event is in the stream, committed; returns its offset."""
        return self._bridge.call(self._stream.publish, payload, headers)

    def publish_with_key(
        self, key: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """As `publish`, with a key that readers get back; it does not change the order."""
        return self._bridge.call(self._stream.publish_with_key, key, payload, headers)

    def publish_many(self, payloads: Iterable[Any]) -> list[int]:
        """As `publish`, for several payloads: all or none, offsets in input order."""
        return self._bridge.call(self._stream.publish_many, collected(payloads))

    def read_since(self, offset: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above `offset`, ascending; none for a limit of 0 or less."""
        return self._bridge.call(self._stream.read_since, offset, limit)

    def read_from_consumer(self, consumer: str, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above the consumer's saved offset, ascending."""
        return self._bridge.call(self._stream.read_from_consumer, consumer, limit)

    def save_offset(self, consumer: str, offset: int) -> None:
        """The consumer stands at `offset`, unless it is further already."""
        self._bridge.call(self._stream.save_offset, consumer, offset)

    def get_offset(self, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""
        return self._bridge.call(self._stream.get_offset, consumer)

    def trim_to(self, horizon: int) -> int:
        """Delete events with an offset of `horizon` or less; returns how many."""
        return self._bridge.call(self._stream.trim_to, horizon)

    def subscribe(self, consumer: str, stop: StopToken | None = None) -> SyncEventReceiver:
        """Every event after the consumer's saved offset, and then each new one.

        Attached when this returns; use `with`, or `close` it. Nothing is saved unless
        `save_offset` is called.
        """
        attaching = self._stream.subscribe(consumer, stop)
        return attached_events(self._bridge, attaching, self._stream, consumer)

    def consumers(self) -> list[ConsumerPosition]:
        """Every consumer that saved an offset, by name."""
        return self._bridge.call(self._stream.consumers)

    def bounds(self) -> StreamBounds:
        """The first and last stored offset and the number of events."""
        return self._bridge.call(self._stream.bounds)
