"""Steps: jobs are claimed, and their handles are used, also when it is too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define
from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, Client, raised, value_of
from alkstore_contract.machine.compare import expected, same_job
from alkstore_contract.machine.enqueuing import Enqueuing, aims
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_contract.model.jobs import backoff
from alkstore_contract.model.queues import Queues
from alkstore_core import Closed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.model.jobs import Job
    from alkstore_contract.model.queues import Fence

HANDLES = 8
STALE = 6
"""Of eight numbers, the first six mean a handle whose claim is live, if there is one."""

errors: st.SearchStrategy[str | None] = st.sampled_from([None, "boom", "NUL \0 in it"])


def _tried(machine: Claiming) -> bool:
    return machine.tried


@define(eq=False)
class Held:
    """A job handle, and what the model knows of its claim."""

    client: Client
    handle: Any
    queue: str
    fence: Fence
    settled: bool = False


class Claiming(Enqueuing):
    """Everything about claims."""

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.tried: bool = False
        self.worked_off: int = 0
        super().__init__()

    @step(
        5,
        when=lambda m: m.model.queues.used,
        actor=who,
        client=where,
        aim=aims,
        worker=sources.workers,
        n=st.sampled_from([1, 1, 1, 2, 3, 100, 0, -1]),
    )
    def claim(self, actor: int, client: int, aim: int | None, worker: int, n: int) -> None:
        """Jobs are claimed, mostly where there are some."""
        queue = sources.NAMES[self.where_claimable() if aim is None else aim]
        at, as_worker = self.clients[client], sources.WORKERS[worker]
        source = sources.source(at.store, queue)

        self.tried = True

        def judge(answer: Answer) -> str:
            handles = value_of(answer)
            if n == 1:
                handles = [] if handles is None else [handles]
            self.claimed(at, queue, as_worker, n, handles)
            return f"{[handle.job.id for handle in handles]}"

        one = n == 1
        text = f"{queue!r} claim_one({as_worker!r})"
        if not one:
            text = f"{queue!r} claim_batch({as_worker!r}, {n})"
        self.do(
            Call(
                actor,
                at,
                text,
                (lambda: source.claim_one(as_worker))
                if one
                else (lambda: source.claim_batch(as_worker, n)),
                judge,
                writes=n > 0,
            )
        )

    def where_claimable(self) -> int:
        """The number of a queue with a claimable job, if there is one."""
        found = {j.queue for j in self.model.queues.live.values() if j.claimable(self.now)}
        return next((n for n, name in enumerate(sources.NAMES) if name in found), 0)

    def claimed(
        self,
        at: Client,
        queue: str,
        worker: str,
        n: int,
        handles: list[Any],
        now: int | None = None,
    ) -> None:
        """The right jobs were handed out, in the right order; perhaps a while ago."""
        then = self.now if now is None else now
        jobs = self.model.queues.claim(then, queue, worker, n)
        expected([handle.job.id for handle in handles], [job.id for job in jobs], "ids")
        for handle, job in zip(handles, jobs, strict=True):
            same_job(handle.job, job)
            self.keep(self.held, Held(at, handle, queue, (job.id, job.attempts)), HANDLES)
        if n > 0:
            self._adopt_leftovers(then, queue, dry=len(jobs) < n)

    def _adopt_leftovers(self, now: int, queue: str, *, dry: bool) -> None:
        for job in self.model.queues.jobs(queue):
            if job.lapsed(now):
                may = Queues.leftover(now, job, dry=dry)
                self.model.queues.adopt(self._one_of(queue, job, may))

    def _one_of(self, queue: str, job: Job, may: list[Job]) -> Job:
        seen = self.read_job(queue, job.id)
        if seen is None:
            raise UnmetError(f"job {job.id}: expected it to be there after the claim")
        for candidate in may:
            if str(seen.state) == candidate.state:
                same_job(seen, candidate, "after the claim, ")
                return candidate
        states = " or ".join(candidate.state for candidate in may)
        raise UnmetError(
            f"after the claim, job {job.id}, state: expected {states}, got {seen.state}"
        )

    def read_job(self, queue: str, id_: int) -> Any:
        """A job as the first store sees it."""
        source = sources.source(self.clients[0].store, queue)
        return self.look(lambda: source.get_job(id_), f"get_job({id_})")

    def _handle(self, number: int) -> Held | None:
        """A handle, mostly one that is still good for something."""
        good = {
            key: held
            for key, held in self.held.items()
            if not held.settled and not held.client.closed and self._is_live(held)
        }
        return self.pick(good if good and number < STALE else self.held, number)

    def _is_live(self, held: Held) -> bool:
        job = self.model.queues.live.get(held.fence[0])
        return job is not None and job.attempts == held.fence[1] and job.held(self.now)

    # -- handles --------------------------------------------------------------------------

    @step(2, when=_tried, actor=who, number=which)
    def ack(self, actor: int, number: int) -> None:
        """A job is done."""
        self._settle(
            actor,
            number,
            "ack()",
            lambda handle: handle.ack(),
            lambda held: self.model.queues.ack(self.now, held.fence),
        )

    @step(2, when=_tried, actor=who, number=which)
    def release(self, actor: int, number: int) -> None:
        """A job is given back."""

        def model(held: Held) -> bool:
            released = self.model.queues.release(self.now, held.fence)
            if released:
                self.work_came([self.model.queues.live[held.fence[0]]], held.client)
            return released

        self._settle(actor, number, "release()", lambda handle: handle.release(), model)

    @step(2, when=_tried, actor=who, number=which, error=errors)
    def fail(self, actor: int, number: int, error: str | None) -> None:
        """A job is given up."""
        self._settle(
            actor,
            number,
            f"fail({error!r})",
            lambda handle: handle.fail(error),
            lambda held: self.model.queues.fail(self.now, held.fence, _stored(error)),
        )

    @step(
        3,
        when=_tried,
        actor=who,
        number=which,
        error=errors,
        delay=st.sampled_from([None, None, 0, -1, 5, 2**63 - 1]),
    )
    def retry(self, actor: int, number: int, error: str | None, delay: int | None) -> None:
        """A job is to be tried again."""
        self._settle(
            actor,
            number,
            f"retry({error!r}, {delay})",
            lambda handle: handle.retry(error, delay),
            lambda held: self.retried(held.client, held.queue, held.fence, _stored(error), delay),
        )

    def retried(
        self, at: Client, queue: str, fence: Fence, error: str | None, delay: int | None
    ) -> bool:
        """Whether a retry had to succeed; without a delay the engine has chosen one."""
        job = self.model.queues.live.get(fence[0])
        wait = 0 if delay is None else delay
        if job is not None and delay is None and not job.exhausted:
            shortest, longest = backoff(job.stamps.backoff, fence[1])
            seen = self.read_job(queue, job.id) if longest else None
            if seen is not None and job.attempts == fence[1] and job.held(self.now):
                wait = seen.run_at - self.now
                if not shortest <= wait <= longest:
                    raise UnmetError(
                        f"job {job.id}, wait after attempt {fence[1]} with a backoff of "
                        f"{job.stamps.backoff} s: expected {shortest} to {longest} s, got {wait} s"
                    )
        moved = self.model.queues.retry(self.now, fence, error, wait)
        if moved and fence[0] in self.model.queues.live:
            self.work_came([self.model.queues.live[fence[0]]], at)
        return moved

    @step(2, when=_tried, actor=who, number=which, extend=st.sampled_from([1, 10, 60, 2**63 - 1]))
    def heartbeat(self, actor: int, number: int, extend: int) -> None:
        """A claim is extended."""
        held = self._handle(number)
        if held is None or self._idle(held):
            return
        self._use(
            actor,
            held,
            f"heartbeat({extend})",
            lambda handle: handle.heartbeat(extend),
            lambda: not held.settled and self.model.queues.heartbeat(self.now, held.fence, extend),
        )

    def _settle(
        self,
        actor: int,
        number: int,
        text: str,
        work: Callable[[Any], Awaitable[bool]],
        model: Callable[[Held], bool],
    ) -> None:
        held = self._handle(number)
        if held is None or self._idle(held):
            return

        def settle() -> bool:
            if held.settled:
                return False
            moved = model(held)
            held.settled = True
            return moved

        self._use(actor, held, text, work, settle)

    def _idle(self, held: Held) -> bool:
        """Whether nothing is to be learnt: settled, and another refusal stands before that."""
        return held.settled and (held.client.closed or self.holder() is not None)

    def _use(
        self,
        actor: int,
        held: Held,
        text: str,
        work: Callable[[Any], Awaitable[bool]],
        model: Callable[[], bool],
    ) -> None:
        handle, closed = held.handle, held.client.closed

        def judge(answer: Answer) -> str:
            if closed:
                return raised(answer, Closed)
            expected(value_of(answer), model())
            return repr(answer.value)

        what = f"claim {held.fence[1]} of job {held.fence[0]}, {text}"
        if closed and self.holder() is not None:
            return
        self.do(Call(actor, held.client, what, lambda: work(handle), judge))

    @step(when=lambda m: len(m.lines) >= m.worked_off + 50, actor=who, client=where)
    def work_off(self, actor: int, client: int) -> None:
        """Everything is done, dead, cancelled and purged: no job is left."""
        if self.open or self.waiting:
            return
        self.worked_off = len(self.lines)
        for number, queue in enumerate(sources.NAMES):
            self.purge(actor, client, number, None)
            for job in self.model.queues.jobs(queue):
                if not job.claimable(self.now) or job.exhausted:
                    self.cancel_job(actor, client, queue, job.id)
            while left := self.model.queues.jobs(queue):
                self.claim(actor, client, number, 0, min(len(left), 3))
                for _ in left[:3]:
                    self.ack(actor, 0)

    # -- batches --------------------------------------------------------------------------

    @step(
        when=_tried,
        actor=who,
        client=where,
        aim=aims,
        worker=sources.workers,
        numbers=st.lists(which, min_size=1, max_size=5),
    )
    def ack_ids(
        self, actor: int, client: int, aim: int | None, worker: int, numbers: list[int]
    ) -> None:
        """Several jobs are done, by their ids; some, perhaps, not this worker's, or twice."""
        at, as_worker = self.clients[client], sources.WORKERS[worker]
        ids = [self.some_id(number) for number in numbers]
        queue = self.queue_of(ids[0], aim)
        source = sources.source(at.store, queue)
        self._batch(
            actor,
            at,
            f"{queue!r} ack_batch({ids}, {as_worker!r})",
            lambda: source.ack_batch(ids, as_worker),
            lambda: self.model.queues.ack_ids(self.now, queue, ids, as_worker),
        )

    @step(
        when=_tried,
        actor=who,
        aim=aims,
        worker=sources.workers,
        numbers=st.lists(which, min_size=1, max_size=5),
    )
    def ack_batch(self, actor: int, aim: int | None, worker: int, numbers: list[int]) -> None:
        """Several jobs are done, by their handles; some, perhaps, of other queues, or twice."""
        picked = self._picked(numbers)
        queue = self._queue(picked, aim)
        if queue is None:
            return
        at, as_worker = picked[0].client, sources.WORKERS[worker]
        source = sources.source(at.store, queue)
        handles = [held.handle for held in picked]
        self._batch(
            actor,
            at,
            f"{queue!r} ack_batch([{_claims(picked)}], {as_worker!r})",
            lambda: source.ack_batch(handles, as_worker),
            lambda: self._settle_all(
                queue, picked, lambda held: self.model.queues.ack(self.now, held.fence)
            ),
        )

    @step(when=_tried, actor=who, aim=aims, numbers=st.lists(which, min_size=1, max_size=5))
    def release_batch(self, actor: int, aim: int | None, numbers: list[int]) -> None:
        """Several jobs are given back."""
        picked = self._picked(numbers)
        queue = self._queue(picked, aim)
        if queue is None:
            return
        at = picked[0].client
        source = sources.source(at.store, queue)
        handles = [held.handle for held in picked]

        def model() -> int:
            count = self._settle_all(
                queue, picked, lambda held: self.model.queues.release(self.now, held.fence)
            )
            if count:
                live = self.model.queues.live
                self.work_came([live[h.fence[0]] for h in picked if h.fence[0] in live], at)
            return count

        self._batch(
            actor,
            at,
            f"{queue!r} release_batch([{_claims(picked)}])",
            lambda: source.release_batch(handles),
            model,
        )

    def _picked(self, numbers: list[int]) -> list[Held]:
        """Handles of one open store."""
        found = [self._handle(number) for number in numbers]
        usable = [held for held in found if held is not None and not held.client.closed]
        return [held for held in usable if held.client is usable[0].client]

    @staticmethod
    def _queue(picked: list[Held], aim: int | None) -> str | None:
        """On which queue the batch is called.

        None when nothing is left to do there: that is no write, and would not wait for its turn.
        """
        if not picked:
            return None
        queue = picked[0].queue if aim is None else sources.NAMES[aim]
        return queue if any(h.queue == queue and not h.settled for h in picked) else None

    @staticmethod
    def _settle_all(queue: str, picked: list[Held], model: Callable[[Held], bool]) -> int:
        count = 0
        for held in picked:
            if held.queue == queue and not held.settled:
                held.settled = True
                count += model(held)
        return count

    def _batch(
        self,
        actor: int,
        at: Client,
        text: str,
        work: Callable[[], Awaitable[int]],
        model: Callable[[], int],
    ) -> None:
        def judge(answer: Answer) -> str:
            expected(value_of(answer), model())
            return repr(answer.value)

        self.do(Call(actor, at, text, work, judge))


def _claims(picked: list[Held]) -> str:
    return ", ".join(f"claim {held.fence[1]} of job {held.fence[0]}" for held in picked)


def _stored(error: str | None) -> str | None:
    """An error's text as it reads back: what cannot be stored everywhere is spelled out."""
    return None if error is None else error.replace("\0", "\\x00")
