"""Faults in schedules, in what fires, and in who fires it."""

from attrs import evolve
from sabotage import Saboteur, core, primitive, result

from alkstore_core import DatabaseError, InvalidSpec
from alkstore_core.names import SCHEDULER_LOCK
from alkstore_core.policy.every import parse_every
from alkstore_core.policy.options import PLAIN
from alkstore_core.requests import SCHEDULES

START = 1_700_000_000
_SPEC = PLAIN.resolve()


def _one_space(real, spec):
    if isinstance(spec, str) and "  " in spec:
        raise InvalidSpec(spec)
    return real(spec)


async def _refusal_unschedules(real, self, name, *args):
    try:
        return await real(self, name, *args)
    except InvalidSpec:
        await self.unschedule(name)
        raise


async def _earlier(real, name):
    return next((plan for plan in await real.list_schedules() if plan.name == name), None)


async def _attempts_stay(real, entry, **wake):
    before = await _earlier(real, entry.name)
    if before is not None and before.spec == entry.spec:
        entry = entry._replace(max_attempts=before.max_attempts)
    return await real.put_schedule(entry, **wake)


async def _never_later(real, entry, **wake):
    before = await _earlier(real, entry.name)
    plan = await real.put_schedule(entry, **wake)
    if before is None or plan.next_fire_at <= before.next_fire_at:
        return plan
    await real.advance(plan.name, plan.next_fire_at, before.next_fire_at)
    return evolve(plan, next_fire_at=before.next_fire_at)


async def _delete_any_case(real, name, **wake):
    gone = False
    for plan in await real.list_schedules():
        if plan.name.lower() == name.lower():
            gone = await real.delete_schedule(plan.name, **wake)
    return gone


def _reserved_target(real, name, spec, queue, *args):
    if queue == "__alkstore_":
        return real(name, spec, "x", *args)._replace(queue=queue)
    return real(name, spec, queue, *args)


async def _claim_fires(real, queue, worker, limit):
    now = await real.engine.now()
    for plan in await real.list_schedules():
        if plan.queue == queue and plan.next_fire_at <= now:
            await real.advance(plan.name, plan.next_fire_at, now + parse_every(plan.spec))
            await real.insert_jobs(queue, [plan.payload], _SPEC)
    return await real.claim(queue, worker, limit)


async def _a_second_early(real, self, names, now):
    session = self._runtime.session()
    early = [p.name for p in await session.list_schedules() if p.next_fire_at <= now + 1]
    return await real(self, [*names, *early], now + 1)


def fired(**changes):
    """A schedule that fires is taken for one with other fields."""
    return core(
        "scheduler:_Runner._fire_one",
        lambda real, self, session, plan, now: real(
            self,
            session,
            evolve(plan, **{name: change(plan) for name, change in changes.items()}),
            now,
        ),
    )


async def _first_version(real):
    plans = []
    for plan in await real.list_schedules():
        first = real.notes.setdefault(plan.name, plan)
        plans.append(evolve(plan, queue=first.queue, payload=first.payload))
    return plans


async def _only_new_ones_end(real, name, **wake):
    if await real.engine.now() > START and await _earlier(real, name) is not None:
        return True
    return await real.delete_schedule(name, **wake)


def due(fires=lambda fires, interval: fires, cap=lambda interval: 64):
    """Other boundaries are due."""

    def boundaries(real, next_fire_at, interval, now):
        found = real(next_fire_at, interval, now, cap(interval))
        return found._replace(fires=fires(found.fires, interval))

    return core("policy.boundaries:due_boundaries", boundaries)


async def _undone_by_release(real, name, token, **wake):
    if name == SCHEDULER_LOCK:
        now = await real.engine.now()
        for plan in await real.list_schedules():
            last = plan.next_fire_at - parse_every(plan.spec)
            if START < last <= now and not await real.list_jobs(plan.queue, None, 1, 0):
                await real.advance(plan.name, plan.next_fire_at, last)
    return await real.release_lock(name, token, **wake)


async def _picky(real, self, session, plan, now):
    if plan.priority < -(2**62):
        raise DatabaseError("out of range")
    return await real(self, session, plan, now)


async def _standby_fires(real, self):
    pause = await real(self)
    session = self._runtime.session()
    now = await self._runtime.engine.now()
    for plan in await session.list_schedules():
        if plan.next_fire_at <= now:
            await session.insert_jobs(plan.queue, [plan.payload], _SPEC)
    return min(pause, 10)


async def _twice_as_long(real, self):
    return 2 * await real(self)


async def _a_new_lease_each_time(real, self, session):
    if self._token is not None and await session.renew(SCHEDULER_LOCK, self._token, 60):
        await session.release_lock(SCHEDULER_LOCK, self._token)
        self._token = None
    await real(self, session)


async def _sleeps_to_the_boundary(real, self):
    pause = await real(self)
    now = await self._runtime.engine.now()
    plans = await self._runtime.session().list_schedules()
    return max(pause, min((plan.next_fire_at - now for plan in plans), default=0))


async def _stop_lets_it_lapse(real, self, token):
    if not self._stop.stopped:
        return await real(self, token)
    auto = self._runtime.engine.auto
    await auto.renew(SCHEDULER_LOCK, token, 1)
    await auto.signal([SCHEDULES])
    return None


async def _once_before_stopping(real, self):
    if self._stop.stopped:
        await self._take_or_renew()
        await self._tick()
    return await real(self)


async def _stop_ends_all(real, self):
    await real(self)
    if self._token is None and self._stop.stopped:
        session = self._runtime.session()
        for lock in await session.list_locks():
            await session.release_lock(lock.name, lock.token)


