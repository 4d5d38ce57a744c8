"""What is in a store, in one look: what operators' tools show, each in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

if TYPE_CHECKING:
    from alkstore_core.queues import JobSource
    from alkstore_core.store import Store
    from alkstore_core.values import LockInfo, QueueStats, Schedule, StreamBounds


@frozen(kw_only=True)
class QueueOverview:
    """A queue, or an outbox, and how many jobs of it stand where."""

    name: str
    kind: Literal["queue", "outbox"]
    stats: QueueStats


@frozen(kw_only=True)
class ConsumerOverview:
    """Where a consumer stands; `lag` is how many stored events lie behind its saved offset.

    Where offsets have gaps, the count of a consumer in their midst may be too high.
    """

    name: str
    offset: int
    lag: int


@frozen(kw_only=True)
class StreamOverview:
    """A stream and those that have saved an offset in it, by name."""

    name: str
    bounds: StreamBounds
    consumers: tuple[ConsumerOverview, ...]


@frozen(kw_only=True)
class Overview:
    """What holds something: queues and outboxes, streams, live locks, schedules; each by name.

    `at` is the store's time once all of it had been read: nothing in it was stamped later.
    """

    at: int
    queues: tuple[QueueOverview, ...]
    streams: tuple[StreamOverview, ...]
    locks: tuple[LockInfo, ...]
    schedules: tuple[Schedule, ...]


async def overview(store: Store) -> Overview:
    """Look at everything in an open store; the parts are read one after another.

    Raises:
        DatabaseError: the database refused.
        Closed: the store is not open.

    """
    sources: list[tuple[str, Literal["queue", "outbox"], JobSource]] = [
        *((name, "queue", store.queue(name)) for name in await store.queues()),
        *((name, "outbox", store.outbox(name).backing) for name in await store.outboxes()),
    ]
    queues = [
        QueueOverview(name=name, kind=kind, stats=await source.stats())
        for name, kind, source in sources
    ]
    streams = [await stream_overview(store, name) for name in await store.streams()]
    locks = await store.locks()
    schedules = await store.schedules()
    return Overview(
        at=await store.now(),
        queues=tuple(queues),
        streams=tuple(streams),
        locks=tuple(locks),
        schedules=tuple(schedules),
    )


async def stream_overview(store: Store, name: str) -> StreamOverview:
    """Look at one stream of an open store, without counting anything else.

    Raises:
        DatabaseError: the database refused.
        Closed: the store is not open.
        InvalidName, ReservedName: there can be no stream of that name.

    """
    stream = store.stream(name)
    # First the consumers: an event that comes in between makes a lag greater, never negative.
    positions = await stream.consumers()
    bounds = await stream.bounds()
    return StreamOverview(
        name=name,
        bounds=bounds,
        consumers=tuple(
            ConsumerOverview(
                name=position.consumer, offset=position.offset, lag=_lag(position.offset, bounds)
            )
            for position in positions
        ),
    )


def _lag(offset: int, bounds: StreamBounds) -> int:
    return max(0, min(bounds.count, bounds.last - offset))
