"""Schedules: which boundaries are due, and what each of them enqueues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from alkstore_contract.model.numbers import LAST, later

if TYPE_CHECKING:
    from alkstore_contract.model.jobs import Options


@frozen
class Schedule:
    """A job for `queue` at each boundary; boundaries lie `every` seconds apart."""

    name: str
    spec: str
    every: int
    queue: str
    payload: bytes
    options: Options
    next_fire_at: int


class Schedules:
    """All schedules of a database, by name."""

    def __init__(self) -> None:
        self.all: dict[str, Schedule] = {}

    def copy(self) -> Schedules:
        """The same schedules, apart."""
        other = Schedules()
        other.all = dict(self.all)
        return other

    def put(self, now: int, wanted: Schedule) -> Schedule:
        """Insert or replace. The same spec keeps the rhythm; a new one starts it now."""
        known = self.all.get(wanted.name)
        first = later(now, wanted.every)
        keep = known is not None and known.spec == wanted.spec
        at = known.next_fire_at if keep and known is not None else first
        self.all[wanted.name] = evolve(wanted, next_fire_at=at)
        return self.all[wanted.name]

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        return self.all.pop(name, None) is not None

    def due(self, now: int) -> list[Schedule]:
        """Those with a boundary that has come. The last second of the range means never."""
        return [s for s in self.all.values() if s.next_fire_at <= now and s.next_fire_at < LAST]

    def tick(self, now: int) -> list[tuple[Schedule, int]]:
        """Fire what is due: each such schedule, and how many jobs it enqueues.

        One job for each boundary up to now, 64 at most; the next boundary lies after now, still
        whole intervals away from the first.
        """
        fired = []
        for schedule in self.due(now):
            passed = (now - schedule.next_fire_at) // schedule.every + 1
            following = later(schedule.next_fire_at, passed * schedule.every)
            self.all[schedule.name] = evolve(schedule, next_fire_at=following)
            fired.append((schedule, min(passed, 64)))
        return fired
