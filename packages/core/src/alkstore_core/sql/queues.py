"""Jobs from enqueue to their end, except claiming (`claims`) and dying (`dead_letters`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, case, delete, func, insert, select, union_all, update

from alkstore_core.sql._dialect import NOW, Elements, later, unindexed
from alkstore_core.sql._jobs import (
    ONE,
    ZERO,
    argument,
    as_json,
    job_columns,
    live_claim,
    many_claims,
    of_queue,
    one_claim,
    pending_state,
    unclaimed,
    under_claims,
    unlapsed,
)
from alkstore_core.sql.rows import ascending, job_from_row
from alkstore_core.sql.tables import DELAYED, PROCESSING, READY, dead_jobs, jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Claim
    from alkstore_core.sql.op import Op
    from alkstore_core.values import Job

_delay = bindparam("delay", type_=BigInteger)
_run_at = bindparam("run_at", type_=BigInteger)

_values: dict[str, Any] = {
    "queue": argument("queue"),
    "payload": argument("payload"),
    "headers": argument("headers"),
    "state": case((_delay > ZERO, DELAYED), (_run_at > NOW, DELAYED), else_=READY),
    "priority": argument("priority"),
    "run_at": func.coalesce(later(_delay), _run_at, NOW),
    "created_at": NOW,
    "expires_at": later(bindparam("expires", type_=BigInteger)),
    "attempts": ZERO,
    "max_attempts": argument("max_attempts"),
    "visibility_timeout_s": argument("visibility_timeout_s"),
    "backoff_base_s": argument("backoff_base_s"),
    "dead_letter_retention_s": argument("dead_letter_retention_s"),
}

INSERT_JOB = insert(jobs).values(_values).returning(jobs.c.id)

_at_once: dict[str, Any] = {**_values, "state": READY, "run_at": NOW}
del _at_once["expires_at"]

# Most enqueues are this one, and what it leaves out is a sixth of its time.
INSERT_JOB_AT_ONCE = insert(jobs).values(_at_once).returning(jobs.c.id)

_payloads = Elements("payloads")

INSERT_JOBS = (
    insert(jobs)
    .from_select(
        list(_values),
        select(*({**_values, "payload": _payloads.blob}).values()).order_by(_payloads.ordinal),
    )
    .returning(jobs.c.id)
)

ACK = delete(jobs).where(live_claim)
_held = (
    jobs.c.id.in_(select(Elements("ids").integer)),
    of_queue,
    unindexed(jobs.c.state) == PROCESSING,
    unlapsed,
)
# Claims of one attempt, as nearly all are: pairs of id and attempt would be read twice, in twice
# the time.
ACK_MANY = delete(jobs).where(*_held, jobs.c.attempts == bindparam("attempt", type_=BigInteger))
ACK_IDS = delete(jobs).where(*_held, jobs.c.worker_id == argument("worker_id"))

extended: dict[str, ColumnElement[Any]] = {
    "claim_expires_at": later(bindparam("seconds", type_=BigInteger))
}
"""The change of a heartbeat."""

EXTEND = update(jobs).where(live_claim).values(extended)
EXTEND_MANY = update(jobs).where(under_claims(), unlapsed).values(extended).returning(jobs.c.id)

REQUEUE = (
    update(jobs)
    .where(live_claim)
    .values(
        state=case((_delay > ZERO, DELAYED), else_=READY),
        run_at=later(_delay),
        last_error=argument("last_error"),
        **unclaimed,
    )
)

given_back: dict[str, ColumnElement[Any]] = {
    "state": pending_state,
    "attempts": jobs.c.attempts - ONE,
    **unclaimed,
}
"""The change that undoes a claim."""

# No deadline here: nobody got to see these claims, so nobody can be late.
RELEASE_UNSEEN = update(jobs).where(under_claims()).values(given_back)
RELEASE = RELEASE_UNSEEN.where(unlapsed)

DELETE_JOB = delete(jobs).where(jobs.c.id == argument("id"), of_queue)

GET_JOB = union_all(
    select(*job_columns).where(jobs.c.id == argument("id"), of_queue),
    select(*(dead_jobs.c[column.name] for column in jobs.c), dead_jobs.c.died_at).where(
        dead_jobs.c.id == argument("id"), dead_jobs.c.queue == argument("queue")
    ),
)


def insert_jobs(queue: str, payloads: Sequence[bytes], spec: JobSpec) -> Op[list[int]]:
    """Store one job per payload, all with `spec`; return their ids in input order."""
    if not payloads:
        return []
    row: dict[str, Any] = {
        "queue": queue,
        "headers": spec.headers,
        "priority": spec.priority,
        "delay": spec.delay,
        "run_at": spec.run_at,
        "expires": spec.expires,
        "max_attempts": spec.max_attempts,
        "visibility_timeout_s": spec.visibility_timeout_s,
        "backoff_base_s": spec.backoff_base_s,
        "dead_letter_retention_s": spec.dead_letter_retention_s,
    }
    if len(payloads) == 1:
        row["payload"] = payloads[0]
        plain = spec.delay is None and spec.run_at is None and spec.expires is None
        result = yield INSERT_JOB_AT_ONCE if plain else INSERT_JOB, row
    else:
        row["payloads"] = as_json(payload.decode() for payload in payloads)
        result = yield INSERT_JOBS, row
    return ascending(result, len(payloads))


def ack(queue: str, claims: Sequence[Claim]) -> Op[int]:
    """Delete the jobs under live claims; return how many."""
    if len(claims) == 1:
        return (yield ACK, one_claim(queue, claims[0])).count
    acked = 0
    for row in many_claims(queue, claims):
        acked += (yield ACK_MANY, row).count
    return acked


def ack_ids(queue: str, ids: Sequence[int], worker_id: str) -> Op[int]:
    """Delete the jobs of `ids` that `worker_id` holds a live claim on; return how many."""
    row = {"queue": queue, "ids": as_json(ids), "worker_id": worker_id}
    return (yield ACK_IDS, row).count


def extend(queue: str, claims: Sequence[Claim], seconds: int) -> Op[list[int]]:
    """Let live claims end `seconds` from now; return the ids of those that were live."""
    if len(claims) == 1:
        result = yield EXTEND, {**one_claim(queue, claims[0]), "seconds": seconds}
        return [claims[0].id] if result.count else []
    row = {"queue": queue, "claims": as_json(claims), "seconds": seconds}
    result = yield EXTEND_MANY, row
    return sorted(id_ for (id_,) in result.rows)


def requeue(queue: str, claim: Claim, delay: int, error: str | None) -> Op[bool]:
    """Make a live claim's job pending again, due in `delay` seconds."""
    row = {**one_claim(queue, claim), "delay": delay, "last_error": error}
    return (yield REQUEUE, row).count == 1


def release(queue: str, claims: Sequence[Claim]) -> Op[int]:
    """Give jobs under live claims back as if never claimed; return how many."""
    return (yield RELEASE, {"queue": queue, "claims": as_json(claims)}).count


def release_unseen(queue: str, claims: Sequence[Claim]) -> Op[int]:
    """Give jobs back whose claims nobody got to see; return how many."""
    return (yield RELEASE_UNSEEN, {"queue": queue, "claims": as_json(claims)}).count


def delete_job(queue: str, job_id: int) -> Op[bool]:
    """Delete a live job of this queue."""
    return (yield DELETE_JOB, {"queue": queue, "id": job_id}).count == 1


def get_job(queue: str, job_id: int) -> Op[Job | None]:
    """The job of this queue, live or dead."""
    rows = (yield GET_JOB, {"queue": queue, "id": job_id}).rows
    return job_from_row(rows[0]) if rows else None
