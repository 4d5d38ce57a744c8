# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Streams. One transaction at a time writes, so no offset comes after a higher one was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_core import ConsumerPosition, StreamBounds, StreamEvent
from alkstore_core.headers import decode_headers
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.spi import Entry, Topic
    from dictstore.log import Log


class StreamPart(Part):
    """What publishers and consumers do."""

    async def append(
        self, stream: str, entries: Sequence[Entry], *, wake: Sequence[Topic] = ()
    ) -> list[int]:
        data = await self.change()
        now = self.now()
        events = [
            StreamEvent(
                offset=data.next("event"),
                stream=stream,
                key=entry.key,
                payload=entry.payload,
                headers=decode_headers(entry.headers),
                created_at=now,
            )
            for entry in entries
        ]
        data.streams.change(stream).events += events
        self.wake(wake)
        return [event.offset for event in events]

    async def read(self, stream: str, after: int, limit: int) -> list[StreamEvent]:
        return _read((await self.view()).streams.view(stream), after, limit)

    async def read_from(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        log = (await self.view()).streams.view(stream)
        return _read(log, log.consumers.get(consumer, 0), limit)

    async def save_offset(self, stream: str, consumer: str, offset: int) -> None:
        consumers = (await self.change()).streams.change(stream).consumers
        consumers[consumer] = max(offset, consumers.get(consumer, 0))

    async def get_offset(self, stream: str, consumer: str) -> int:
        return (await self.view()).streams.view(stream).consumers.get(consumer, 0)

    async def trim(self, stream: str, horizon: int, limit: int) -> int:
        log = (await self.change()).streams.change(stream)
        count = min(log.up_to(horizon), limit)
        del log.events[:count]
        return count

    async def list_consumers(self, stream: str) -> list[ConsumerPosition]:
        consumers = (await self.view()).streams.view(stream).consumers
        return [
            ConsumerPosition(stream=stream, consumer=consumer, offset=offset)
            for consumer, offset in sorted(consumers.items())
        ]

    async def bounds(self, stream: str) -> StreamBounds:
        events = (await self.view()).streams.view(stream).events
        if not events:
            return StreamBounds(first=0, last=0, count=0)
        return StreamBounds(first=events[0].offset, last=events[-1].offset, count=len(events))


def _read(log: Log, after: int, limit: int) -> list[StreamEvent]:
    start = log.up_to(after)
    return log.events[start : start + limit]
