"""Jobs from enqueue to their end, where many write at once."""

from __future__ import annotations

from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    any_,
    bindparam,
    column,
    delete,
    func,
    select,
    true,
    tuple_,
    update,
)

from alkstore_core.sql import queues
from alkstore_core.sql._dialect import Elements, unindexed
from alkstore_core.sql._jobs import argument, of_queue, one_claim, unlapsed
from alkstore_core.sql.merging import Merge
from alkstore_core.sql.tables import PROCESSING, jobs
from alkstore_postgres.forms import Wake, adapted, among, locked

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sqlalchemy import CTE, Executable, Update
    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.jobspec import JobSpec
    from alkstore_core.spi import Claim
    from alkstore_core.sql.op import Op

_claims = Elements("claims")
_claim = (_claims.integer_at(0), _claims.integer_at(1))
_under_claims = (
    among(jobs.c.id, select(_claim[0])),
    # "Is true" keeps it a look into a hash table. The planner would make a join of it otherwise,
    # of a kind that depends on how many jobs it believes there are.
    tuple_(jobs.c.id, jobs.c.attempts).in_(select(*_claim)).is_(true()),
    of_queue,
    unindexed(jobs.c.state) == PROCESSING,
)
# The same, of arrays: most batches are acknowledgements, and JSON was a third of their time.
_ids = bindparam("claim_ids", type_=ARRAY(BigInteger))
_given = (
    func.unnest(_ids, bindparam("claim_attempts", type_=ARRAY(BigInteger)))
    .table_valued(column("id", BigInteger), column("attempt", BigInteger))
    .render_derived(name="given")
)
_given_claims = (
    jobs.c.id == any_(_ids),
    tuple_(jobs.c.id, jobs.c.attempts).in_(select(*_given.c)).is_(true()),
    *_under_claims[2:],
)
_among_ids = (
    among(jobs.c.id, select(Elements("ids").integer)),
    of_queue,
    unindexed(jobs.c.state) == PROCESSING,
    unlapsed,
    jobs.c.worker_id == argument("worker_id"),
)

_claimed = locked(jobs, *_under_claims)
_live = locked(jobs, *_under_claims, unlapsed)
_mine = locked(jobs, *_among_ids)


def _change(chosen: CTE, changes: dict[str, ColumnElement[Any]]) -> Update:
    return update(jobs).where(among(jobs.c.id, chosen)).values(changes)


ACK_MANY = delete(jobs).where(among(jobs.c.id, locked(jobs, *_given_claims, unlapsed)))
ACK_EACH = ACK_MANY.returning(jobs.c.id, jobs.c.attempts)
ACK_IDS = delete(jobs).where(among(jobs.c.id, _mine))
EXTEND_MANY = _change(_live, queues.extended).returning(jobs.c.id)
RELEASE = _change(_live, queues.given_back)
RELEASE_UNSEEN = _change(_claimed, queues.given_back)

_FORMS: dict[Any, Executable] = {
    queues.ACK_IDS: ACK_IDS,
    queues.EXTEND_MANY: EXTEND_MANY,
    queues.RELEASE: RELEASE,
    queues.RELEASE_UNSEEN: RELEASE_UNSEEN,
}

_adapted = adapted(_FORMS)

insert_jobs = _adapted(queues.insert_jobs)
ack_ids = _adapted(queues.ack_ids)
extend = _adapted(queues.extend)
requeue = _adapted(queues.requeue)
release = _adapted(queues.release)
release_unseen = _adapted(queues.release_unseen)


def ack(_: Wake, queue: str, claims: Sequence[Claim]) -> Op[int]:
    """Delete the jobs under live claims; return how many. It wakes nobody."""
    if len(claims) == 1:
        return (yield queues.ACK, one_claim(queue, claims[0])).count
    return (yield ACK_MANY, _given_as_arrays(queue, claims)).count


_InsertCall = tuple[Wake, str, "Sequence[bytes]", "JobSpec"]
_AckCall = tuple[Wake, str, "Sequence[Claim]"]


def _insert_key(arguments: tuple[Any, ...]) -> Hashable:
    wake, queue, _, spec = arguments
    # Handles share their default spec, so identity finds what is worth merging.
    return wake, queue, id(spec)


def insert_together(calls: Sequence[_InsertCall]) -> Op[list[list[int]]]:
    """Many enqueues into one queue."""
    wake, queue, _, spec = calls[0]
    payloads = list(chain.from_iterable(call[2] for call in calls))
    ids = iter((yield from insert_jobs(wake, queue, payloads, spec)))
    return [list(islice(ids, len(call[2]))) for call in calls]


def ack_together(calls: Sequence[_AckCall]) -> Op[list[int]]:
    """Many acks in one queue."""
    claims = {claim for call in calls for claim in call[2]}
    acked = set((yield ACK_EACH, _given_as_arrays(calls[0][1], sorted(claims))).rows)
    # Of two calls with one claim the first has acked it, as if they had run one by one.
    counts: list[int] = []
    for _, _, wanted in calls:
        mine = acked.intersection(wanted)
        acked -= mine
        counts.append(len(mine))
    return counts


def _given_as_arrays(queue: str, claims: Sequence[Claim]) -> dict[str, Any]:
    ids, attempts = map(list, zip(*claims, strict=True))
    return {"queue": queue, "claim_ids": ids, "claim_attempts": attempts}


INSERTS = Merge(_insert_key, insert_together)
ACKS = Merge(itemgetter(1), ack_together)
