"""Streams: no reader passes an offset that can still commit.

Offsets come from a sequence, and transactions do not commit in the order in which they drew
them. So a publisher first notes how far the sequence was, in a shared advisory lock that it
holds until its commit can be seen, and draws after that; a reader looks how far the sequence
is, then for the least of the notes, then reads up to the lesser of both. An event below that is
either visible or will never be: it was drawn before the reader's first look, so its publisher's
note was there before the second; had the note still been there, the bound would be lower; it
was gone, so its transaction had ended before the events were read.

Publishers never wait for each other. See "The horizon" in `docs/architecture/engines.md`.
"""

from __future__ import annotations

import functools
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    table,
    tuple_,
)

from alkstore_core import DatabaseError
from alkstore_core.sql import streams as core
from alkstore_core.sql._dialect import Elements
from alkstore_core.sql._jobs import ZERO, as_json, up_to
from alkstore_core.sql.merging import Merge
from alkstore_core.sql.rows import ascending, event_from_row
from alkstore_core.sql.tables import events
from alkstore_postgres.forms import Wake, adapted, among, locked, materialized, waking

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sqlalchemy import Executable, Insert, Select, TableClause
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import Entry
    from alkstore_core.sql.op import Op
    from alkstore_core.values import StreamEvent


@define
class Publishing:
    """What one transaction has published, and what its notes say."""

    bounds: dict[str, int] = field(factory=dict)
    """By stream, how far the sequence was before the first event.

    Noted again before each: a savepoint that is rolled back takes a note with it."""

    offsets: dict[str, list[int]] = field(factory=dict)
    """By stream, what it may read although nobody else may yet."""


# The sequence behind `events.offset`, by the name that Postgres gives it.
_sequence = Table(
    f"{events.name}_offset_seq",
    MetaData(),
    Column("last_value", BigInteger),
    Column("is_called", Boolean),
)
_last: ColumnElement[int] = case((_sequence.c.is_called, _sequence.c.last_value), else_=ZERO)

_WRAP: ColumnElement[int] = literal_column("2147483648", BigInteger)
"""A note has 31 bits."""

_AHEAD: ColumnElement[int] = literal_column("1048576", BigInteger)
"""How many offsets may be drawn between a reader's two looks; all other distances are behind."""

_key = bindparam("note_key", type_=Integer)
_bound = func.coalesce(bindparam("first", type_=BigInteger), _last)
_noted = materialized(select(_bound.label("bound")), "noted")
_held = materialized(
    select(
        _noted.c.bound,
        func.pg_advisory_xact_lock_shared(_key, cast(_noted.c.bound % _WRAP, Integer)),
    ),
    "held",
)
_first_bound = select(_held.c.bound).scalar_subquery()


def _behind_note(values: dict[str, ColumnElement[Any]], *order: ColumnElement[int]) -> Insert:
    """Insert what is selected beside the note, so that offsets are drawn after it is held."""
    rows = select(*values.values()).select_from(_held).order_by(*order)
    return insert(events).from_select(list(values), rows).returning(events.c.offset)


APPEND = _behind_note(core.event_values)
APPEND_MANY = _behind_note(core.entry_values, core.entries_given.ordinal)
APPEND_WAKING = waking(APPEND)
APPEND_MANY_WAKING = waking(APPEND_MANY)
APPEND_IN = APPEND.returning(_first_bound)
APPEND_MANY_IN = APPEND_MANY.returning(_first_bound)
APPEND_IN_WAKING = waking(APPEND_IN)
APPEND_MANY_IN_WAKING = waking(APPEND_MANY_IN)

TAIL = select(_last, func.current_setting(literal_column("'transaction_isolation'"), type_=Text))

pg_locks: TableClause = table(
    "pg_locks",
    *(column(name) for name in ("locktype", "database", "classid", "objid", "objsubid", "pid")),
)
_databases = table("pg_database", column("oid"), column("datname"))
_this_database = select(_databases.c.oid).where(_databases.c.datname == func.current_database())

notes: Sequence[ColumnElement[bool]] = (
    pg_locks.c.locktype == literal_column("'advisory'"),
    pg_locks.c.database == _this_database.scalar_subquery(),
    pg_locks.c.objsubid == literal_column("2"),
)
"""The locks that may be notes of this database's publishers."""

stream_of_note: ColumnElement[int] = cast(pg_locks.c.classid, BigInteger)
"""Whose note a lock is, by the stream's `unsigned_key`."""

_tail = bindparam("tail", type_=BigInteger)
_note = cast(pg_locks.c.objid, BigInteger)
_before: ColumnElement[int] = _WRAP - _AHEAD
_distance = ((_note - _tail + _before) % _WRAP + _WRAP) % _WRAP - _before

HORIZON = select(_tail + func.min(_distance)).where(
    *notes,
    stream_of_note == bindparam("unsigned_key", type_=BigInteger),
    # A prepared transaction has no process, and holds its notes all the same.
    pg_locks.c.pid.is_distinct_from(func.pg_backend_pid()),
)

_place = tuple_(events.c.stream, events.c.offset)
_stream = bindparam("stream", type_=Text)
_far = literal_column(str(2**63 - 1), BigInteger)


def _between(
    after: ColumnElement[int], until: ColumnElement[int], *conditions: ColumnElement[bool]
) -> Select[Any]:
    """Events of a stream by offset. As a range of pairs, which only the index on both has.

    Asked for one stream in the order of offsets, the planner may walk along all streams' offsets
    instead, until it has found enough of this one.
    """
    found = select(*events.c).where(
        _place > tuple_(_stream, after), _place <= tuple_(_stream, until), *conditions
    )
    return up_to("limit", found.order_by(events.c.stream, events.c.offset))


