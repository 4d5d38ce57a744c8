"""Steps: jobs go in, are looked at, and are taken away again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, raised, value_of
from alkstore_contract.machine.compare import expected, same_job, same_jobs
from alkstore_contract.machine.machine import Machine
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_contract.model.jobs import Job, Options, Stamps
from alkstore_core import CodecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.model import Database

aims: st.SearchStrategy[int | None] = st.sampled_from([None] * 6 + list(range(len(sources.NAMES))))
"""In which queue a job is looked for: mostly in its own."""

STATES = (None, "pending", "processing", "dead")


def _any(machine: Enqueuing) -> bool:
    return bool(machine.model.queues.used)


class Enqueuing(Machine):
    """Everything about jobs that does not need a claim."""

    @step(
        3,
        actor=who,
        client=where,
        name=sources.names,
        stamp=sources.stamps,
        payload=sources.payloads,
        given=sources.some_options,
    )
    def enqueue(
        self, actor: int, client: int, name: int, stamp: int, payload: Any, given: Options
    ) -> None:
        """A job is enqueued."""
        queue = sources.NAMES[name]
        self._enqueue(actor, client, queue, stamp, [payload], given, many=False)

    @step(
        2,
        actor=who,
        client=where,
        name=sources.queues,
        stamp=sources.stamps,
        payloads=st.lists(sources.payloads, min_size=1, max_size=4),
        given=sources.some_options,
    )
    def enqueue_many(
        self, actor: int, client: int, name: int, stamp: int, payloads: list[Any], given: Options
    ) -> None:
        """Some jobs are enqueued together."""
        self._enqueue(actor, client, sources.NAMES[name], stamp, payloads, given, many=True)

    def _enqueue(
        self,
        actor: int,
        client: int,
        queue: str,
        stamp: int,
        payloads: list[Any],
        given: Options,
        *,
        many: bool,
    ) -> None:
        at = self.clients[client]
        into = sources.producer(at.store, queue, stamp)
        opts = sources.enqueue_opts(given)
        stamps = sources.stamps_of(queue, stamp)

        sound = sources.sound(payloads)

        def judge(answer: Answer) -> str:
            if not sound:
                return raised(answer, CodecError)
            ids = value_of(answer) if many else [value_of(answer)]
            jobs = self.new_jobs(self.model, ids, queue, payloads, given, stamps)
            for job in jobs:
                self.model.queues.enqueue(job)
            self.work_came(jobs, at)
            return f"{answer.value}"

        words = f"{payloads!r}" if many else f"{payloads[0]!r}"
        self.do(
            Call(
                actor,
                at,
                f"{queue!r} {stamps_told(stamps)}enqueue{'_many' * many}"
                f"({words}{sources.told(given)})",
                (lambda: into.enqueue_many(payloads, opts))
                if many
                else (lambda: into.enqueue(payloads[0], opts)),
                judge,
                writes=sound,
            )
        )

    def new_jobs(
        self,
        model: Database,
        ids: Any,
        queue: str,
        payloads: Sequence[Any],
        given: Options,
        stamps: Stamps,
    ) -> list[Job]:
        """The jobs that were enqueued, under the ids that the store has chosen."""
        expected(len(ids), len(payloads), "how many ids")
        expected(len(set(ids)), len(ids), "how many different ids")
        return [
            Job.enqueued(
                self.now,
                sources.check_id(id_, model.queues.used),
                queue,
                sources.encoded(payload),
                given,
                stamps,
            )
            for id_, payload in zip(ids, payloads, strict=True)
        ]

    # -- looking --------------------------------------------------------------------------

    @step(when=_any, actor=who, client=where, aim=aims, number=which)
    def get_job(self, actor: int, client: int, aim: int | None, number: int) -> None:
        """A job is looked up, perhaps in a queue that is not its own."""
        id_ = self.some_id(number)
        queue = self.queue_of(id_, aim)
        at = self.clients[client]
        source = sources.source(at.store, queue)

        def judge(answer: Answer) -> str:
            job = self.model.queues.get(queue, id_)
            self.same(value_of(answer), job)
            return "nothing" if job is None else "as expected"

        call = Call(
            actor, at, f"{queue!r} get_job({id_})", lambda: source.get_job(id_), judge, writes=False
        )
        self.do(call)

    @staticmethod
    def same(seen: Any, job: Job | None) -> None:
        """A job or nothing was read, as the model says."""
        if job is None or seen is None:
            expected(seen, None if job is None else job)
        else:
            same_job(seen, job)

    @step(
        when=_any,
        actor=who,
        client=where,
        name=sources.names,
        state=st.sampled_from(STATES),
        limit=st.sampled_from([100, 100, 2, 0, -1]),
        after=which,
    )
    def list_jobs(
        self, actor: int, client: int, name: int, state: str | None, limit: int, after: int
    ) -> None:
        """Jobs are listed."""
        queue = sources.NAMES[name]
        at = self.clients[client]
        source = sources.source(at.store, queue)
        after_id = self.some_id(after) if after else 0

        def judge(answer: Answer) -> str:
            jobs = self.model.queues.jobs(queue)
            if state == "dead":
                jobs = self.model.queues.dead_jobs(queue)
            elif state is not None:
                jobs = [job for job in jobs if job.state == state]
            jobs = [job for job in jobs if job.id > after_id][: max(limit, 0)]
            same_jobs(value_of(answer), jobs)
            return f"{[job.id for job in jobs]}"

        text = f"{queue!r} jobs({state!r}, limit={limit}, after_id={after_id})"
        self.do(
            Call(actor, at, text, lambda: source.jobs(state, limit, after_id), judge, writes=False)
        )

    @step(when=_any, actor=who, client=where, name=sources.names)
    def stats(self, actor: int, client: int, name: int) -> None:
        """Jobs are counted."""
        queue = sources.NAMES[name]
        at = self.clients[client]
        source = sources.source(at.store, queue)

        def judge(answer: Answer) -> str:
            self.same_stats(value_of(answer), queue)
            return "as expected"

        call = Call(actor, at, f"{queue!r} stats()", source.stats, judge, writes=False)
        self.do(call)

    def same_stats(self, seen: Any, queue: str) -> None:
        """Counts are the model's."""
        stats = self.model.queues.stats(self.now, queue)
        for name in ("ready", "delayed", "processing", "lapsed", "expired", "dead"):
            expected(getattr(seen, name), getattr(stats, name), f"{queue!r} stats, {name}")
        expected(seen.oldest_ready_age_s, stats.oldest_ready_age_s, "oldest_ready_age_s")

    # -- taking away ----------------------------------------------------------------------

    @step(when=_any, actor=who, client=where, aim=aims, number=which)
    def cancel(self, actor: int, client: int, aim: int | None, number: int) -> None:
        """A job is cancelled, perhaps in a queue that is not its own."""
        id_ = self.some_id(number)
        self.cancel_job(actor, client, self.queue_of(id_, aim), id_)

    def cancel_job(self, actor: int, client: int, queue: str, id_: int) -> None:
        """A job is cancelled."""
        self._simple(
            actor,
            client,
            queue,
            f"cancel({id_})",
            lambda source: source.cancel(id_),
            lambda queue: self.model.queues.cancel(queue, id_),
        )

    @step(when=_any, actor=who, client=where, name=sources.names)
    def sweep(self, actor: int, client: int, name: int) -> None:
        """A queue is swept."""
        self._simple(
            actor,
            client,
            sources.NAMES[name],
            "sweep_expired()",
            lambda source: source.sweep_expired(),
            lambda queue: self.model.queues.sweep(self.now, queue),
        )

    @step(
        when=_any,
        actor=who,
        client=where,
        name=sources.names,
        ago=st.sampled_from([None, 0, 1, -1, 10, 300]),
    )
    def purge(self, actor: int, client: int, name: int, ago: int | None) -> None:
        """Dead jobs are deleted."""
        before = None if ago is None else self.now - ago
        self._simple(
            actor,
            client,
            sources.NAMES[name],
            f"purge_dead({before})",
            lambda source: source.purge_dead(before),
            lambda queue: self.model.queues.purge(queue, before),
        )

    def _simple(
        self, actor: int, client: int, queue: str, text: str, work: Any, model: Any
    ) -> None:
        at = self.clients[client]
        source = sources.source(at.store, queue)

        def judge(answer: Answer) -> str:
            expected(value_of(answer), model(queue))
            return repr(answer.value)

        self.do(Call(actor, at, f"{queue!r} {text}", lambda: work(source), judge))

    @step(when=_any, actor=who, client=where, aim=aims, number=which)
    def redrive(self, actor: int, client: int, aim: int | None, number: int) -> None:
        """A dead job is given another chance."""
        picked = self.pick(self.model.queues.dead, number)
        id_ = self.some_id(number) if picked is None else picked.id
        queue = self.queue_of(id_, aim)
        at = self.clients[client]
        source = sources.source(at.store, queue)

        def judge(answer: Answer) -> str:
            given = value_of(answer)
            job = self.model.queues.get(queue, id_)
            if job is None or job.died_at is None:
                expected(given, None)
                return "nothing"
            new = sources.check_id(given, self.model.queues.used)
            self.model.queues.redrive(self.now, queue, id_, new)
            self.work_came([self.model.queues.live[new]], at)
            return f"{new}"

        self.do(Call(actor, at, f"{queue!r} redrive({id_})", lambda: source.redrive(id_), judge))

    def queue_of(self, id_: int, aim: int | None) -> str:
        """The queue of a job, or another one that is aimed at."""
        job = self.model.queues.live.get(id_) or self.model.queues.dead.get(id_)
        if aim is None and job is not None:
            return job.queue
        return sources.NAMES[aim or 0]

    def some_id(self, number: int) -> int:
        """The id of some job, newest first, live or not."""
        used = sorted(self.model.queues.used)
        return used[-1 - number % len(used)] if used else 1


def stamps_told(stamps: Stamps) -> str:
    """A queue handle's options, where they are not the default ones."""
    if stamps == Stamps():
        return ""
    return (
        f"[{stamps.visibility} s, {stamps.attempts} attempts, backoff {stamps.backoff} s, "
        f"retention {stamps.retention}] "
    )
