"""Locks: the token is drawn and the lease taken in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Text, bindparam, select

from alkstore_core.sql import locks as core
from alkstore_core.sql._dialect import NOW, later, upsert
from alkstore_core.sql.tables import locks
from alkstore_postgres.forms import Wake, adapted

if TYPE_CHECKING:
    from alkstore_core.sql.op import Op

# Whoever draws a token holds its row until the lease is committed, so tokens are in the order of
# the leases, also where the leases are of one name and each is over in no time.
_token = core.NEXT_TOKEN.cte("token")

_take = upsert(locks).from_select(
    ["name", "owner", "token", "expires_at"],
    select(
        bindparam("name", type_=Text),
        bindparam("owner", type_=Text),
        _token.c.value,
        later(bindparam("ttl", type_=BigInteger)),
    ),
)

TAKE = _take.on_conflict_do_update(
    index_elements=[locks.c.name],
    set_={name: _take.excluded[name] for name in ("owner", "token", "expires_at")},
    where=locks.c.expires_at < NOW,
).returning(locks.c.token)

_adapted = adapted({})

release_lock = _adapted(core.release_lock)


def acquire(wake: Wake, name: str, owner: str, ttl: int) -> Op[int | None]:  # noqa: ARG001
    """Take a free or lapsed lock; the owner of a live one gets its token again, unrefreshed."""
    holder = (yield core.HOLDER, {"name": name}).rows
    if not holder:
        rows = (yield TAKE, {"name": name, "owner": owner, "ttl": ttl}).rows
        if rows:
            return int(rows[0][0])
        # Somebody was faster.
        holder = (yield core.HOLDER, {"name": name}).rows
    return next((int(token) for held_by, token in holder if held_by == owner), None)
