"""Locks: leases with a fencing token from one sequence for the whole database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Text, and_, bindparam, delete, literal_column, select, update

from alkstore_core.sql._dialect import NOW, later, upsert
from alkstore_core.sql._jobs import ONE
from alkstore_core.sql.rows import lock_from_row
from alkstore_core.sql.tables import locks, sequences

if TYPE_CHECKING:
    from alkstore_core.sql.op import Op
    from alkstore_core.values import LockInfo

_name = bindparam("name", type_=Text)
_token = bindparam("token", type_=BigInteger)
_until = later(bindparam("ttl", type_=BigInteger))

# A lease lasts through the second of its deadline.
_live = locks.c.expires_at >= NOW
_leased = and_(locks.c.name == _name, locks.c.token == _token, _live)

HOLDER = select(locks.c.owner, locks.c.token).where(locks.c.name == _name, _live)

_next = upsert(sequences).values(name=literal_column("'lock'", Text), value=ONE)

NEXT_TOKEN = _next.on_conflict_do_update(
    index_elements=[sequences.c.name], set_={"value": sequences.c.value + ONE}
).returning(sequences.c.value)

_take = upsert(locks).values(
    name=_name, owner=bindparam("owner", type_=Text), token=_token, expires_at=_until
)

TAKE = _take.on_conflict_do_update(
    index_elements=[locks.c.name],
    set_={
        "owner": _take.excluded.owner,
        "token": _take.excluded.token,
        "expires_at": _take.excluded.expires_at,
    },
    where=locks.c.expires_at < NOW,
).returning(locks.c.token)

RENEW = update(locks).where(_leased).values(expires_at=_until)
RELEASE_LOCK = delete(locks).where(_leased)

# Locked, so that the lease cannot be taken from whoever asked before their transaction ends.
HOLDS = select(locks.c.token).where(_leased).with_for_update()

LIST_LOCKS = select(*locks.c).where(_live).order_by(locks.c.name)


def acquire(name: str, owner: str, ttl: int) -> Op[int | None]:
    """Take a free or lapsed lock; the owner of a live one gets its token again, unrefreshed."""
    holder = (yield HOLDER, {"name": name}).rows
    if not holder:
        ((token,),) = (yield NEXT_TOKEN, {}).rows
        row = {"name": name, "owner": owner, "token": token, "ttl": ttl}
        if (yield TAKE, row).rows:
            return int(token)
        # Where writers run side by side, somebody was faster.
        holder = (yield HOLDER, {"name": name}).rows
    return next((token for held_by, token in holder if held_by == owner), None)


def renew(name: str, token: int, ttl: int) -> Op[bool]:
    """Let a live lease end `ttl` seconds from now."""
    return (yield RENEW, {"name": name, "token": token, "ttl": ttl}).count == 1


def release_lock(name: str, token: int) -> Op[bool]:
    """End a live lease."""
    return (yield RELEASE_LOCK, {"name": name, "token": token}).count == 1


def holds(name: str, token: int) -> Op[bool]:
    """Whether this very lease is live."""
    return bool((yield HOLDS, {"name": name, "token": token}).rows)


def list_locks() -> Op[list[LockInfo]]:
    """Every live lease, by name."""
    return [lock_from_row(row) for row in (yield LIST_LOCKS, {}).rows]
