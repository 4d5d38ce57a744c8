"""The runner that fires schedules: one leader among all, and what it does at each tick."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
import uuid
from typing import TYPE_CHECKING, Final

from alkstore_core.errors import AlkstoreError, Closed, DatabaseError, LeadershipLost
from alkstore_core.integers import I64_MAX
from alkstore_core.names import SCHEDULER_LOCK, check_name
from alkstore_core.opentx import begin, spent
from alkstore_core.policy.boundaries import due_boundaries
from alkstore_core.policy.every import parse_every
from alkstore_core.policy.options import PLAIN
from alkstore_core.requests import SCHEDULES
from alkstore_core.runtime import quietly
from alkstore_core.spi import APART, Fired, Topic
from alkstore_core.values import ScheduleOpts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session, Subscription
    from alkstore_core.stop import StopToken
    from alkstore_core.values import Schedule

_log = logging.getLogger(__name__)

LEASE_S: Final = 60
RENEW_S: Final = LEASE_S // 3
GROUP: Final = 50
"""Schedules fired in one transaction: few commits, and no long hold of the writer."""

RETRY_S: Final = 1.0
"""Real seconds between tries while the database does not answer."""


async def run_schedules(runtime: Runtime, stop: StopToken) -> None:
    """Stand by, lead, fire; until stopped."""
    runtime.session()
    # The loop below would take it for an outage and try again.
    runtime.slot.check("run_schedules", "run it in another task")
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    runtime.runners.add(ended)
    try:
        subscription = await runtime.engine.signals.subscribe(SCHEDULES)
        bell = _Bell(runtime, subscription, stop)
        apart = APART.set(True)
        try:
            await _Runner(runtime, stop, bell).run()
        finally:
            APART.reset(apart)
            bell.close()
    finally:
        runtime.runners.discard(ended)
        ended.set_result(None)


class _Bell:
    """Rings when a schedule was added, on stop, and when the store closes."""

    def __init__(self, runtime: Runtime, subscription: Subscription, stop: StopToken) -> None:
        self._runtime = runtime
        self._subscription = subscription
        self._rung = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._forward()), loop.create_task(self._end_on(stop)))
        self.closed = False
        runtime.receivers.add(self)

    def end(self) -> None:
        self.closed = True
        self._rung.set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._subscription.close()

    async def wait(self, mark: float, seconds: int) -> None:
        """Until it rings, or so many seconds of the engine's time have passed since `mark`."""
        sleeping = self._runtime.sleep_since(mark, seconds)
        sleeper = asyncio.get_running_loop().create_task(sleeping)
        sleeper.add_done_callback(self._ring)
        try:
            await self._rung.wait()
        finally:
            sleeper.remove_done_callback(self._ring)
            sleeper.cancel()
        self._rung.clear()

    async def wait_real(self, seconds: float) -> None:
        """Until it rings, or real time has passed: when the engine does not answer."""
        alarm = asyncio.get_running_loop().call_later(seconds, self._rung.set)
        try:
            await self._rung.wait()
        finally:
            alarm.cancel()
        self._rung.clear()

    def _ring(self, _: object) -> None:
        self._rung.set()

    async def _forward(self) -> None:
        while await self._subscription.wait() is not Fired.CLOSED:
            self._rung.set()
        self.end()

    async def _end_on(self, stop: StopToken) -> None:
        await stop.wait()
        self._rung.set()