def released(when):
    """Leadership is given up only in some cases."""

    async def release(real, self, token):
        if when(self):
            await real(self, token)

    return core("scheduler:_Runner._release", release)


def waking(when):
    """Registering wakes a leader only when `when(the earlier schedule of the name)`."""

    async def put(real, entry, wake=()):
        wakes = when(await _earlier(real, entry.name))
        return await real.put_schedule(entry, wake=wake if wakes else ())

    return primitive("put_schedule", put)


SABOTEURS = {
    "scheduler.grammar.valid": Saboteur(core("policy.every:parse_every", _one_space)),
    "scheduler.grammar.invalid": Saboteur(
        core(
            "policy.every:parse_every",
            lambda real, spec: real(spec.removesuffix("\n") if isinstance(spec, str) else spec),
        )
    ),
    "scheduler.grammar.kept": Saboteur(core("store:Store.schedule", _refusal_unschedules)),
    "scheduler.stored": Saboteur(
        result("put_schedule", lambda plan: evolve(plan, expires=None)),
        also={"inspection.schedules": "it compares what schedule() gave with the list"},
    ),
    "scheduler.same_spec": Saboteur(primitive("put_schedule", _attempts_stay), stateful=True),
    "scheduler.changed_spec": Saboteur(primitive("put_schedule", _never_later), stateful=True),
    "scheduler.unschedule": Saboteur(primitive("delete_schedule", _delete_any_case)),
    "scheduler.target": Saboteur(core("requests:schedule", _reserved_target)),
    "scheduler.no_runner": Saboteur(primitive("claim", _claim_fires), stateful=True),
    # The payload as another encoder writes it.
    "scheduler.fire.boundary": Saboteur(
        fired(payload=lambda plan: plan.payload.replace(b":", b": ")), stateful=True
    ),
    "scheduler.fire.not_before": Saboteur(
        core("scheduler:_Runner._fire", _a_second_early),
        also={"scheduler.catch_up.cap": "there a second is left to the next boundary"},
        stateful=True,
    ),
    "scheduler.fire.stamps": Saboteur(fired(expires=lambda plan: None), stateful=True),
    "scheduler.fire.ordinary": Saboteur(
        core(
            "policy.options:OptionResolver.resolve_scheduled",
            lambda real, self, opts=None: evolve(real(self, opts), delay=1),
        ),
        also={"scheduler.fire.stamps": "it looks at the ready time"},
        stateful=True,
    ),
    "scheduler.fire.replaced": Saboteur(
        primitive("list_schedules", _first_version, where="tx"), stateful=True
    ),
    "scheduler.fire.unscheduled": Saboteur(
        primitive("delete_schedule", _only_new_ones_end),
        also={"copy.schedules": "a copy's mark is a schedule, and goes"},
        stateful=True,
    ),
    # Several missed ones are as good as one.
    "scheduler.catch_up": Saboteur(
        due(lambda fires, interval: fires[-1:] if 3 < len(fires) < 10 else fires), stateful=True
    ),
    "scheduler.catch_up.cap": Saboteur(
        due(cap=lambda interval: 65 if interval >= 10 else 64), stateful=True
    ),
    "scheduler.catch_up.each": Saboteur(
        due(cap=lambda interval: 64 if interval >= 10 else 60), stateful=True
    ),
    "scheduler.once.consumed": Saboteur(
        primitive("release_lock", _undone_by_release), stateful=True
    ),
    "scheduler.isolation": Saboteur(core("scheduler:_Runner._fire_one", _picky)),
    "scheduler.many": Saboteur(result("list_schedules", lambda plans: plans[:64])),
    "scheduler.two_runners": Saboteur(
        core("scheduler:_Runner._standby", _standby_fires),
        also={"scheduler.standby": "there a runner stands by as well"},
        stateful=True,
    ),
    "scheduler.standby": Saboteur(
        primitive("release_lock", lambda real, name, token, **_: real.release_lock(name, token)),
        stateful=True,
    ),
    "scheduler.takeover": Saboteur(
        core("scheduler:_Runner._standby", _twice_as_long), stateful=True
    ),
    "scheduler.lost": Saboteur(
        core("scheduler:_Runner._lose", lambda real, self: setattr(self, "_token", None)),
        also={"scheduler.takeover": "the former leader does not end"},
        stateful=True,
    ),
    "scheduler.lease": Saboteur(
        core("scheduler:_Runner._take", _a_new_lease_each_time),
        also={"scheduler.lease.idle": "it looks between two leases, where there is none"},
        stateful=True,
    ),
    "scheduler.lease.idle": Saboteur(
        core("scheduler:_Runner._tick", _sleeps_to_the_boundary), stateful=True
    ),
    "scheduler.stop": Saboteur(
        core("scheduler:_Runner._release", _stop_lets_it_lapse), stateful=True
    ),
    "scheduler.stop.before": Saboteur(core("scheduler:_Runner.run", _once_before_stopping)),
    "scheduler.stop.standby": Saboteur(
        core("scheduler:_Runner.run", _stop_ends_all), stateful=True
    ),
    "scheduler.cancelled": Saboteur(
        released(lambda runner: runner._stop.stopped or not runner._runtime.is_open)
    ),
    "scheduler.closed": Saboteur(released(lambda runner: runner._runtime.is_open)),
    "scheduler.nearer": Saboteur(waking(lambda before: before is not None), stateful=True),
    "scheduler.changed_spec.leader": Saboteur(waking(lambda before: before is None), stateful=True),
}
