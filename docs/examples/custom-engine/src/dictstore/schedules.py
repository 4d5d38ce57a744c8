# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Schedules: what is to be enqueued when. Core fires them; wakes of channels are here too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_core import Schedule
from alkstore_core.headers import decode_headers
from alkstore_core.integers import saturating_add
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.spi import ScheduleEntry, Topic


class SchedulePart(Part):
    """What the scheduler and those who give it work do."""

    async def put_schedule(self, entry: ScheduleEntry, *, wake: Sequence[Topic] = ()) -> Schedule:
        schedules = (await self.change()).schedules
        known = schedules.get(entry.name)
        if known is not None and known.spec == entry.spec:
            next_fire_at = known.next_fire_at
        else:
            next_fire_at = saturating_add(self.now(), entry.every)
        schedule = schedules[entry.name] = Schedule(
            name=entry.name,
            spec=entry.spec,
            queue=entry.queue,
            payload=entry.payload,
            priority=entry.priority,
            max_attempts=entry.max_attempts,
            expires=entry.expires,
            headers=decode_headers(entry.headers),
            next_fire_at=next_fire_at,
        )
        self.wake(wake)
        return schedule

    async def delete_schedule(self, name: str, *, wake: Sequence[Topic] = ()) -> bool:
        schedules = (await self.change()).schedules
        if name not in schedules:
            return False
        del schedules[name]
        self.wake(wake)
        return True

    async def list_schedules(self) -> list[Schedule]:
        schedules = (await self.view()).schedules
        return [schedules[name] for name in sorted(schedules)]

    async def advance(self, name: str, expected_fire_at: int, next_fire_at: int) -> bool:
        schedules = (await self.change()).schedules
        schedule = schedules.get(name)
        if schedule is None or schedule.next_fire_at != expected_fire_at:
            return False
        schedules[name] = evolve(schedule, next_fire_at=next_fire_at)
        return True

    async def signal(self, topics: Sequence[Topic]) -> None:
        await self.change()
        self.wake(topics)
