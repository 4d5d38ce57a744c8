"""Streams: a durable log, and readers that each keep a place in it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

from alkstore_core import requests
from alkstore_core.completion import Attaching
from alkstore_core.errors import AlkstoreError
from alkstore_core.integers import check_i64
from alkstore_core.names import check_label
from alkstore_core.receiving import Receiver
from alkstore_core.spi import Fired, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Subscription
    from alkstore_core.stop import StopToken
    from alkstore_core.values import ConsumerPosition, StreamBounds, StreamEvent

PAGE: Final = 100
CHUNK: Final = 1000


@final
class StreamHandle:
    """A stream of one name. Offsets ascend, are never reused and may have gaps.

    Calls raise `DatabaseError` when the database refuses or a number is not an i64, `Closed`
    when the store is not open, and `InvalidName` for consumers and keys.
    """

    __slots__ = ("_name", "_runtime")

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._name = name

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._name

    async def publish(self, payload: Any, headers: dict[str, str] | None = None) -> int:
        """The event is in the stream, committed; returns its offset.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        name, entries, wake = requests.publish(self._name, payload, headers)
        if self._runtime.slot.taken:
            await self._runtime.turn("publish", "publish_tx")
        return (await self._runtime.session().append(name, entries, wake=wake))[0]

    async def publish_with_key(
        self, key: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """As `publish`, with a key that readers get back; it does not change the order.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        name, entries, wake = requests.publish_with_key(self._name, key, payload, headers)
        if self._runtime.slot.taken:
            await self._runtime.turn("publish_with_key", "publish_with_key_tx")
        return (await self._runtime.session().append(name, entries, wake=wake))[0]

    async def publish_many(self, payloads: Iterable[Any]) -> list[int]:
        """As `publish`, for several payloads: all or none, offsets in input order.

        Raises:
            CodecError: a payload is not JSON.

        """
        name, entries, wake = requests.publish_many(self._name, payloads)
        if self._runtime.slot.taken:
            await self._runtime.turn("publish_many", "publish_many_tx")
        session = self._runtime.session()
        return await session.append(name, entries, wake=wake) if entries else []

    async def read_since(self, offset: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above `offset`, ascending; none for a limit of 0 or less."""
        request = requests.read_since(self._name, offset, limit)
        session = self._runtime.session()
        return await session.read(*request) if request.limit > 0 else []

    async def read_from_consumer(self, consumer: str, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above the consumer's saved offset, ascending."""
        request = requests.read_from_consumer(self._name, consumer, limit)
        session = self._runtime.session()
        return await session.read_from(*request) if request.limit > 0 else []

    async def save_offset(self, consumer: str, offset: int) -> None:
        """The consumer stands at `offset`, unless it is further already."""
        request = requests.save_offset(self._name, consumer, offset)
        if self._runtime.slot.taken:
            await self._runtime.turn("save_offset", "save_offset_tx")
        await self._runtime.session().save_offset(*request)

    async def get_offset(self, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""
        request = requests.get_offset(self._name, consumer)
        return await self._runtime.session().get_offset(*request)

    async def trim_to(self, horizon: int) -> int:
        """Delete events with an offset of `horizon` or less; returns how many.

        Nothing else ever deletes events. Wakes nobody; saved offsets stay good. Works in atomic
        pieces of 1,000, lowest first.
        """
        until = check_i64("horizon", horizon)
        trimmed = 0
        while True:
            if self._runtime.slot.taken:
                await self._runtime.turn("trim_to")
            count = await self._runtime.session().trim(self._name, until, CHUNK)
            trimmed += count
            if count < CHUNK:
                return trimmed

    def subscribe(self, consumer: str, stop: StopToken | None = None) -> Attaching[EventReceiver]:
        """Every event after the consumer's saved offset, and then each new one.

        `await` it or use `async with`; attached when that returns. `stop` ends the receiver.
        Nothing is saved unless `save_offset` is called.
        """
        label = check_label("consumer", consumer)

        async def attach() -> EventReceiver:
            self._runtime.session()
            topic = Topic("stream", self._name)
            subscription = await self._runtime.engine.signals.subscribe(topic)
            try:
                position = await self.get_offset(label)
            except BaseException:
                subscription.close()
                raise
            return EventReceiver(self, label, position, self._runtime, subscription, stop)

        return Attaching(attach)

    async def consumers(self) -> list[ConsumerPosition]:
        """Every consumer that saved an offset, by name."""
        return await self._runtime.session().list_consumers(self._name)

    async def bounds(self) -> StreamBounds:
        """The first and last stored offset and the number of events."""
        return await self._runtime.session().bounds(self._name)


@final
class EventReceiver(Receiver):
    """A consumer's events in order, from its saved offset on.

    A missed wake can delay an event, never lose one: a wake says only "read again".
    """

    __slots__ = ("_buffer", "_consumer", "_last", "_position", "_reading", "_stream", "_unread")

    def __init__(
        self,
        stream: StreamHandle,
        consumer: str,
        position: int,
        runtime: Runtime,
        subscription: Subscription,
        stop: StopToken | None,
    ) -> None:
        self._stream = stream
        self._consumer = consumer
        self._position = position
        self._last: int | None = None
        self._buffer: deque[StreamEvent] = deque()
        self._unread = True
        self._reading = asyncio.Lock()
        super().__init__(runtime, subscription, stop)

    async def recv(self) -> StreamEvent | None:
        """The next event; `None` once the receiver has ended. A cancelled wait loses nothing.

        Raises:
            DatabaseError: the database refused; call again to go on at the same place.

        """
        self._runtime.check_home()
        if not self._buffer and not self._ended:
            await self._fill()
        if self._ended:
            return None
        event = self._buffer.popleft()
        self._last = event.offset
        return event

    async def save_offset(self) -> None:
        """The consumer stands at the event that `recv` gave last; without one nothing happens.

        Raises:
            DatabaseError: the database refused.
            Closed: the store is not open.

        """
        if self._last is not None:
            await self._stream.save_offset(self._consumer, self._last)

    def __aiter__(self) -> EventReceiver:
        return self

    async def __anext__(self) -> StreamEvent:
        event = await self.recv()
        if event is None:
            raise StopAsyncIteration
        return event

    async def _fill(self) -> None:
        # One task at a time: two that read the same page would both hand it out.
        async with self._reading:
            while not self._buffer and not self._ended:
                if self._unread:
                    await self._read_page()
                elif await self._subscription.wait() is Fired.CLOSED:
                    self.end()
                else:
                    self._unread = True

    async def _read_page(self) -> None:
        try:
            page = await self._stream.read_since(self._position, PAGE)
        except AlkstoreError:
            if await self._has_closed():
                self.end()
            if self._ended:
                return
            raise
        self._unread = len(page) == PAGE
        if page:
            self._buffer.extend(page)
            self._position = page[-1].offset

    async def _has_closed(self) -> bool:
        """Whether wakes have ended: then reading will fail for ever, and the caller with it."""
        if self._ended:
            return True
        waiting = asyncio.ensure_future(self._subscription.wait())
        try:
            await asyncio.sleep(0)
            # A wake that this takes is no loss: the failed page is read again anyway.
            return waiting.done() and await waiting is Fired.CLOSED
        finally:
            waiting.cancel()
