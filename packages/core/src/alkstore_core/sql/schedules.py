"""Schedules: what is to be enqueued when; firing them is core's business."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, case, delete, select, update

from alkstore_core.errors import CodecError
from alkstore_core.sql._dialect import later, upsert
from alkstore_core.sql.rows import schedule_from_row
from alkstore_core.sql.tables import schedules

if TYPE_CHECKING:
    from alkstore_core.spi import ScheduleEntry
    from alkstore_core.sql.op import Op
    from alkstore_core.values import Schedule

_log = logging.getLogger(__name__)

_values: dict[str, Any] = {
    column.name: bindparam(column.name, type_=column.type) for column in schedules.c
}
_values["next_fire_at"] = later(bindparam("every", type_=BigInteger))

_put = upsert(schedules).values(_values)
_kept: dict[str, Any] = {name: _put.excluded[name] for name in _values if name != "name"}
_kept["next_fire_at"] = case(
    (schedules.c.spec == _put.excluded.spec, schedules.c.next_fire_at),
    else_=_put.excluded.next_fire_at,
)

PUT_SCHEDULE = _put.on_conflict_do_update(index_elements=[schedules.c.name], set_=_kept).returning(
    *schedules.c
)

_named = schedules.c.name == bindparam("name", type_=schedules.c.name.type)

DELETE_SCHEDULE = delete(schedules).where(_named)

LIST_SCHEDULES = select(*schedules.c).order_by(schedules.c.name)

ADVANCE = (
    update(schedules)
    .where(_named, schedules.c.next_fire_at == bindparam("expected", type_=BigInteger))
    .values(next_fire_at=bindparam("following", type_=BigInteger))
)


def put_schedule(entry: ScheduleEntry) -> Op[Schedule]:
    """Insert or update by name; the same spec keeps its rhythm, another starts from now."""
    (row,) = (yield PUT_SCHEDULE, entry._asdict()).rows
    return schedule_from_row(row)


def delete_schedule(name: str) -> Op[bool]:
    """Delete a schedule."""
    return (yield DELETE_SCHEDULE, {"name": name}).count == 1


def list_schedules() -> Op[list[Schedule]]:
    """Every schedule, by name. One that cannot be read is told of and stops no other."""
    found: list[Schedule] = []
    for row in (yield LIST_SCHEDULES, {}).rows:
        try:
            found.append(schedule_from_row(row))
        except CodecError as error:
            _log.warning("schedule %r cannot be read: %s", row[0], error)
    return found


def advance(name: str, expected_fire_at: int, next_fire_at: int) -> Op[bool]:
    """Compare-and-set `next_fire_at`."""
    row = {"name": name, "expected": expected_fire_at, "following": next_fire_at}
    return (yield ADVANCE, row).count == 1
