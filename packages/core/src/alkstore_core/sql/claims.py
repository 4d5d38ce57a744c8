"""The claim: its cost depends on what it hands out and what came due, not on what waits.

It takes from the ready jobs only, best first, so what became claimable since the last claim
has to be made ready before. One cheap question tells whether there is any; mostly there is not.

What came due is made ready at most `CHUNK` jobs at a time, so that a million jobs due in one
second do not lock the database for seconds. Order still holds: when a chunk was full, and so
may have left some behind, another one is taken, this time the best in claim order. What is
left then stands behind `CHUNK` jobs that are ready, and a claim takes no more than `CHUNK`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, exists, or_, select, update

from alkstore_core.sql._dialect import NOW, Elements, later
from alkstore_core.sql._jobs import (
    ONE,
    argument,
    as_json,
    claim_order,
    expired,
    job_ids,
    lapsed,
    of_queue,
    unclaimed,
    unexpired,
    up_to,
)
from alkstore_core.sql.dead_letters import bury_ids
from alkstore_core.sql.rows import claimed_from_row
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, jobs

if TYPE_CHECKING:
    from sqlalchemy import Select, Update
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job

CHUNK = 20_000

EXHAUSTED = "max attempts exceeded"

_due = (jobs.c.state == DELAYED, of_queue, jobs.c.run_at <= NOW, unexpired)
_past_expiry = (of_queue, jobs.c.state.in_([DELAYED, READY]), expired)
_delayed_past_expiry = (of_queue, jobs.c.state == DELAYED, expired)
_ready_past_expiry = (of_queue, jobs.c.state == READY, expired)

PROBE = select(
    exists(job_ids(*_due)).label("due"),
    exists(job_ids(lapsed)).label("lapsed"),
    # Twice an equality: for a list of states SQLite builds a temporary table first.
    or_(
        exists(job_ids(*_delayed_past_expiry)),
        exists(job_ids(*_ready_past_expiry)),
    ).label("expired"),
)


def _change(chosen: Select[Any], **changes: ColumnElement[Any]) -> Update:
    return update(jobs).where(jobs.c.id.in_(chosen)).values(**changes)


SET_ASIDE = _change(up_to("chunk", job_ids(*_past_expiry)), state=EXPIRED)
LAPSED = up_to(
    "chunk",
    select(jobs.c.id, and_(jobs.c.attempts >= jobs.c.max_attempts, unexpired).label("spent"))
    .where(lapsed)
    .order_by(jobs.c.claim_expires_at),
)
TURN_BACK = (
    update(jobs)
    .where(jobs.c.id.in_(select(Elements("ids").integer)))
    .values(state=case((expired, EXPIRED), else_=READY), **unclaimed)
)
TURN_BEST_BACK = _change(
    up_to(
        "chunk",
        job_ids(lapsed, unexpired, jobs.c.attempts < jobs.c.max_attempts).order_by(*claim_order),
    ),
    state=READY,
    **unclaimed,
)

PROMOTE = _change(up_to("chunk", job_ids(*_due).order_by(jobs.c.run_at)), state=READY)
PROMOTE_BEST = _change(up_to("chunk", job_ids(*_due).order_by(*claim_order)), state=READY)

_claimed: dict[str, ColumnElement[Any]] = {
    "state": PROCESSING,
    "attempts": jobs.c.attempts + ONE,
    "worker_id": argument("worker_id"),
    "claimed_at": NOW,
    "claim_expires_at": later(jobs.c.visibility_timeout_s),
}

_known = {"queue", "state", "worker_id"}

# The jobs as the claim leaves them. Reading them first and changing them then costs a third of
# `UPDATE … RETURNING` on SQLite, which also would give them back in another order. What the claim
# itself says of each need not come back: a fifth of the time.
BEST = up_to(
    "limit",
    select(*(_claimed.get(name, column) for name, column in jobs.c.items() if name not in _known))
    .where(jobs.c.state == READY, of_queue, unexpired)
    .order_by(*claim_order),
)
CLAIM = update(jobs).where(jobs.c.id == argument("id")).values(_claimed)
CLAIM_MANY = update(jobs).where(jobs.c.id.in_(select(Elements("ids").integer))).values(_claimed)


def claim(queue: str, worker_id: str, limit: int) -> Op[list[Job]]:
    """Hand out up to `limit` jobs in claim order, each to exactly one caller."""
    ((due, lapsed_, expired_),) = (yield PROBE, {"queue": queue}).rows
    chunk = {"queue": queue, "chunk": max(limit, CHUNK)}
    if expired_:
        yield SET_ASIDE, chunk
    if lapsed_:
        yield from _turn_back(chunk)
    if due and (yield PROMOTE, chunk).count == chunk["chunk"]:
        yield PROMOTE_BEST, chunk
    while True:
        rows = (yield BEST, {"queue": queue, "limit": limit}).rows
        found = [claimed_from_row(row, queue, worker_id) for row in rows]
        spent = [job.id for job in found if job.attempts > job.max_attempts]
        if not spent:
            break
        # Pending without an attempt left: only a job loaded from elsewhere stands like that.
        yield from bury_ids(spent, EXHAUSTED)
    if len(found) == 1:
        yield CLAIM, {"id": found[0].id, "worker_id": worker_id}
    elif found:
        ids = as_json(job.id for job in found)
        yield CLAIM_MANY, {"ids": ids, "worker_id": worker_id}
    return found


def _turn_back(chunk: dict[str, Any]) -> Op[None]:
    """Make lapsed claims' jobs ready again, or dead, or set them aside for the sweep."""
    rows = (yield LAPSED, chunk).rows
    yield from bury_ids([id_ for id_, spent in rows if spent], EXHAUSTED)
    yield TURN_BACK, {"ids": as_json(id_ for id_, spent in rows if not spent)}
    if len(rows) == chunk["chunk"]:
        yield TURN_BEST_BACK, chunk
