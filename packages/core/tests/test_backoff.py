"""Backoff: equal jitter below a doubling curve, capped at an hour."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.policy.backoff import backoff_delay

CURVE = [
    (5, 1, 2, 5),
    (5, 2, 5, 10),
    (5, 3, 10, 20),
    (5, 10, 1280, 2560),
    (5, 11, 1800, 3600),
    (1, 1, 0, 1),
    (1, 12, 1024, 2048),
    (1, 13, 1800, 3600),
    (3600, 1, 1800, 3600),
    (3601, 1, 1800, 3600),
    (7, 1, 3, 7),
    (9_223_372_036_854_775_807, 1, 1800, 3600),
    (5, 9_223_372_036_854_775_807, 1800, 3600),
    (5, 0, 2, 5),
]


class Ends(random.Random):
    """A source that tells which range it was asked for."""

    def randint(self, a, b):
        """Note the range, give its end."""
        self.asked = (a, b)
        return b


@pytest.mark.parametrize(("base", "attempt", "low", "high"), CURVE)
def test_the_range_doubles_up_to_an_hour(base, attempt, low, high):
    """The delay is drawn from `[d // 2, d]` with `d = min(3600, base * 2**(k-1))`."""
    source = Ends()
    assert backoff_delay(base, attempt, source) == high
    assert source.asked == (low, high)


@pytest.mark.parametrize("base", [0, -1, -9_223_372_036_854_775_808])
@pytest.mark.parametrize("attempt", [1, 50])
def test_no_base_no_delay(base, attempt):
    """A base of 0 or less does not wait."""
    assert backoff_delay(base, attempt) == 0


def test_every_delay_of_the_range_occurs():
    """Both ends and all between are drawn."""
    source = random.Random(1)
    assert {backoff_delay(5, 1, source) for _ in range(300)} == {2, 3, 4, 5}


def test_equal_sources_give_equal_delays():
    """The random source is injectable, so a test can know the delay."""
    first = [backoff_delay(100, k, random.Random(3)) for k in range(1, 9)]
    assert [backoff_delay(100, k, random.Random(3)) for k in range(1, 9)] == first


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_a_delay_is_at_most_an_hour(base, attempt):
    """Whatever base and attempt, the delay is a whole number of seconds from 0 to 3,600."""
    delay = backoff_delay(base, attempt)
    assert type(delay) is int
    assert 0 <= delay <= 3600
