"""What the ops on jobs have in common: columns, conditions, changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Text,
    and_,
    bindparam,
    case,
    literal_column,
    null,
    or_,
    select,
    tuple_,
)

from alkstore_core.sql._dialect import NOW, Elements, unindexed
from alkstore_core.sql.tables import DELAYED, PROCESSING, READY, jobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Select
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import Claim

ZERO: ColumnElement[int] = literal_column("0", BigInteger)
ONE: ColumnElement[int] = literal_column("1", BigInteger)

job_columns: tuple[ColumnElement[Any], ...] = (
    *jobs.c,
    null().label("died_at"),
)
"""What `job_from_row` wants, of a live job."""

claim_order = (jobs.c.priority.desc(), jobs.c.run_at, jobs.c.id)

unclaimed: dict[str, ColumnElement[Any]] = {
    "worker_id": null(),
    "claimed_at": null(),
    "claim_expires_at": null(),
}
"""The change that ends a claim."""

pending_state: ColumnElement[str] = case((jobs.c.run_at > NOW, DELAYED), else_=READY)
"""The state of a pending job by its `run_at`."""


def argument(name: str) -> ColumnElement[Any]:
    """A parameter whose type follows from its name's column, if there is one."""
    return bindparam(name, type_=jobs.c[name].type if name in jobs.c else BigInteger())


of_queue = jobs.c.queue == bindparam("queue", type_=Text)

unexpired = or_(jobs.c.expires_at.is_(None), jobs.c.expires_at > NOW)
expired = jobs.c.expires_at <= NOW

lapsed = and_(jobs.c.state == PROCESSING, of_queue, jobs.c.claim_expires_at < NOW)

unlapsed = jobs.c.claim_expires_at >= NOW
"""A claim lasts through the second of its deadline."""

live_claim = and_(
    jobs.c.id == bindparam("id", type_=BigInteger),
    jobs.c.attempts == bindparam("attempt", type_=BigInteger),
    of_queue,
    unindexed(jobs.c.state) == PROCESSING,
    unlapsed,
)
"""The fence of one handle."""


def up_to(limit: str, chosen: Select[int]) -> Select[int]:
    """Bound a choice of rows. The offset is spelled out or SQLAlchemy would bind a zero."""
    return chosen.limit(bindparam(limit, type_=BigInteger)).offset(ZERO)


def job_ids(*conditions: ColumnElement[bool]) -> Select[int]:
    """Ids of jobs, to be chosen inside another statement on the same table."""
    return select(jobs.c.id).where(*conditions).correlate(None)


def under_claims() -> ColumnElement[bool]:
    """The fence of many handles: their claims are pairs in the parameter `claims`."""
    claims = Elements("claims")
    pair = (claims.integer_at(0), claims.integer_at(1))
    return and_(
        jobs.c.id.in_(select(pair[0])),
        tuple_(jobs.c.id, jobs.c.attempts).in_(select(*pair)),
        of_queue,
        unindexed(jobs.c.state) == PROCESSING,
    )


def as_json(values: Iterable[Any]) -> str:
    """A JSON array parameter for `Elements`; claims become pairs."""
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def one_claim(queue: str, claim: Claim) -> dict[str, Any]:
    """The parameters of `live_claim`."""
    return {"queue": queue, "id": claim.id, "attempt": claim.attempt}


def many_claims(queue: str, claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """The parameters of claims, once for each attempt among them."""
    ids: dict[int, list[int]] = {}
    for id_, attempt in claims:
        ids.setdefault(attempt, []).append(id_)
    return [{"queue": queue, "ids": as_json(ids[attempt]), "attempt": attempt} for attempt in ids]
