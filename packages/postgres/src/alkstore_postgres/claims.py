"""The claim: one statement, as long as nothing came due since the last one.

It takes from the ready jobs only and passes over rows that another claim is just taking. What
came due meanwhile has to be made ready before, or the order would not hold; so the statement
takes nothing when there is any, and the answer "nothing" makes us look. Each step is a
transaction of its own, holding its locks for one statement, in the order of ids: workers of one
queue wait for each other's steps, never in a circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import case, delete, func, insert, not_, null, or_, select, update

from alkstore_core.sql._dialect import FOREVER, NOW, Elements, later, unindexed
from alkstore_core.sql._jobs import (
    ONE,
    ZERO,
    argument,
    as_json,
    claim_order,
    expired,
    job_columns,
    of_queue,
    unclaimed,
    up_to,
)
from alkstore_core.sql.claims import CHUNK, EXHAUSTED
from alkstore_core.sql.dead_letters import as_dead
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, dead_jobs, jobs
from alkstore_postgres.forms import among, locked, materialized
from alkstore_postgres.fronts import (
    MADE_READY,
    MARK,
    MARK_IF_SLOW,
    SLOW_SECONDS,
    behind,
    newcomer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import CTE, Insert, ScalarSelect, Update
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job
    from alkstore_postgres.fronts import Fronts


def _first(*order: ColumnElement[Any], where: Sequence[ColumnElement[bool]]) -> ScalarSelect[Any]:
    """The first row of an index. A plain EXISTS may become a scan past all that does not match."""
    found = select(jobs.c.id).where(of_queue, *where).order_by(*order).correlate(None)
    return found.limit(ONE).offset(ZERO).scalar_subquery()


# Each look ends at the present: behind it stand all claims that are live, and those that were
# acked and whose rows an old snapshot keeps from being cleared away.
_due = _first(jobs.c.run_at, where=[jobs.c.state == DELAYED, jobs.c.run_at <= NOW])
_lapsed = _first(
    jobs.c.claim_expires_at, where=[jobs.c.state == PROCESSING, jobs.c.claim_expires_at < NOW]
)
_ready_expired = _first(jobs.c.expires_at, where=[jobs.c.state == READY, expired])
_delayed_expired = _first(jobs.c.expires_at, where=[jobs.c.state == DELAYED, expired])

# Not as an OR: that the planner may read as two ranges of an index, all of both, and sort them.
_unexpired = func.coalesce(jobs.c.expires_at, FOREVER) > NOW

# Ready all the same: another worker was faster to make what came due ready.
_ready = _first(*claim_order, where=[jobs.c.state == READY, _unexpired])

PROBE = select(
    _due.is_not(None),
    _lapsed.is_not(None),
    or_(_ready_expired.is_not(None), _delayed_expired.is_not(None)),
    _ready.is_not(None),
)

_claimed: dict[str, ColumnElement[Any]] = {
    "state": PROCESSING,
    "attempts": jobs.c.attempts + ONE,
    "worker_id": argument("worker_id"),
    "claimed_at": NOW,
    "claim_expires_at": later(jobs.c.visibility_timeout_s),
}


def _take(*conditions: ColumnElement[bool], mark: ColumnElement[Any]) -> Update:
    best = up_to(
        "limit",
        select(jobs.c.id)
        .where(jobs.c.state == READY, of_queue, _unexpired, *conditions)
        .order_by(*claim_order),
    )
    # Materialised: joined into the change, the choice could be made again and take more.
    taken = materialized(best.with_for_update(of=jobs, skip_locked=True), "best")
    return (
        update(jobs).where(among(jobs.c.id, taken)).values(_claimed).returning(*job_columns, mark)
    )


_nothing_due = [due.is_(None) for due in (_due, _lapsed, _ready_expired, _delayed_expired)]
# By its own index, whatever the planner believes of the others: they lead past all that is done.
_newcomer = (
    select(jobs.c.id)
    .where(
        unindexed(jobs.c.queue) == argument("queue"),
        jobs.c.state == READY,
        _unexpired,
        *newcomer,
    )
    .order_by(MADE_READY)
    .limit(ONE)
    .offset(ZERO)
    .scalar_subquery()
)

CLAIM = _take(*_nothing_due, mark=MARK_IF_SLOW)
CLAIM_ANYWAY = _take(mark=null())
CLAIM_BEHIND = _take(*_nothing_due, _newcomer.is_(None), behind, mark=MARK)


def _locked(
    state: ColumnElement[str],
    *conditions: ColumnElement[bool],
    by: Sequence[ColumnElement[Any]],
) -> CTE:
    """Some rows of a state, best `by` first, locked in the order of their ids.

    The conditions are asked again once a row is locked: somebody may have changed it meanwhile.
    """
    first = select(jobs.c.id).where(of_queue, jobs.c.state == state, *conditions).order_by(*by)
    chosen = materialized(up_to("chunk", first), "chosen")
    return locked(jobs, among(jobs.c.id, chosen), unindexed(jobs.c.state) == state, *conditions)


def _change(chosen: CTE, **changes: ColumnElement[Any]) -> Update:
    return update(jobs).where(among(jobs.c.id, chosen)).values(**changes)


def _bury(chosen: CTE, **changes: Callable[[CTE], ColumnElement[Any]]) -> Insert:
    gone = delete(jobs).where(among(jobs.c.id, chosen)).returning(*jobs.c).cte("gone")
    dead = {**as_dead(gone), **{name: change(gone) for name, change in changes.items()}}
    return insert(dead_jobs).from_select(list(dead), select(*dead.values()))


# One for each state: so each is a range of the expiry index.
SET_READY_ASIDE = _change(_locked(READY, expired, by=[jobs.c.expires_at]), state=EXPIRED)
SET_DELAYED_ASIDE = _change(_locked(DELAYED, expired, by=[jobs.c.expires_at]), state=EXPIRED)

_by_deadline = (jobs.c.claim_expires_at,)
_late = jobs.c.claim_expires_at < NOW
_spent = jobs.c.attempts >= jobs.c.max_attempts

BURY_LAPSED = _bury(_locked(PROCESSING, _late, _spent, _unexpired, by=_by_deadline))

_back: dict[str, ColumnElement[Any]] = {
    "state": case((expired, EXPIRED), else_=READY),
    **unclaimed,
}
TURN_BACK = _change(
    _locked(PROCESSING, _late, or_(not_(_spent), expired), by=_by_deadline), **_back
)
TURN_BEST_BACK = _change(
    _locked(PROCESSING, _late, not_(_spent), _unexpired, by=claim_order), **_back
)

_reached = jobs.c.run_at <= NOW
PROMOTE = _change(_locked(DELAYED, _reached, _unexpired, by=[jobs.c.run_at]), state=READY)
PROMOTE_BEST = _change(_locked(DELAYED, _reached, _unexpired, by=claim_order), state=READY)

_overdrawn = locked(
    jobs,
    among(jobs.c.id, select(Elements("ids").integer)),
    unindexed(jobs.c.state) == PROCESSING,
)
# As they stood before the claim that found out.
BURY_OVERDRAWN = _bury(
    _overdrawn,
    attempts=lambda gone: gone.c.attempts - ONE,
    **{name: lambda _: null() for name in unclaimed},
)


def claim(
    fronts: Fronts, found: list[Job], queue: str, worker_id: str, limit: int
) -> Op[list[Job]]:
    """Hand out up to `limit` jobs in claim order, each to exactly one caller.

    They are put into `found` as soon as they are claimed: what one step took is taken, also when
    a later one fails. When the op runs again it goes on from there.
    """
    row = {"queue": queue, "worker_id": worker_id}
    if len(found) < limit:
        rest = {**row, "limit": limit - len(found)}
        found += yield from _claim_behind(fronts, rest)
    if len(found) < limit:
        rest = {**row, "limit": limit - len(found)}
        found += yield from _claim_from_the_beginning(fronts, rest)
    while spent := [job.id for job in found if is_spent(job)]:
        # Pending without an attempt left: only a job loaded from elsewhere stands like that.
        yield BURY_OVERDRAWN, {"ids": as_json(sorted(spent)), "last_error": EXHAUSTED}
        found[:] = [job for job in found if not is_spent(job)]
        found += _jobs((yield CLAIM_ANYWAY, {**row, "limit": limit - len(found)}).rows)
    found.sort(key=claim_order_of)
    return found


def _claim_behind(fronts: Fronts, row: Mapping[str, Any]) -> Op[list[Job]]:
    """Go on where the last claim arrived, if there is such a place."""
    front = fronts.get(row["queue"])
    if front is None:
        return []
    rows = (yield CLAIM_BEHIND, {**row, **front.parameters}).rows
    marked = _marked(rows)
    if len(marked) == row["limit"]:
        fronts.put(row["queue"], marked, moved=front)
    else:
        fronts.drop(row["queue"])
    return [job for job, _ in marked]


def _claim_from_the_beginning(fronts: Fronts, row: Mapping[str, Any]) -> Op[list[Job]]:
    queue: str = row["queue"]
    rows = (yield CLAIM, {**row, "slow": SLOW_SECONDS}).rows
    if rows:
        if rows[0][-1] is None:
            return _jobs(rows)
        marked = _marked(rows)
        fronts.put(queue, marked)
        return [job for job, _ in marked]
    flags = (yield PROBE, {"queue": queue}).rows[0]
    if not any(flags):
        return []
    yield from _promote(queue, max(row["limit"], CHUNK), *flags[:3])
    return _jobs((yield CLAIM_ANYWAY, row).rows)


def _jobs(rows: Sequence[Sequence[Any]]) -> list[Job]:
    """Claimed jobs, in whatever order; their last column is the mark."""
    return [job_from_row(row[:-1]) for row in rows]


def _marked(rows: Sequence[Sequence[Any]]) -> list[tuple[Job, int | None]]:
    """Claimed jobs in claim order, each with its mark."""
    marked = [(job_from_row(row[:-1]), row[-1]) for row in rows]
    return sorted(marked, key=lambda each: claim_order_of(each[0]))


def _promote(queue: str, chunk: int, due: bool, lapses: bool, expiries: bool) -> Op[None]:
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


def is_spent(job: Job) -> bool:
    """Whether a claim has taken a job that had no attempt left."""
    return job.attempts > job.max_attempts


def claim_order_of(job: Job) -> tuple[int, int, int]:
    """What claims sort by."""
    return -job.priority, job.run_at, job.id
