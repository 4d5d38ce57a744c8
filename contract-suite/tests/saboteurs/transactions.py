"""Faults in what rides in transactions, and in who sees it when."""

from attrs import evolve
from sabotage import Saboteur, arguments, core, engine, primitive, result

from alkstore_core import DatabaseError, JobState
from alkstore_core.sql import streams
from alkstore_core.sql.op import Mode

PREFIX = "__alkstore_"


def is_plain(queue):
    """Whether it is no outbox."""
    return not queue.startswith(PREFIX)


async def _first_of_two(real, queue, payloads, spec, **wake):
    if len(payloads) == 2:
        (only,) = await real.insert_jobs(queue, payloads[:1], spec, **wake)
        return [only, only + 1]
    return await real.insert_jobs(queue, payloads, spec, **wake)


async def _stale_beside_writers(real, *args):
    jobs = await real.list_jobs(*args)
    return jobs[:-1] if real.engine._database.transaction is not None else jobs


async def _reads_uncommitted(real, stream, consumer):
    transaction = real.engine._database.transaction
    if transaction is None:
        return await real.get_offset(stream, consumer)
    return await transaction.run(Mode.READ, streams.get_offset, stream, consumer)


async def _time_stands_still(real):
    session = await real.begin()
    now = real.read_clock()
    session._driver._now = lambda: now
    return session


def _one_at_a_time(real, self):
    if self._lock.locked():
        raise DatabaseError("another call is under way")
    return real(self)


SABOTEURS = {
    "transactions.batches": Saboteur(
        result("insert_jobs", lambda ids: ids[::-1] if len(ids) > 2 else ids, where="tx"),
        stateful=True,
    ),
    "transactions.commit.everything": Saboteur(
        primitive("insert_jobs", _first_of_two, where="tx"),
        also={
            "queues.enqueue_tx.commit": "it enqueues two jobs at once",
            "queues.stamps.tx": "it enqueues two jobs at once",
            "scheduler.lost": "two boundaries are fired at once",
            "scheduler.takeover": "two boundaries are fired at once",
        },
        stateful=True,
    ),
    "transactions.commit.at_once": Saboteur(
        primitive("list_jobs", _stale_beside_writers, where="auto"), stateful=True
    ),
    "transactions.enqueue.options": Saboteur(
        arguments(
            "insert_jobs",
            lambda queue, payloads, spec: (
                queue,
                payloads,
                evolve(spec, headers=None) if is_plain(queue) else spec,
            ),
            where="tx",
        ),
        also={
            "payloads.headers.kept": "its jobs have headers",
            "queues.stamps.tx": "its jobs have headers",
            "scheduler.fire.stamps": "jobs are fired in transactions",
        },
        stateful=True,
    ),
    "transactions.enqueue.handle": Saboteur(
        arguments(
            "insert_jobs",
            lambda queue, payloads, spec: (queue, payloads, evolve(spec, backoff_base_s=5)),
            where="tx",
        ),
        stateful=True,
    ),
    "transactions.enqueue.stamps": Saboteur(
        arguments(
            "insert_jobs",
            lambda queue, payloads, spec: (queue, payloads, evolve(spec, visibility_timeout_s=60)),
            where="tx",
        ),
        also={
            "queues.stamps.tx": "it is the same promise, seen from the queue",
            "transactions.enqueue.handle": "it wants another visibility timeout as well",
            "scheduler.fire.stamps": "jobs are fired in transactions",
        },
        stateful=True,
    ),
    "transactions.invisible": Saboteur(
        primitive("get_offset", _reads_uncommitted, where="auto"), stateful=True
    ),
    "transactions.own.consumer": Saboteur(
        primitive("read_from", lambda real, *args: real.engine.auto.read_from(*args), where="tx"),
        also={"transactions.reads.limit": "it reads what it published"},
        stateful=True,
    ),
    "transactions.own.dead": Saboteur(
        result(
            "get_job",
            lambda job: None if job and job.state is JobState.DEAD else job,
            where="tx",
        ),
        also={
            "queues.get.tx": "it is the same promise, seen from the queue",
        },
        stateful=True,
    ),
    "transactions.own.events": Saboteur(
        primitive("read", lambda real, *args: real.engine.auto.read(*args), where="tx"),
        also={
            "transactions.reads.limit": "it reads what it published",
            "streams.no_skip.open": "the open transaction reads its own event",
        },
        stateful=True,
    ),
    "transactions.own.job": Saboteur(
        primitive("get_job", lambda real, *args: real.engine.auto.get_job(*args), where="tx"),
        also={
            "queues.enqueue_tx.commit": "it looks before the commit",
        },
        stateful=True,
    ),
    "transactions.own.offset": Saboteur(
        primitive("get_offset", lambda real, *args: real.engine.auto.get_offset(*args), where="tx"),
        also={"streams.save.tx": "it looks at the offset after each save"},
        stateful=True,
    ),
    "transactions.publish.headers": Saboteur(
        arguments(
            "append",
            lambda stream, entries: (stream, [e._replace(headers=None) for e in entries]),
            where="tx",
        ),
        also={
            "payloads.headers.kept": "its events have headers",
        },
    ),
    "transactions.reads.limit": Saboteur(
        arguments(
            "read_from", lambda stream, consumer, n: (stream, consumer, n + (n == 2)), where="tx"
        ),
        stateful=True,
    ),
    "transactions.shared_handle": Saboteur(core("opentx:OpenTx.__aenter__", _one_at_a_time)),
    "transactions.time": Saboteur(
        engine("begin", _time_stands_still),
        also={
            "time.per_call": "it is the same promise, seen from the clock",
        },
        stateful=True,
    ),
}
