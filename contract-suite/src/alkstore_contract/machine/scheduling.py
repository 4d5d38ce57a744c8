"""Steps: schedules are put and removed, and runners fire what is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from attrs import evolve
from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import actors, sources
from alkstore_contract.machine.actors import Answer, attempt, settled
from alkstore_contract.machine.calls import Call, Client, raised, value_of
from alkstore_contract.machine.compare import expected, same_job
from alkstore_contract.machine.enqueuing import Enqueuing
from alkstore_contract.machine.steps import step, where, who
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

names: st.SearchStrategy[int] = st.integers(0, len(SCHEDULES) - 1)
specs: st.SearchStrategy[int] = st.integers(0, len(SPECS) - 1)
events: st.SearchStrategy[int | tuple[int, int]] = st.one_of(
    st.sampled_from([1, 7, 14, 20]), st.sampled_from([7, 20]), st.tuples(names, specs)
)
"""What happens while runners run: seconds pass, or a schedule gets another spec."""

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
        name=names,
        spec=specs,
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
        stored = given
        if given.max_attempts is not None:
            stored = evolve(given, max_attempts=max(given.max_attempts, 1))
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

    @step(when=_any, actor=who, client=where, name=names)
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
        during=st.lists(events, max_size=4),
        late=st.booleans(),
    )
    def run_schedules(
        self, runners: list[int], during: list[int | tuple[int, int]], *, late: bool
    ) -> None:
        """Runners fire what is due, and what comes due while they run."""
        if self.holder() is not None or self.waiting is not None:
            return
        stops = [StopToken() for _ in runners]
        self.say(f"stores {runners}: run_schedules()")
        tasks = self.run(self._start(runners, stops))
        began, token = self.now, self._fired(tasks, None, self.now)
        for event in during:
            if isinstance(event, tuple):
                self.schedule(0, 0, *event, 0, None, Options())
            elif self.now + event <= began + LEASE:
                # Within its lease a runner has not lost it, whenever it renewed.
                self.advance(event)
            token = self._fired(tasks, token, began)
        if late and len(runners) == 1:
            self._lose(tasks[0])
            return
        for stop in stops:
            self.say("a runner is stopped")
            stop.stop()
            answer = self.run(settled(tasks.pop(0), "run_schedules()"))
            expected(value_of(answer, "run_schedules()"), None, "run_schedules()")
            if tasks:
                self._fired(tasks, None, began)
        expected(self._leases(), [], "the leases of runners that were stopped")

    async def _start(
        self, runners: Sequence[int], stops: Sequence[StopToken]
    ) -> list[asyncio.Task[Answer]]:
        def running(number: int, stop: StopToken) -> Any:
            store = self.clients[number].store
            return attempt(lambda: store.run_schedules(stop))

        pairs = zip(runners, stops, strict=True)
        return [asyncio.ensure_future(running(number, stop)) for number, stop in pairs]

    def _fired(self, tasks: list[asyncio.Task[Answer]], token: int | None, since: int) -> int:
        """Wait until nothing is due any more, then compare what has been enqueued.

        The leader has renewed its lease for it, which is one and the same while it leads.
        """
        self.run(self._until_fired(tasks))
        fired = self.model.schedules.tick(self.now)
        new: dict[str, list[Job]] = {}
        for schedule, count in fired:
            job = Job.enqueued(
                self.now, 0, schedule.queue, schedule.payload, schedule.options, PLAIN
            )
            new.setdefault(schedule.queue, []).extend([job] * count)
        for queue, jobs in new.items():
            self._adopt(queue, jobs)
        self.same_schedules(self.clients[0])
        ((held, until),) = self._leases()
        if fired or token is None:
            # It may have been at it when time passed, and have renewed before that.
            told = f"the leader's lease, renewed, ends at {until}, 60 s after {since} to {self.now}"
            expected(since + LEASE <= until <= self.now + LEASE, True, told)
        if token is not None:
            expected(held, token, "the token of the leader's lease")
        self.add(f"{sum(count for _, count in fired)} jobs")
        return held

    def _leases(self) -> list[tuple[int, int]]:
        """The leases of runners: token and end."""
        locks = self.look(self.clients[0].store.locks, "locks()")
        return [(lock.token, lock.expires_at) for lock in locks if sources.reserved(lock.name)]

    async def _until_fired(self, tasks: list[asyncio.Task[Answer]]) -> None:
        store = self.clients[0].store

        async def quiet() -> bool:
            leads = any(sources.reserved(lock.name) for lock in await store.locks())
            due = [s for s in await store.schedules() if s.next_fire_at <= self.now]
            return leads and not due

        # No wake tells that a runner has done its work: it is looked for.
        try:
            async with asyncio.timeout(actors.PATIENCE_SECONDS):
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
        answer = self.run(settled(task, "run_schedules()"))
        self.add(raised(answer, LeadershipLost, "run_schedules()"))
        self.same_schedules(self.clients[0])


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
