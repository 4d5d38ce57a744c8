"""Jobs that died: how they get there, what is done with them, how they leave.

A dead move is an insert and a delete in one op, so in one transaction: no reader and no crash
finds the job in both places or in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Text,
    and_,
    bindparam,
    case,
    delete,
    insert,
    literal_column,
    null,
    or_,
    select,
)

from alkstore_core.sql._dialect import FOREVER, NOW, Elements
from alkstore_core.sql._jobs import (
    ZERO,
    argument,
    as_json,
    expired,
    job_ids,
    live_claim,
    of_queue,
    one_claim,
    up_to,
)
from alkstore_core.sql.rows import job_from_row
from alkstore_core.sql.tables import DELAYED, EXPIRED, PROCESSING, READY, dead_jobs, jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import FromClause, Insert, Select
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.spi import Claim
    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job

DEAD: ColumnElement[str] = literal_column("'dead'", Text)


def as_dead(source: FromClause) -> dict[str, ColumnElement[Any]]:
    """What a job becomes that dies now, out of a table or query with the columns of `jobs`."""
    retention = source.c.dead_letter_retention_s
    return {
        **{column.name: source.c[column.name] for column in jobs.c},
        "state": DEAD,
        "last_error": bindparam("last_error", type_=Text),
        "died_at": NOW,
        "retained_until": case((retention > FOREVER - NOW, null()), else_=NOW + retention),
    }


def _move(condition: ColumnElement[bool]) -> Insert:
    """Copy jobs to the dead ones; deleting them is the other half."""
    dead = as_dead(jobs)
    return insert(dead_jobs).from_select(list(dead), select(*dead.values()).where(condition))


BURY = _move(live_claim)
DROP_BURIED = delete(jobs).where(live_claim)

_among_ids = jobs.c.id.in_(select(Elements("ids").integer))

BURY_IDS = _move(_among_ids)
DROP_IDS = delete(jobs).where(_among_ids)

# Every state is named so that each is a range of the expiry index.
PAST_EXPIRY = up_to(
    "limit",
    job_ids(of_queue, jobs.c.state.in_([DELAYED, EXPIRED, PROCESSING, READY]), expired),
)

_of_dead_queue = dead_jobs.c.queue == argument("queue")
one_dead: ColumnElement[bool] = and_(dead_jobs.c.id == argument("id"), _of_dead_queue)
"""The one whose id and queue are given."""

retired_ids: Select[int] = up_to(
    "limit",
    select(dead_jobs.c.id).where(_of_dead_queue, dead_jobs.c.retained_until < NOW).correlate(None),
)

PURGE_RETIRED = delete(dead_jobs).where(dead_jobs.c.id.in_(retired_ids))

_before = bindparam("before", type_=BigInteger)

purged_ids: Select[int] = up_to(
    "limit",
    select(dead_jobs.c.id)
    .where(_of_dead_queue, or_(_before.is_(None), dead_jobs.c.died_at < _before))
    .order_by(dead_jobs.c.id)
    .correlate(None),
)

PURGE_DEAD = delete(dead_jobs).where(dead_jobs.c.id.in_(purged_ids))

LIST_DEAD = up_to(
    "limit",
    select(*(dead_jobs.c[column.name] for column in jobs.c), dead_jobs.c.died_at)
    .where(_of_dead_queue, dead_jobs.c.id > bindparam("after_id", type_=BigInteger))
    .order_by(dead_jobs.c.id),
)


def as_fresh(source: FromClause) -> dict[str, ColumnElement[Any]]:
    """What a dead job becomes that is driven again, out of the columns of `dead_jobs`."""
    kept = (
        "queue",
        "payload",
        "headers",
        "priority",
        "max_attempts",
        "visibility_timeout_s",
        "backoff_base_s",
        "dead_letter_retention_s",
    )
    return {
        **{name: source.c[name] for name in kept},
        "state": READY,
        "run_at": NOW,
        "created_at": NOW,
        "attempts": ZERO,
    }


_fresh = as_fresh(dead_jobs)

REDRIVE = (
    insert(jobs)
    .from_select(list(_fresh), select(*_fresh.values()).where(one_dead))
    .returning(jobs.c.id)
)
DROP_DEAD = delete(dead_jobs).where(one_dead)


def bury(queue: str, claim: Claim, error: str) -> Op[bool]:
    """Move a live claim's job to the dead ones."""
    row = {**one_claim(queue, claim), "last_error": error}
    if not (yield BURY, row).count:
        return False
    yield DROP_BURIED, one_claim(queue, claim)
    return True


def bury_ids(ids: Sequence[int], error: str) -> Op[int]:
    """Move jobs of this transaction's choice to the dead ones; return how many."""
    if ids:
        chosen = as_json(ids)
        yield BURY_IDS, {"ids": chosen, "last_error": error}
        yield DROP_IDS, {"ids": chosen}
    return len(ids)


def sweep(queue: str, limit: int) -> Op[int]:
    """Bury up to `limit` jobs past their expiry, whatever their state."""
    rows = (yield PAST_EXPIRY, {"queue": queue, "limit": limit}).rows
    return (yield from bury_ids([id_ for (id_,) in rows], "expired"))


def purge_retired(queue: str, limit: int) -> Op[int]:
    """Delete up to `limit` dead jobs whose age exceeds their retention."""
    return (yield PURGE_RETIRED, {"queue": queue, "limit": limit}).count


def purge_dead(queue: str, before: int | None, limit: int) -> Op[int]:
    """Delete up to `limit` dead jobs that died before `before` (all, when `None`)."""
    return (yield PURGE_DEAD, {"queue": queue, "before": before, "limit": limit}).count


def list_dead(queue: str, limit: int, after_id: int) -> Op[list[Job]]:
    """Dead jobs with an id above `after_id`, by id."""
    row = {"queue": queue, "limit": limit, "after_id": after_id}
    return [job_from_row(row) for row in (yield LIST_DEAD, row).rows]


def redrive(queue: str, job_id: int) -> Op[int | None]:
    """Replace a dead job by a fresh one; return the new id."""
    rows = (yield REDRIVE, {"queue": queue, "id": job_id}).rows
    if not rows:
        return None
    yield DROP_DEAD, {"queue": queue, "id": job_id}
    return int(rows[0][0])
