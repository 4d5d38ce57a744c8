"""Boundaries: each passed one fires once, at most 64 at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.policy.boundaries import due_boundaries

LAST = 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("next_fire_at", "interval", "now", "fires", "then"),
    [
        (100, 10, 99, (), 100),
        (100, 10, 100, (100,), 110),
        (100, 10, 109, (100,), 110),
        (100, 10, 110, (100, 110), 120),
        (100, 10, 135, (100, 110, 120, 130), 140),
        (-15, 10, 0, (-15, -5), 5),
    ],
)
def test_passed_boundaries_fire_and_keep_the_rhythm(next_fire_at, interval, now, fires, then):
    """Every boundary up to and including now fires; the next is a whole interval later."""
    assert due_boundaries(next_fire_at, interval, now) == (fires, then)


def test_64_missed_boundaries_all_fire():
    """As many as the cap are caught up, none skipped."""
    due = due_boundaries(1000, 10, 1630)
    assert len(due.fires) == 64
    assert due.fires[-1] == 1630
    assert due.next_fire_at == 1640


def test_beyond_the_cap_it_skips_forward():
    """The earliest 64 fire, the others never; the next boundary lies after now, in rhythm."""
    due = due_boundaries(1000, 10, 101_005)
    assert len(due.fires) == 64
    assert due.fires[0] == 1000
    assert due.fires[-1] == 1630
    assert due.next_fire_at == 101_010


def test_the_cap_can_be_given():
    """A smaller cap fires fewer and skips as far."""
    assert due_boundaries(0, 1, 9, cap=2) == ((0, 1), 10)


def test_a_sum_past_the_range_saturates():
    """A next boundary beyond i64 stands at its end."""
    assert due_boundaries(100, LAST, 200) == ((100,), LAST)


def test_a_boundary_at_the_end_of_the_range_is_never():
    """What saturated does not fire, not even at that very second."""
    assert due_boundaries(LAST, 10, LAST) == ((), LAST)


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**40), st.integers(-(2**62), 2**62))
def test_nothing_fires_twice(next_fire_at, interval, now):
    """Asked again at the same time, nothing is due; fires are distinct, past and in rhythm."""
    fires, then = due_boundaries(next_fire_at, interval, now)
    assert due_boundaries(then, interval, now) == ((), then)
    assert then > now
    assert (then - next_fire_at) % interval == 0
    assert len(fires) <= 64
    assert list(fires) == sorted(set(fires))
    assert all(fire <= now for fire in fires)