class _Runner:
    def __init__(self, runtime: Runtime, stop: StopToken, bell: _Bell) -> None:
        self._runtime = runtime
        self._stop = stop
        self._bell = bell
        self._owner = f"{platform.node()[:64]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._token: int | None = None
        self._told: set[str] = set()
        self._reached = time.monotonic()

    async def run(self) -> None:
        try:
            while not self._stop.stopped:
                mark = self._runtime.mark()
                try:
                    await self._take_or_renew()
                    self._reached = time.monotonic()
                    pause = await (self._standby() if self._token is None else self._tick())
                except DatabaseError as error:
                    # A short outage does not end a runner; one that outlasts the lease does.
                    if time.monotonic() - self._reached > LEASE_S:
                        self._give_up(error)
                    _log.warning("the scheduler tries again: %s", error)
                    await self._bell.wait_real(RETRY_S)
                else:
                    await self._bell.wait(mark, pause)
                if self._bell.closed and not self._stop.stopped:
                    self._runtime.session()
                    raise Closed("the store's wakes have ended")
        finally:
            if self._token is not None:
                await quietly(self._runtime.finish(self._release(self._token)))

    async def _take_or_renew(self) -> None:
        if self._runtime.slot.taken:
            await self._runtime.turn("run_schedules", urgent=True)
        # Its end is waited for, also by a cancelled runner: a lease that it took without knowing
        # would keep every other one standing by until it lapses.
        await self._runtime.finish(self._take(self._runtime.session()))

    async def _take(self, session: Session) -> None:
        if self._token is None:
            self._token = await session.acquire(SCHEDULER_LOCK, self._owner, LEASE_S)
        elif not await session.renew(SCHEDULER_LOCK, self._token, LEASE_S):
            self._lose()

    async def _standby(self) -> int:
        """Seconds until the leader's lease lapses, unless it renews or releases it."""
        now = await self._runtime.engine.now()
        for lock in await self._runtime.session().list_locks():
            if lock.name == SCHEDULER_LOCK:
                return min(lock.expires_at + 1 - now, LEASE_S)
        return 0

    async def _tick(self) -> int:
        """Fire what is due; seconds until something has to be done again."""
        session = self._runtime.session()
        now = await self._runtime.engine.now()
        schedules = await session.list_schedules()
        due = [schedule.name for schedule in schedules if schedule.next_fire_at <= now]
        pause = min(
            (s.next_fire_at - now for s in schedules if s.next_fire_at > now), default=RENEW_S
        )
        pause = min(pause, RENEW_S)
        for start in range(0, len(due), GROUP):
            if self._renewal_due():
                return 0
            pause = min(pause, await self._fire_group(due[start : start + GROUP], now))
        return pause

    async def _fire_group(self, names: list[str], now: int) -> int:
        """Fire several schedules; if that fails, each by itself, so that one stops no other."""
        groups = [names]
        pause = RENEW_S
        while groups:
            if self._renewal_due():
                return 0
            group = groups.pop()
            try:
                following = await self._fire(group, now)
            except DatabaseError as error:
                if len(group) > 1:
                    groups = [[name] for name in group]
                else:
                    _log.warning("schedule %r did not fire: %s", group[0], error)
            else:
                pause = min(pause, following - now)
        return pause

    async def _fire(self, names: Iterable[str], now: int) -> int:
        """Fire in one transaction with a check of the lease; the nearest boundary thereafter."""
        tx = await begin(self._runtime)
        try:
            async with tx as session:
                if not await session.holds(SCHEDULER_LOCK, self._token or 0):
                    self._lose()
                wanted = set(names)
                following = now + RENEW_S
                for schedule in await session.list_schedules():
                    if schedule.name in wanted:
                        next_look = await self._fire_one(session, schedule, now)
                        following = min(following, next_look)
            await tx.commit()
        except BaseException:
            await quietly(tx.end(spent("rolled back, because its tick failed")))
            raise
        return following

    async def _fire_one(self, session: Session, schedule: Schedule, now: int) -> int:
        """Fire what is due of one schedule; when to look at it again."""
        try:
            queue = check_name("queue", schedule.queue)
            spec = PLAIN.resolve_scheduled(
                ScheduleOpts(
                    priority=schedule.priority,
                    max_attempts=schedule.max_attempts,
                    expires=schedule.expires,
                    headers=schedule.headers,
                )
            )
            due = due_boundaries(schedule.next_fire_at, parse_every(schedule.spec), now)
        except AlkstoreError as error:
            # A row of a later version, or one that somebody wrote by hand.
            if schedule.name not in self._told:
                self._told.add(schedule.name)
                _log.warning("schedule %r cannot fire: %s", schedule.name, error)
            return I64_MAX
        if not due.fires:
            return due.next_fire_at
        if not await session.advance(schedule.name, schedule.next_fire_at, due.next_fire_at):
            # Whoever changed or fired it meanwhile has moved the time we expected.
            return now
        payloads = [schedule.payload] * len(due.fires)
        await session.insert_jobs(queue, payloads, spec, wake=(Topic("queue", queue),))
        return due.next_fire_at

    def _renewal_due(self) -> bool:
        return time.monotonic() - self._reached > RENEW_S

    def _lose(self) -> None:
        self._token = None
        raise LeadershipLost("the scheduler's lease is gone; nothing was fired since")

    def _give_up(self, error: DatabaseError) -> None:
        if self._token is None:
            raise error
        raise LeadershipLost("the database did not answer for longer than the lease") from error

    async def _release(self, token: int) -> None:
        # Not through `turn` and `session`: a store that is closing waits for just this.
        if self._runtime.slot.taken:
            await self._runtime.slot.turn("releasing the lease", "wait", urgent=True)
        auto = self._runtime.engine.auto
        await auto.release_lock(SCHEDULER_LOCK, token, wake=(SCHEDULES,))
