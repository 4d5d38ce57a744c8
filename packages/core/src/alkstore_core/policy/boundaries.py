"""Which boundaries of a schedule have passed."""

from __future__ import annotations

from typing import NamedTuple

from alkstore_core.integers import I64_MAX

MAX_CATCH_UP = 64


class Due(NamedTuple):
    """The boundaries to fire now, ascending, and the first one after now."""

    fires: tuple[int, ...]
    next_fire_at: int


def due_boundaries(next_fire_at: int, interval: int, now: int, cap: int = MAX_CATCH_UP) -> Due:
    """Every boundary up to and including `now`, at most the `cap` earliest; the rest is skipped.

    `interval` is seconds, above 0. The rhythm is kept: boundaries stay whole intervals apart.
    A boundary at the end of the i64 range means never, so saturating cannot fire one twice.
    """
    if next_fire_at > now or next_fire_at >= I64_MAX:
        return Due((), next_fire_at)
    passed = (now - next_fire_at) // interval + 1
    fires = tuple(next_fire_at + step * interval for step in range(min(passed, cap)))
    return Due(fires, min(next_fire_at + passed * interval, I64_MAX))
