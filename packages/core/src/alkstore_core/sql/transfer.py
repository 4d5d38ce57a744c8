"""Stored rows on their way between engines: as they are, but in the contract's own terms.

Ids and offsets are given anew. Pending jobs become ready or delayed by the time of the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Text,
    and_,
    bindparam,
    case,
    delete,
    insert,
    literal_column,
    select,
    tuple_,
)

from alkstore_core.spi import Record
from alkstore_core.sql._dialect import EMPTY, FOREVER, NOW, Bytes, Elements, upsert
from alkstore_core.sql._jobs import ZERO, as_json, up_to
from alkstore_core.sql.dead_letters import DEAD
from alkstore_core.sql.tables import (
    DELAYED,
    PROCESSING,
    READY,
    consumers,
    dead_jobs,
    events,
    jobs,
    schedules,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Executable, Insert, Select, Table
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import RecordKind, Scalar
    from alkstore_core.sql.op import Op

_JOB_FIELDS = [column.name for column in jobs.c if column.name != "id"]
_DEAD_FIELDS = [column.name for column in dead_jobs.c]
for _known in ("id", "state", "retained_until"):
    _DEAD_FIELDS.remove(_known)
_EVENT_FIELDS = [column.name for column in events.c if column.name != "offset"]

_rows = Elements("rows")


def _dump(table: Table, key: Sequence[str], selected: Iterable[ColumnElement[Any]]) -> Select[Any]:
    columns = [table.c[name] for name in key]
    after = [bindparam(f"after_{column.name}", type_=column.type) for column in columns]
    beyond = columns[0] > after[0] if len(columns) == 1 else tuple_(*columns) > tuple_(*after)
    return up_to("limit", select(*columns, *selected).where(beyond).order_by(*columns))


def _items(table: Table, fields: Iterable[str]) -> dict[str, ColumnElement[Any]]:
    """Columns of a table out of the parameter `rows`, whose items are `fields` in order."""
    items: dict[str, ColumnElement[Any]] = {}
    for position, name in enumerate(fields):
        type_ = table.c[name].type
        if isinstance(type_, Bytes):
            items[name] = _rows.blob_at(position)
        elif isinstance(type_, Text):
            items[name] = _rows.text_at(position)
        else:
            items[name] = _rows.integer_at(position)
    return items


def _from_rows(items: Mapping[str, ColumnElement[Any]]) -> Select[Any]:
    return select(*items.values()).select_from(_rows.table).order_by(_rows.ordinal)


def _insert(table: Table, items: Mapping[str, ColumnElement[Any]]) -> Insert:
    return insert(table).from_select(list(items), _from_rows(items))


def _replace(table: Table, key: Sequence[str]) -> Insert:
    items = _items(table, [column.name for column in table.c])
    put = upsert(table).from_select(list(items), _from_rows(items))
    return put.on_conflict_do_update(
        index_elements=[table.c[name] for name in key],
        set_={name: put.excluded[name] for name in items if name not in key},
    )


PENDING: ColumnElement[str] = literal_column("'pending'", Text)

DUMP_JOBS = _dump(
    jobs,
    ["id"],
    (
        case((jobs.c.state == PROCESSING, PROCESSING), else_=PENDING)
        if name == "state"
        else jobs.c[name]
        for name in _JOB_FIELDS
    ),
)

_job = _items(jobs, _JOB_FIELDS)
# A claim without a deadline would never lapse.
_claimed = and_(_job["state"] == PROCESSING, _job["claim_expires_at"].is_not(None))

LOAD_JOBS = _insert(
    jobs,
    {
        **_job,
        "state": case((_claimed, PROCESSING), (_job["run_at"] > NOW, DELAYED), else_=READY),
    },
).returning(jobs.c.id)

DUMP_DEAD_JOBS = _dump(dead_jobs, ["id"], (dead_jobs.c[name] for name in _DEAD_FIELDS))

_dead = _items(dead_jobs, ["id", *_DEAD_FIELDS])

LOAD_DEAD_JOBS = _insert(
    dead_jobs,
    {
        **_dead,
        "state": DEAD,
        "retained_until": case(
            (
                _dead["dead_letter_retention_s"] <= FOREVER - _dead["died_at"],
                _dead["died_at"] + _dead["dead_letter_retention_s"],
            )
        ),
    },
)

_FILLER: dict[type[object], ColumnElement[Any]] = {Text: READY, Bytes: EMPTY}

# Dead jobs get their ids from the live ones' sequence, so that none is given twice.
RESERVE_IDS = _insert(
    jobs,
    {
        column.name: _FILLER.get(column.type.__class__, ZERO)
        for column in jobs.c
        if not column.nullable and column.name != "id"
    },
).returning(jobs.c.id)
DROP_RESERVED = delete(jobs).where(jobs.c.id.in_(select(Elements("ids").integer)))

DUMP_EVENTS = _dump(events, ["offset"], (events.c[name] for name in _EVENT_FIELDS))
LOAD_EVENTS = _insert(events, _items(events, _EVENT_FIELDS)).returning(events.c.offset)

DUMP_CONSUMERS = _dump(consumers, ["stream", "consumer"], consumers.c)
LOAD_CONSUMERS = _replace(consumers, ["stream", "consumer"])

DUMP_SCHEDULES = _dump(schedules, ["name"], schedules.c)
LOAD_SCHEDULES = _replace(schedules, ["name"])


class _Kind(NamedTuple):
    start: dict[str, Scalar]
    """The key before every other, by name of its columns."""

    fields: list[str]
    dump: Executable
    load: Executable


_KINDS: dict[RecordKind, _Kind] = {
    "jobs": _Kind({"id": 0}, _JOB_FIELDS, DUMP_JOBS, LOAD_JOBS),
    "dead_jobs": _Kind({"id": 0}, _DEAD_FIELDS, DUMP_DEAD_JOBS, LOAD_DEAD_JOBS),
    "events": _Kind({"offset": 0}, _EVENT_FIELDS, DUMP_EVENTS, LOAD_EVENTS),
    "consumers": _Kind(
        {"stream": "", "consumer": ""},
        [column.name for column in consumers.c],
        DUMP_CONSUMERS,
        LOAD_CONSUMERS,
    ),
    "schedules": _Kind(
        {"name": ""}, [column.name for column in schedules.c], DUMP_SCHEDULES, LOAD_SCHEDULES
    ),
}


def dump(kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int) -> Op[list[Record]]:
    """Stored rows, in storage order, after a position."""
    start, fields, statement, _ = _KINDS[kind]
    position = start.values() if after is None else after
    row = {f"after_{name}": value for name, value in zip(start, position, strict=True)}
    rows = (yield statement, {**row, "limit": limit}).rows
    width = len(start)
    return [Record(tuple(row[:width]), dict(zip(fields, row[width:], strict=True))) for row in rows]


def load(kind: RecordKind, records: Sequence[Record]) -> Op[list[int]]:
    """Store dumped rows; new ids or offsets ascend in input order."""
    if not records:
        return []
    _, fields, _, statement = _KINDS[kind]
    rows = [[_as_text(record.fields[name]) for name in fields] for record in records]
    if kind == "dead_jobs":
        return (yield from _load_dead_jobs(rows))
    result = yield statement, {"rows": as_json(rows)}
    return sorted(number for (number,) in result.rows)


def _load_dead_jobs(rows: list[list[Any]]) -> Op[list[int]]:
    reserved = (yield RESERVE_IDS, {"rows": as_json(range(len(rows)))}).rows
    ids = sorted(id_ for (id_,) in reserved)
    yield DROP_RESERVED, {"ids": as_json(ids)}
    numbered = ([id_, *row] for id_, row in zip(ids, rows, strict=True))
    yield LOAD_DEAD_JOBS, {"rows": as_json(numbered)}
    return ids


def _as_text(value: Scalar) -> Scalar:
    return value.decode() if isinstance(value, bytes) else value
