"""Statements that count a store's rows by state. A parameter `now` is unix milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast

from alkstore_localstores.formats import KV, QUEUE, kv, messages

if TYPE_CHECKING:
    from sqlalchemy import Executable

_NOW = bindparam("now", type_=BigInteger)


def _those(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(sql_cast(condition, Integer)), literal_column("0"))


_live = or_(kv.c.expires_at.is_(None), kv.c.expires_at > _NOW)
_expired = and_(kv.c.expires_at.is_not(None), kv.c.expires_at <= _NOW)
_due = messages.c.visible_at <= _NOW
_later = messages.c.visible_at > _NOW
_delivered = messages.c.receipt_handle.is_not(None)

COUNTS: dict[str, Executable] = {
    KV.marker: select(
        func.count().label("total"),
        _those(_live).label("live"),
        _those(_expired).label("expired"),
    ).select_from(kv),
    QUEUE.marker: select(
        func.count().label("total"),
        _those(_due).label("visible"),
        _those(and_(_later, _delivered)).label("inFlight"),
        _those(and_(_later, messages.c.receipt_handle.is_(None))).label("delayed"),
    ).select_from(messages),
}
