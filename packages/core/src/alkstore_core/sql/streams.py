"""Streams: events in the order of their offsets, and how far consumers have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Text, and_, bindparam, delete, func, insert, select

from alkstore_core.sql._dialect import NOW, Elements, upsert
from alkstore_core.sql._jobs import ZERO, as_json, up_to
from alkstore_core.sql.rows import ascending, consumer_from_row, event_from_row
from alkstore_core.sql.tables import consumers, events
from alkstore_core.values import StreamBounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import Entry
    from alkstore_core.sql.op import Op
    from alkstore_core.values import ConsumerPosition, StreamEvent

_stream = bindparam("stream", type_=Text)
_of_stream = events.c.stream == _stream

event_values: dict[str, ColumnElement[Any]] = {
    "stream": _stream,
    "key": bindparam("key", type_=Text),
    "payload": bindparam("payload", type_=events.c.payload.type),
    "headers": bindparam("headers", type_=Text),
    "created_at": NOW,
}
"""An event's columns, out of parameters."""

APPEND = insert(events).values(event_values).returning(events.c.offset)

entries_given: Elements = Elements("entries")

entry_values: dict[str, ColumnElement[Any]] = {
    **event_values,
    "key": entries_given.text_at(1),
    "payload": entries_given.blob_at(0),
    "headers": entries_given.text_at(2),
}
"""The same, out of the rows of the parameter `entries`."""

APPEND_MANY = (
    insert(events)
    .from_select(list(event_values), select(*entry_values.values()).order_by(entries_given.ordinal))
    .returning(events.c.offset)
)

_after = bindparam("after", type_=BigInteger)

READ = up_to(
    "limit",
    select(*events.c).where(_of_stream, events.c.offset > _after).order_by(events.c.offset),
)

_position = and_(
    consumers.c.stream == _stream, consumers.c.consumer == bindparam("consumer", type_=Text)
)
_saved = select(consumers.c.offset).where(_position).scalar_subquery()

READ_FROM = up_to(
    "limit",
    select(*events.c)
    .where(_of_stream, events.c.offset > func.coalesce(_saved, ZERO))
    .order_by(events.c.offset),
)

GET_OFFSET = select(consumers.c.offset).where(_position)

_save = upsert(consumers).values(
    stream=_stream,
    consumer=bindparam("consumer", type_=Text),
    offset=bindparam("offset", type_=BigInteger),
)

# A save that is not ahead touches no row: nothing is written and nobody wakes.
SAVE_OFFSET = _save.on_conflict_do_update(
    index_elements=[consumers.c.stream, consumers.c.consumer],
    set_={"offset": _save.excluded.offset},
    where=consumers.c.offset < _save.excluded.offset,
)

trimmed: Select[int] = up_to(
    "limit",
    select(events.c.offset)
    .where(_of_stream, events.c.offset <= bindparam("horizon", type_=BigInteger))
    .order_by(events.c.offset)
    .correlate(None),
)

TRIM = delete(events).where(events.c.offset.in_(trimmed))

LIST_CONSUMERS = (
    select(*consumers.c).where(consumers.c.stream == _stream).order_by(consumers.c.consumer)
)

BOUNDS = select(func.min(events.c.offset), func.max(events.c.offset), func.count()).where(
    _of_stream
)


def append(stream: str, entries: Sequence[Entry]) -> Op[list[int]]:
    """Append events; return their offsets in input order."""
    if not entries:
        return []
    if len(entries) == 1:
        payload, key, headers = entries[0]
        row = {"stream": stream, "payload": payload, "key": key, "headers": headers}
        result = yield APPEND, row
    else:
        rows = as_json((payload.decode(), key, headers) for payload, key, headers in entries)
        result = yield APPEND_MANY, {"stream": stream, "entries": rows}
    return ascending(result, len(entries))


def read(stream: str, after: int, limit: int) -> Op[list[StreamEvent]]:
    """Up to `limit` events with an offset above `after`, ascending."""
    rows = (yield READ, {"stream": stream, "after": after, "limit": limit}).rows
    return [event_from_row(row) for row in rows]


def read_from(stream: str, consumer: str, limit: int) -> Op[list[StreamEvent]]:
    """Up to `limit` events behind the consumer's position, ascending."""
    row = {"stream": stream, "consumer": consumer, "limit": limit}
    return [event_from_row(row) for row in (yield READ_FROM, row).rows]


def save_offset(stream: str, consumer: str, offset: int) -> Op[None]:
    """Advance a consumer; it never goes back, and everybody starts at 0."""
    yield SAVE_OFFSET, {"stream": stream, "consumer": consumer, "offset": max(offset, 0)}


def get_offset(stream: str, consumer: str) -> Op[int]:
    """The consumer's position."""
    rows = (yield GET_OFFSET, {"stream": stream, "consumer": consumer}).rows
    return rows[0][0] if rows else 0


def trim(stream: str, horizon: int, limit: int) -> Op[int]:
    """Delete up to `limit` events with an offset <= `horizon`, lowest first."""
    return (yield TRIM, {"stream": stream, "horizon": horizon, "limit": limit}).count


def list_consumers(stream: str) -> Op[list[ConsumerPosition]]:
    """Every consumer that saved an offset, by name."""
    rows = (yield LIST_CONSUMERS, {"stream": stream}).rows
    return [consumer_from_row(row) for row in rows]


def bounds(stream: str) -> Op[StreamBounds]:
    """First and last stored offset and the count."""
    ((first, last, count),) = (yield BOUNDS, {"stream": stream}).rows
    return StreamBounds(first=first or 0, last=last or 0, count=count)
