"""The claim: one statement, as long as nothing came due since the last one.

It takes from the ready jobs only and passes over rows that another claim is just taking. What
came due meanwhile has to be made ready before, or the order would not hold; so the statement
takes nothing when there is any, and the answer "nothing" makes us look. Each step is a
transaction of its own, holding its locks for one statement, in the order of ids: workers of one
queue wait for each other's steps, never in a circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, delete, insert, literal_column, not_, or_, select, update

from alkstore_core.sql._dialect import NOW, Elements, later
from alkstore_core.sql._jobs import (
    ONE,
    ZERO,
    argument,
    as_json,
    claim_order,
    expired,
    job_columns,
    lapsed,
    of_queue,
    unclaimed,
    unexpired,
    up_to,
)
from alkstore_core.sql.claims import CHUNK, EXHAUSTED
from alkstore_core.sql.dead_letters import as_dead
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, dead_jobs, jobs
from alkstore_postgres.forms import Wake, among, locked, materialized

if TYPE_CHECKING:
    from sqlalchemy import Insert, ScalarSelect, Select, Update
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job


def _least(column: ColumnElement[int], *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    """The first of an index. A plain EXISTS may become a scan past all that is not yet due."""
    found = select(column).where(of_queue, column.is_not(None), *conditions).correlate(None)
    return found.order_by(column).limit(ONE).offset(ZERO).scalar_subquery()


_least_due = _least(jobs.c.run_at, jobs.c.state == DELAYED)
_least_lapse = _least(jobs.c.claim_expires_at, jobs.c.state == PROCESSING)
_ready_expiry = _least(jobs.c.expires_at, jobs.c.state == READY)
_delayed_expiry = _least(jobs.c.expires_at, jobs.c.state == DELAYED)

_due = _least_due <= NOW
_lapsed = _least_lapse < NOW
_expired = or_(_ready_expiry <= NOW, _delayed_expiry <= NOW)

_false: ColumnElement[bool] = literal_column("false")

PROBE = select(
    *(case((condition, ONE), else_=ZERO) for condition in (_due, _lapsed, _expired)),
)

_claimed: dict[str, ColumnElement[Any]] = {
    "state": PROCESSING,
    "attempts": jobs.c.attempts + ONE,
    "worker_id": argument("worker_id"),
    "claimed_at": NOW,
    "claim_expires_at": later(jobs.c.visibility_timeout_s),
}


def _take(*conditions: ColumnElement[bool]) -> Update:
    best = up_to(
        "limit",
        select(jobs.c.id)
        .where(jobs.c.state == READY, of_queue, unexpired, *conditions)
        .order_by(*claim_order),
    )
    # Materialised: joined into the change, the choice could be made again and take more.
    taken = materialized(best.with_for_update(of=jobs, skip_locked=True), "best")
    return update(jobs).where(among(jobs.c.id, taken)).values(_claimed).returning(*job_columns)


def _nothing(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return not_(case((condition, literal_column("true")), else_=_false))


CLAIM = _take(_nothing(_due), _nothing(_lapsed), _nothing(_expired))
CLAIM_ANYWAY = _take()


def _ordered(chosen: Select[Any], *conditions: ColumnElement[bool]) -> Any:
    """Rows of a choice, locked in the order of their ids if they are still what was chosen."""
    ids = materialized(up_to("chunk", chosen), "chosen")
    return locked(jobs, among(jobs.c.id, ids), *conditions)


def _change(chosen: Any, **changes: ColumnElement[Any]) -> Update:
    return update(jobs).where(among(jobs.c.id, chosen)).values(**changes)


def _pick(*conditions: ColumnElement[bool]) -> Select[Any]:
    return select(jobs.c.id).where(*conditions)


# Twice an equality, not a list of states: so each is a range of the expiry index.
_ready_past_expiry = (of_queue, jobs.c.state == READY, expired)
_delayed_past_expiry = (of_queue, jobs.c.state == DELAYED, expired)
SET_READY_ASIDE = _change(
    _ordered(_pick(*_ready_past_expiry).order_by(jobs.c.expires_at), *_ready_past_expiry),
    state=EXPIRED,
)
SET_DELAYED_ASIDE = _change(
    _ordered(_pick(*_delayed_past_expiry).order_by(jobs.c.expires_at), *_delayed_past_expiry),
    state=EXPIRED,
)

_spent = and_(jobs.c.attempts >= jobs.c.max_attempts, unexpired)
_unspent = or_(jobs.c.attempts < jobs.c.max_attempts, expired)

_exhausted = (lapsed, _spent)
_buried = _ordered(_pick(*_exhausted).order_by(jobs.c.claim_expires_at), *_exhausted)


def _bury(chosen: Any) -> Insert:
    gone = delete(jobs).where(among(jobs.c.id, chosen)).returning(*jobs.c).cte("gone")
    dead = as_dead(gone)
    return insert(dead_jobs).from_select(list(dead), select(*dead.values()))


BURY_LAPSED = _bury(_buried)

_returnable = (lapsed, _unspent)
_by_deadline = _pick(*_returnable).order_by(jobs.c.claim_expires_at)
_back: dict[str, ColumnElement[Any]] = {
    "state": case((expired, EXPIRED), else_=READY),
    **unclaimed,
}
TURN_BACK = _change(_ordered(_by_deadline, *_returnable), **_back)
_reclaimable = (lapsed, unexpired, jobs.c.attempts < jobs.c.max_attempts)
TURN_BEST_BACK = _change(
    _ordered(_pick(*_reclaimable).order_by(*claim_order), *_reclaimable), **_back
)

_promotable = (jobs.c.state == DELAYED, of_queue, jobs.c.run_at <= NOW, unexpired)
PROMOTE = _change(_ordered(_pick(*_promotable).order_by(jobs.c.run_at), *_promotable), state=READY)
PROMOTE_BEST = _change(
    _ordered(_pick(*_promotable).order_by(*claim_order), *_promotable), state=READY
)

_spent_ids = locked(
    jobs, jobs.c.id.in_(select(Elements("ids").integer)), jobs.c.state == PROCESSING
)


def _bury_spent() -> Insert:
    gone = delete(jobs).where(among(jobs.c.id, _spent_ids)).returning(*jobs.c).cte("gone")
    # As they stood before the claim that found out.
    dead = {**as_dead(gone), "attempts": gone.c.attempts - ONE, **unclaimed}
    return insert(dead_jobs).from_select(list(dead), select(*dead.values()))


BURY_SPENT = _bury_spent()


def claim(wake: Wake, queue: str, worker_id: str, limit: int) -> Op[list[Job]]:  # noqa: ARG001
    """Hand out up to `limit` jobs in claim order, each to exactly one caller."""
    row = {"queue": queue, "worker_id": worker_id, "limit": limit}
    rows = (yield CLAIM, row).rows
    if not rows:
        flags = (yield PROBE, {"queue": queue}).rows[0]
        if any(flags):
            yield from _promote(queue, max(limit, CHUNK), *flags)
            rows = (yield CLAIM_ANYWAY, row).rows
    found = [job_from_row(row) for row in rows]
    while spent := [job.id for job in found if job.attempts > job.max_attempts]:
        # Pending without an attempt left: only a job loaded from elsewhere stands like that.
        yield BURY_SPENT, {"ids": as_json(sorted(spent)), "last_error": EXHAUSTED}
        found = [job for job in found if job.attempts <= job.max_attempts]
        more = (yield CLAIM_ANYWAY, {**row, "limit": limit - len(found)}).rows
        found += [job_from_row(row) for row in more]
    found.sort(key=_claim_order)
    return found


def _promote(queue: str, chunk: int, due: int, lapses: int, expiries: int) -> Op[None]:
    """Make ready what came due, bury what has no attempt left, set aside what expired."""
    row = {"queue": queue, "chunk": chunk}
    if expiries:
        yield SET_READY_ASIDE, row
        yield SET_DELAYED_ASIDE, row
    if lapses:
        yield BURY_LAPSED, {**row, "last_error": EXHAUSTED}
        if (yield TURN_BACK, row).count == chunk:
            yield TURN_BEST_BACK, row
    if due and (yield PROMOTE, row).count == chunk:
        yield PROMOTE_BEST, row


def _claim_order(job: Job) -> tuple[int, int, int]:
    return -job.priority, job.run_at, job.id
