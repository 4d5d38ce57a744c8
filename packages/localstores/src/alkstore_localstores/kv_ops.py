"""The statements of `localkv.v2`, as ops. A parameter `now` is unix milliseconds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    Text,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from alkstore_localstores.formats import kv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alkstore_core.sql.op import Op


class Row(NamedTuple):
    """A row as it is stored; what the types are is for the reader to check."""

    key: Any
    value: Any
    expires_at: Any
    version: Any


NOW = bindparam("now", type_=BigInteger)

_name = kv.c.key == bindparam("name", type_=Text)
EXPIRED: ColumnElement[bool] = and_(kv.c.expires_at.is_not(None), kv.c.expires_at <= NOW)
LIVE: ColumnElement[bool] = or_(kv.c.expires_at.is_(None), kv.c.expires_at > NOW)
_unchanged = kv.c.version == bindparam("expected", type_=Text)
_given: Mapping[str, ColumnElement[Any]] = {
    "value": bindparam("content", type_=LargeBinary),
    "expires_at": bindparam("expiry", type_=BigInteger),
    "version": bindparam("fresh", type_=Text),
}

FIND = select(kv.c.key, kv.c.value, kv.c.expires_at, kv.c.version).where(_name)
FIND_EXPIRY = select(kv.c.expires_at).where(_name)
DROP_EXPIRED = delete(kv).where(_name, EXPIRED)

_insert = sqlite.insert(kv).values(key=bindparam("name", type_=Text), **_given)
_set = {column: _insert.excluded[column] for column in _given}
PUT = _insert.on_conflict_do_update(index_elements=[kv.c.key], set_=_set)
PUT_IF_ABSENT = _insert.on_conflict_do_update(index_elements=[kv.c.key], set_=_set, where=EXPIRED)
PUT_IF_VERSION = update(kv).where(_name, _unchanged, LIVE).values(**_given)

DELETE = delete(kv).where(_name)
DELETE_IF_VERSION = delete(kv).where(_name, _unchanged, LIVE)
DELETE_ALL = delete(kv)

# Bounded above as well: without that, a page at the end of a prefix reads on through the table.
# The offset keeps the dialect from making up a parameter for one.
_page = (
    select(kv.c.key, kv.c.value, kv.c.expires_at, kv.c.version)
    .where(kv.c.key < bindparam("until", type_=Text), LIVE)
    .order_by(kv.c.key)
    .limit(bindparam("count", type_=BigInteger))
    .offset(literal_column("0"))
)
PAGE = _page.where(kv.c.key >= bindparam("since", type_=Text))
PAGE_AFTER = _page.where(kv.c.key > bindparam("since", type_=Text))

COUNT = select(func.count()).select_from(kv).where(LIVE)
KEYS = select(kv.c.key).where(LIVE).order_by(kv.c.key)


def find(key: str) -> Op[Row | None]:
    """The row of a key, expired or not."""
    rows = (yield FIND, {"name": key}).rows
    return Row(*rows[0]) if rows else None


def find_expiry(key: str) -> Op[tuple[Any] | None]:
    """The expiry of a key's row, if there is a row; its value is not read."""
    rows = (yield FIND_EXPIRY, {"name": key}).rows
    return (rows[0][0],) if rows else None


def drop_expired(key: str) -> Op[None]:
    """Delete the row of a key if it is still expired."""
    yield DROP_EXPIRED, {"name": key}


def put(key: str, value: bytes, expires_at: int | None) -> Op[bool]:
    """Write whatever is there; true."""
    yield PUT, _fresh(key, value, expires_at)
    return True


def put_if_absent(key: str, value: bytes, expires_at: int | None) -> Op[bool]:
    """Write unless a live row is there; whether it was written."""
    return (yield PUT_IF_ABSENT, _fresh(key, value, expires_at)).count == 1


def put_if_version(key: str, value: bytes, expires_at: int | None, version: str) -> Op[bool]:
    """Write if the row is live and of this version; whether it was written."""
    given = _fresh(key, value, expires_at) | {"expected": version}
    return (yield PUT_IF_VERSION, given).count == 1


def remove(key: str) -> Op[bool]:
    """Delete whatever is there; true."""
    yield DELETE, {"name": key}
    return True


def remove_if_version(key: str, version: str) -> Op[bool]:
    """Delete if the row is live and of this version; whether it was deleted."""
    return (yield DELETE_IF_VERSION, {"name": key, "expected": version}).count == 1


def clear() -> Op[None]:
    """Delete every row."""
    yield DELETE_ALL, {}


def page(prefix: str, after: str | None, count: int) -> Op[list[Row]]:
    """Up to `count` live rows whose keys begin with `prefix`, by key."""
    # Keys are ASCII, so no key of the prefix is at or above this.
    until = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    if after is None:
        statement, since = PAGE, prefix
    else:
        statement, since = PAGE_AFTER, max(after, prefix)
    rows = (yield statement, {"since": since, "until": until, "count": count}).rows
    return [Row(*row) for row in rows]


def count() -> Op[int]:
    """How many rows are live."""
    number: int = (yield COUNT, {}).rows[0][0]
    return number


def keys() -> Op[list[Any]]:
    """The keys of all live rows, ascending."""
    return [key for (key,) in (yield KEYS, {}).rows]


def _fresh(key: str, value: bytes, expires_at: int | None) -> dict[str, Any]:
    return {"name": key, "content": value, "expiry": expires_at, "fresh": uuid.uuid4().hex}
