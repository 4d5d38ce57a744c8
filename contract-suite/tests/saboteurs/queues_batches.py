"""Faults in acking and releasing many jobs at once."""

from sabotage import Saboteur, arguments, core, primitive, statement
from sqlalchemy import delete, update

from alkstore_core import DatabaseError, JobState
from alkstore_core.sql import queues
from alkstore_core.sql._dialect import Elements, unindexed
from alkstore_core.sql._jobs import argument, of_queue, under_claims
from alkstore_core.sql.tables import PROCESSING, jobs


def acked(change):
    """`ack_batch` with other items, or another answer."""
    return core("queues:JobSource.ack_batch", change)


def _first_kind_only(real, self, items, worker):
    items = list(items)
    if items and isinstance(items[0], int):
        items = [item for item in items if isinstance(item, int)]
    return real(self, items, worker)


async def _all_for_none(real, self, items, worker):
    items = list(items)
    if not items:
        items = [job.id for job in await self.jobs(JobState.PROCESSING)]
    return await real(self, items, worker)


async def _repeats_counted(real, self, items, worker):
    items = list(items)
    numbers = [item for item in items if isinstance(item, int)]
    count = await real(self, items, worker)
    return count + (len(numbers) - len(set(numbers)) if count else 0)


async def _pending_too(real, queue, ids, worker):
    count = await real.ack_ids(queue, ids, worker)
    for id_ in ids[:50]:
        job = await real.get_job(queue, id_)
        if job is not None and job.state is JobState.PENDING:
            count += await real.delete_job(queue, id_)
    return count


async def _any_case(real, queue, ids, worker):
    return await real.ack_ids(queue, ids, worker) or await real.ack_ids(
        queue, ids, worker.casefold()
    )


async def _newer_too(real, queue, claims):
    count = await real.ack(queue, claims)
    if len(claims) > 1:
        for claim in claims:
            job = await real.get_job(queue, claim.id)
            if job is not None and job.worker_id is not None and job.attempts > claim.attempt:
                count += await real.ack_ids(queue, [job.id], job.worker_id)
    return count


async def _said_again(real, self, *args):
    settled = self.settled
    done = await real(self, *args)
    gone = await self._runtime.session().get_job(self.job.queue, self.job.id) is None
    return settled and gone if settled else done


def _limited(real, self, items, worker):
    items = list(items)
    if len(items) > 10_000:
        raise DatabaseError("too many")
    return real(self, items, worker)


async def _hurried(real, queue, ids, worker):
    """Two batches at once count what either has deleted."""
    both = real.notes.setdefault("counts", [])
    alone = not real.notes.get("running")
    real.notes["running"] = real.notes.get("running", 0) + 1
    try:
        count = await real.ack_ids(queue, ids, worker)
        both.append(count)
        return count if alone else max(both)
    finally:
        real.notes["running"] -= 1


async def _at_most_a_chunk(real, self, *args):
    return min(await real(self, *args), 1000)


def _late_too(held):
    """Jobs of `ids` that are `held`, whether or not their claims have lapsed."""
    return delete(jobs).where(
        jobs.c.id.in_(queues.select(Elements("ids").integer)),
        of_queue,
        unindexed(jobs.c.state) == PROCESSING,
        held,
    )


SABOTEURS = {
    "queues.ack_batch.handles": Saboteur(
        arguments(
            "ack", lambda queue, claims: (queue, claims[:-1] if len(claims) == 3 else claims)
        ),
        also={"queues.ack_batch.reclaimed": "three live handles are among its old ones"},
    ),
    "queues.ack_batch.ids": Saboteur(
        arguments(
            "ack_ids",
            lambda queue, ids, worker: (queue, ids[:-1] if len(ids) == 3 else ids, worker),
        ),
        also={
            "queues.ack_batch.mixed": "it gives three ids",
            "queues.ack_batch.worker": "it gives three ids",
        },
    ),
    "queues.ack_batch.mixed": Saboteur(acked(_first_kind_only)),
    "queues.ack_batch.nothing": Saboteur(acked(_all_for_none)),
    "queues.ack_batch.repeats": Saboteur(acked(_repeats_counted)),
    "queues.ack_batch.strangers": Saboteur(primitive("ack_ids", _pending_too), stateful=True),
    "queues.ack_batch.worker": Saboteur(primitive("ack_ids", _any_case)),
    "queues.ack_batch.lapsed": Saboteur(
        statement("queues:ACK_MANY", lambda _: _late_too(jobs.c.attempts == argument("attempt"))),
        stateful=True,
    ),
    "queues.ack_batch.ids_lapsed": Saboteur(
        statement("queues:ACK_IDS", lambda _: _late_too(jobs.c.worker_id == argument("worker_id"))),
        stateful=True,
    ),
    "queues.ack_batch.reclaimed": Saboteur(primitive("ack", _newer_too), stateful=True),
    "queues.ack_batch.settles": Saboteur(
        core("jobs:JobHandle.retry", _said_again),
        also={"queues.ack.settles": "a retry after the ack is told it was done"},
        stateful=True,
    ),
    "queues.ack_batch.large": Saboteur(acked(_at_most_a_chunk)),
    "queues.ack_batch.sparse": Saboteur(acked(_limited)),
    "queues.ack_batch.no_deadlock": Saboteur(primitive("ack_ids", _hurried)),
    "queues.release_batch.restores": Saboteur(
        core(
            "queues:JobSource.release_batch",
            lambda real, self, handles: real(self, handles[:-1] if len(handles) == 3 else handles),
        ),
        also={"queues.heartbeat_batch.extends": "it gives three back"},
    ),
    "queues.release_batch.fenced": Saboteur(
        statement("queues:RELEASE", lambda _: queues.RELEASE_UNSEEN),
        also={"queues.release.lapsed": "a late release counts too"},
        stateful=True,
    ),
    "queues.release_batch.large": Saboteur(
        core("queues:JobSource.release_batch", _at_most_a_chunk)
    ),
    "queues.heartbeat_batch.extends": Saboteur(
        arguments(
            "extend",
            lambda queue, claims, s: (queue, claims[:-1] if len(claims) == 3 else claims, s),
        )
    ),
    "queues.heartbeat_batch.fenced": Saboteur(
        statement(
            "queues:EXTEND_MANY",
            lambda _: (
                update(jobs).where(under_claims()).values(queues.extended).returning(jobs.c.id)
            ),
        )
    ),
    "queues.heartbeat_batch.large": Saboteur(
        core(
            "queues:JobSource.heartbeat_batch",
            lambda real, self, handles, s: real(self, list(handles)[:1000], s),
        )
    ),
}
