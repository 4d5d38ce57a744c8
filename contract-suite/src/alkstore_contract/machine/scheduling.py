"""Steps: schedules are put and removed, and runners fire what is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from attrs import evolve
from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.actors import PATIENCE_SECONDS, Answer, attempt
from alkstore_contract.machine.base import Call, Client, raised, step, value_of, where, who
from alkstore_contract.machine.compare import expected, same_job
from alkstore_contract.machine.enqueuing import Enqueuing
from alkstore_contract.model.jobs import PLAIN, Job, Options
from alkstore_contract.model.numbers import LAST
from alkstore_contract.model.schedules import Schedule
from alkstore_core import CodecError, LeadershipLost, ScheduleOpts, StopToken

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEDULES = ("tick", "tock")
SPECS = (
    ("@every 7s", 7),
    ("@every 1m", 60),
    ("@every   2h", 7_200),
    ("@every 1d", 86_400),
    ("@every 9223372036854775807s", LAST),
)
LEASE = 60

scheduled: st.SearchStrategy[Options] = st.builds(
    Options,
    priority=st.sampled_from([0, 0, 3]),
    max_attempts=st.sampled_from([None, 2, -1]),
    expires=st.sampled_from([None, 20]),
    headers=st.sampled_from([None, {"trace": "t"}]),
)


def _any(machine: Scheduling) -> bool:
    return machine.put


class Scheduling(Enqueuing):
    """Everything about schedules."""

    def __init__(self) -> None:
        self.put: bool = False
        super().__init__()

    @step(
        3,
        actor=who,
        client=where,
        name=st.integers(0, 1),
        spec=st.integers(0, len(SPECS) - 1),
        queue=sources.queues,
        payload=sources.payloads,
        given=scheduled,
    )
    def schedule(
        self,
        actor: int,
        client: int,
        name: int,
        spec: int,
        queue: int,
        payload: Any,
        given: Options,
    ) -> None:
        """A schedule is put."""
        at, label, into = self.clients[client], SCHEDULES[name], sources.NAMES[queue]
        text, every = SPECS[spec]
        stored = Options(
            priority=given.priority,
            max_attempts=None if given.max_attempts is None else max(given.max_attempts, 1),
            expires=given.expires,
            headers=given.headers,
        )
        opts = ScheduleOpts(
            priority=given.priority,
            max_attempts=given.max_attempts,
            expires=given.expires,
            headers=given.headers,
        )

        sound = sources.sound([payload])
        self.put = True

        def judge(answer: Answer) -> str:
            if not sound:
                return raised(answer, CodecError)
            encoded = sources.encoded(payload)
            wanted = Schedule(label, text, every, into, encoded, stored, 0)
            _same_schedule(value_of(answer), self.model.schedules.put(self.now, wanted))
            return f"next at {answer.value.next_fire_at}"

        words = f"schedule({label!r}, {text!r}, {into!r}, {payload!r}{sources.told(given)})"
        self.do(
            Call(
                actor,
                at,
                words,
                lambda: at.store.schedule(label, text, into, payload, opts),
                judge,
                writes=sound,
            )
        )

    @step(when=_any, actor=who, client=where, name=st.integers(0, 1))
    def unschedule(self, actor: int, client: int, name: int) -> None:
        """A schedule is removed."""
        at, label = self.clients[client], SCHEDULES[name]

        def judge(answer: Answer) -> str:
            expected(value_of(answer), self.model.schedules.remove(label))
            return repr(answer.value)

        text = f"unschedule({label!r})"
        self.do(Call(actor, at, text, lambda: at.store.unschedule(label), judge))

    @step(when=_any, client=where)
    def look_at_schedules(self, client: int) -> None:
        """The schedules are listed."""
        self.say(f"store {client}: schedules()")
        self.same_schedules(self.clients[client])
        self.add("as expected")

    def same_schedules(self, client: Client) -> None:
        """The schedules are the model's."""
        seen = self.look(client.store.schedules, "schedules()")
        wanted = sorted(self.model.schedules.all.values(), key=lambda s: s.name)
        expected([s.name for s in seen], [s.name for s in wanted], "schedules()")
        for one, schedule in zip(seen, wanted, strict=True):
            _same_schedule(one, schedule)

    # -- firing ---------------------------------------------------------------------------

    @step(
        2,
        when=_any,
        runners=st.lists(where, min_size=1, max_size=2),
        jumps=st.lists(st.sampled_from([1, 7, 14, 20]), max_size=3),
        late=st.booleans(),
    )
    def run_schedules(self, runners: list[int], jumps: list[int], *, late: bool) -> None:
        """Runners fire what is due, and what comes due while they run."""
        if self.holder() is not None or self.waiting is not None:
            return
        stop = StopToken()
        self.say(f"stores {runners}: run_schedules()")
        # Runners of one store all end when the first of them has lost the lead.
        tasks = self.run(self._start(runners, stop))
        self._fired(tasks)
        self.add("what was due has fired")
        for jump in jumps:
            self.advance(jump)
            self._fired(tasks)
            self.add("what was due has fired")
        if late and len(runners) == 1:
            self._lose(tasks[0])
            return
        self.say("the runners are stopped")
        stop.stop()
        for answer in self.run(self._ended(tasks)):
            expected(value_of(answer, "run_schedules()"), None, "run_schedules()")

    async def _start(self, runners: Sequence[int], stop: StopToken) -> list[asyncio.Task[Answer]]:
        def running(number: int) -> Any:
            store = self.clients[number].store
            return attempt(lambda: store.run_schedules(stop))

        return [asyncio.ensure_future(running(number)) for number in runners]

    def _fired(self, tasks: list[asyncio.Task[Answer]]) -> None:
        """Wait until nothing is due any more, then compare what has been enqueued."""
        self.run(self._until_fired(tasks))
        new: dict[str, list[Job]] = {}
        for schedule, count in self.model.schedules.tick(self.now):
            job = Job.enqueued(
                self.now, 0, schedule.queue, schedule.payload, schedule.options, PLAIN
            )
            new.setdefault(schedule.queue, []).extend([job] * count)
        for queue, jobs in new.items():
            self._adopt(queue, jobs)
        self.same_schedules(self.clients[0])

    async def _until_fired(self, tasks: list[asyncio.Task[Answer]]) -> None:
        store = self.clients[0].store

        async def quiet() -> bool:
            leads = any(sources.reserved(lock.name) for lock in await store.locks())
            due = [s for s in await store.schedules() if s.next_fire_at <= self.now]
            return leads and not due

        # No wake tells that a runner has done its work: it is looked for.
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await quiet():
                    for task in tasks:
                        if task.done():
                            raise UnmetError(f"run_schedules() ended by itself: {task.result()}")
                    await asyncio.sleep(0)
        except TimeoutError:
            raise UnmetError("expected what is due to fire while a runner runs") from None

    def _adopt(self, queue: str, jobs: list[Job]) -> None:
        source = self.clients[0].store.queue(queue)
        known = self.model.queues.live
        seen = self.look(lambda: source.jobs(limit=100_000), "jobs()")
        new = [job for job in seen if job.id not in known]
        expected(len(new), len(jobs), f"{queue!r}, how many jobs were enqueued by schedules")
        adopted = []
        for one in new:
            job = next((job for job in jobs if _like(one, job)), jobs[0])
            jobs.remove(job)
            job = evolve(job, id=sources.check_id(one.id, self.model.queues.used))
            same_job(one, job, "enqueued by a schedule, ")
            self.model.queues.enqueue(job)
            adopted.append(job)
        self.work_came(adopted, None)

    def _lose(self, task: asyncio.Task[Answer]) -> None:
        """Time jumps beyond the lease: the runner fires nothing any more, and says so."""
        self.advance(LEASE + 1)
        self.say("the runner has lost the lead")
        (answer,) = self.run(self._ended([task]))
        self.add(raised(answer, LeadershipLost, "run_schedules()"))
        self.same_schedules(self.clients[0])

    async def _ended(self, tasks: list[asyncio.Task[Answer]]) -> list[Answer]:
        await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
        if not all(task.done() for task in tasks):
            raise UnmetError("expected run_schedules() to end")
        return [task.result() for task in tasks]


def _like(seen: Any, job: Job) -> bool:
    return (seen.payload, seen.priority, seen.max_attempts, seen.expires_at, seen.headers) == (
        job.payload,
        job.priority,
        job.max_attempts,
        job.expires_at,
        job.headers,
    )


def _same_schedule(seen: Any, schedule: Schedule) -> None:
    wanted = {
        "name": schedule.name,
        "spec": schedule.spec,
        "queue": schedule.queue,
        "payload": schedule.payload,
        "priority": schedule.options.priority,
        "max_attempts": schedule.options.max_attempts,
        "expires": schedule.options.expires,
        "headers": schedule.options.headers,
        "next_fire_at": schedule.next_fire_at,
    }
    for name, value in wanted.items():
        expected(getattr(seen, name), value, f"schedule {schedule.name!r}, {name}")
