"""Jobs that die: one statement that deletes and inserts, so no crash finds them twice or never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, union_all

from alkstore_core.sql import dead_letters
from alkstore_core.sql._jobs import expired, live_claim, of_queue, one_claim, up_to
from alkstore_core.sql.dead_letters import as_dead, as_fresh, one_dead
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, dead_jobs, jobs
from alkstore_postgres.forms import Wake, adapted, among, locked, materialized, waking

if TYPE_CHECKING:
    from sqlalchemy import Delete, Executable, Insert, Select
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import Claim
    from alkstore_core.sql.op import Op


def _move(deleted: Delete) -> Insert:
    gone = deleted.returning(*jobs.c).cte("gone")
    dead = as_dead(gone)
    return insert(dead_jobs).from_select(list(dead), select(*dead.values()))


BURY = _move(delete(jobs).where(live_claim))


def _expired_in(state: ColumnElement[str]) -> Select[int]:
    """By deadline: in the order of the index the limit ends the look, however many there are."""
    found = select(jobs.c.id).where(of_queue, jobs.c.state == state, expired)
    return up_to("limit", found.order_by(jobs.c.expires_at))


_expired = union_all(*map(_expired_in, (DELAYED, EXPIRED, PROCESSING, READY))).subquery("expired")
_past_expiry = materialized(up_to("limit", select(_expired.c.id)), "chosen")
_swept = locked(jobs, among(jobs.c.id, _past_expiry), expired)
SWEEP = _move(delete(jobs).where(among(jobs.c.id, _swept)))

_redriven = delete(dead_jobs).where(one_dead).returning(*dead_jobs.c).cte("gone")
_fresh = as_fresh(_redriven)
REDRIVE = insert(jobs).from_select(list(_fresh), select(*_fresh.values())).returning(jobs.c.id)
REDRIVE_WAKING = waking(REDRIVE)


def _purge(chosen: Select[int]) -> Delete:
    """Rows that another purge is just deleting are left to it."""
    ids = materialized(chosen, "chosen")
    gone = locked(dead_jobs, among(dead_jobs.c.id, ids), skip=True)
    return delete(dead_jobs).where(among(dead_jobs.c.id, gone))


PURGE_RETIRED = _purge(dead_letters.retired_ids)
PURGE_DEAD = _purge(dead_letters.purged_ids)

_FORMS: dict[Any, Executable] = {
    dead_letters.PURGE_RETIRED: PURGE_RETIRED,
    dead_letters.PURGE_DEAD: PURGE_DEAD,
}

_adapted = adapted(_FORMS)

purge_retired = _adapted(dead_letters.purge_retired)
purge_dead = _adapted(dead_letters.purge_dead)


def bury(wake: Wake, queue: str, claim: Claim, error: str) -> Op[bool]:  # noqa: ARG001
    """Move a live claim's job to the dead ones."""
    return (yield BURY, {**one_claim(queue, claim), "last_error": error}).count == 1


def sweep(wake: Wake, queue: str, limit: int) -> Op[int]:  # noqa: ARG001
    """Bury up to `limit` jobs past their expiry, whatever their state."""
    return (yield SWEEP, {"queue": queue, "limit": limit, "last_error": "expired"}).count


def redrive(wake: Wake, queue: str, job_id: int) -> Op[int | None]:
    """Replace a dead job by a fresh one; return the new id."""
    row = {"queue": queue, "id": job_id}
    if wake is None:
        rows = (yield REDRIVE, row).rows
    else:
        rows = (yield REDRIVE_WAKING, {**row, "wake": wake}).rows
    return int(rows[0][0]) if rows else None