_after = bindparam("after", type_=BigInteger)
_saved = func.coalesce(core.GET_OFFSET.scalar_subquery(), ZERO)
_upto = bindparam("bound", type_=BigInteger)
_readable = or_(events.c.offset <= _upto, events.c.offset.in_(select(Elements("own").integer)))

READ = _between(_after, _upto)
READ_FROM = _between(_saved, _upto)
READ_WITH_OWN = _between(_after, _far, _readable)

_lowest = _between(-_far, bindparam("horizon", type_=BigInteger)).with_only_columns(events.c.offset)
_trimmed = materialized(_lowest, "chosen")
_gone = locked(events, among(events.c.offset, _trimmed), skip=True)
TRIM = delete(events).where(among(events.c.offset, _gone))

trim = adapted({core.TRIM: TRIM})(core.trim)

UNREADABLE: Final = (
    "events cannot be read in a transaction at {}: its snapshot is older than the question which "
    "events may still come, so some would be skipped; read outside of it, or at READ COMMITTED"
)


@functools.lru_cache(maxsize=4096)
def note_key(schema: str, stream: str) -> int:
    """The first half of a stream's advisory locks, a signed 32-bit number.

    Two streams that share one make each other's readers wait, never skip.
    """
    digest = blake2b(f"{schema}\0{stream}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True)


def unsigned_key(schema: str, stream: str) -> int:
    """The same number as `pg_locks` shows it."""
    return note_key(schema, stream) & 0xFFFFFFFF


def append(
    wake: Wake, schema: str, stream: str, entries: Sequence[Entry], publishing: Publishing | None
) -> Op[list[int]]:
    """Append events; return their offsets in input order."""
    row: dict[str, Any] = {
        "stream": stream,
        "note_key": note_key(schema, stream),
        "first": None,
    }
    if wake is not None:
        row["wake"] = wake
    if publishing is not None:
        row["first"] = publishing.bounds.get(stream)
    if len(entries) == 1:
        row["payload"], row["key"], row["headers"] = entries[0]
    else:
        row["entries"] = as_json((data.decode(), key, headers) for data, key, headers in entries)
    statement = _STATEMENTS[len(entries) > 1, publishing is not None, wake is not None]
    result = yield statement, row
    if publishing is not None:
        publishing.bounds[stream] = result.rows[0][1]
    result.rows = [found[:1] for found in result.rows]
    offsets = ascending(result, len(entries))
    if publishing is not None:
        publishing.offsets.setdefault(stream, []).extend(offsets)
    return offsets


_STATEMENTS: dict[tuple[bool, bool, bool], Executable] = {
    (False, False, False): APPEND,
    (False, False, True): APPEND_WAKING,
    (False, True, False): APPEND_IN,
    (False, True, True): APPEND_IN_WAKING,
    (True, False, False): APPEND_MANY,
    (True, False, True): APPEND_MANY_WAKING,
    (True, True, False): APPEND_MANY_IN,
    (True, True, True): APPEND_MANY_IN_WAKING,
}


def read(
    schema: str, stream: str, after: int, limit: int, publishing: Publishing | None
) -> Op[tuple[list[StreamEvent], bool]]:
    """Events above an offset; and whether there may be more once somebody's transaction ends."""
    row: dict[str, Any] = {"stream": stream, "after": after, "limit": limit}
    own = None if publishing is None else publishing.offsets.get(stream)
    if own:
        row["own"] = as_json(own)
    return (yield from _read(schema, READ_WITH_OWN if own else READ, row))


def read_from(
    schema: str, stream: str, consumer: str, limit: int
) -> Op[tuple[list[StreamEvent], bool]]:
    """The same, behind the consumer's position.

    Of its own events a transaction gets no more than anybody might: the consumer's offset is saved
    behind what was read, and must not pass what others have still to commit below it.
    """
    row = {"stream": stream, "consumer": consumer, "limit": limit}
    return (yield from _read(schema, READ_FROM, row))


def _read(
    schema: str, statement: Select[Any], row: dict[str, Any]
) -> Op[tuple[list[StreamEvent], bool]]:
    # Three statements, in this order, the last one with a snapshot of its own.
    ((tail, isolation),) = (yield TAIL, {}).rows
    if isolation not in {"read committed", "read uncommitted"}:
        raise DatabaseError(UNREADABLE.format(isolation.upper()))
    key = unsigned_key(schema, row["stream"])
    ((horizon,),) = (yield HORIZON, {"tail": tail, "unsigned_key": key}).rows
    cut = horizon is not None and horizon < tail
    row["bound"] = horizon if cut else tail
    rows = (yield statement, row).rows
    return [event_from_row(found) for found in rows], cut


def _append_key(arguments: tuple[Any, ...]) -> Hashable:
    wake, _, stream, _, _ = arguments
    return wake, stream


def append_together(calls: Sequence[tuple[Any, ...]]) -> Op[list[list[int]]]:
    """Many publishes to one stream."""
    wake, schema, stream, _, publishing = calls[0]
    entries = list(chain.from_iterable(call[3] for call in calls))
    offsets = iter((yield from append(wake, schema, stream, entries, publishing)))
    return [list(islice(offsets, len(call[3]))) for call in calls]


APPENDS = Merge(_append_key, append_together)
