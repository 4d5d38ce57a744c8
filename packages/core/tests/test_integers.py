"""Integers: i64 or an error before storage."""

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.errors import DatabaseError
from alkstore_core.integers import check_class, check_duration, check_i64, saturating_add
from alkstore_core.values import EnqueueOpts, QueueOpts


class Priority(enum.IntEnum):
    """An int that is more than one."""

    HIGH = 7


@pytest.mark.parametrize("value", [0, 1, -1, 9_223_372_036_854_775_807, -9_223_372_036_854_775_808])
def test_every_i64_passes(value):
    """Both ends of the range and what lies between come back."""
    assert check_i64("n", value) == value


def test_an_enum_member_becomes_a_plain_int():
    """Drivers get an int, not a subclass of it."""
    assert check_i64("priority", Priority.HIGH) == 7
    assert type(check_i64("priority", Priority.HIGH)) is int


@pytest.mark.parametrize("value", [True, False, 1.0, float("nan"), "1", None, b"1", [1]])
def test_what_is_no_int_is_refused(value):
    """Bools, floats and the rest are a `DatabaseError` caused by a `TypeError`."""
    with pytest.raises(DatabaseError) as caught:
        check_i64("limit", value)
    assert isinstance(caught.value.__cause__, TypeError)
    assert str(caught.value) == f"limit must be an int, not {type(value).__name__}"


@pytest.mark.parametrize(
    "value",
    [9_223_372_036_854_775_808, -9_223_372_036_854_775_809, 10**5000, -(10**5000)],
    ids=["above", "below", "far above", "far below"],
)
def test_what_is_out_of_range_is_refused(value):
    """A wider int is a `DatabaseError` caused by an `OverflowError`, however many digits."""
    with pytest.raises(DatabaseError) as caught:
        check_i64("delay", value)
    assert isinstance(caught.value.__cause__, OverflowError)
    assert str(caught.value) == "delay must lie within -2**63 and 2**63-1"


@pytest.mark.parametrize("value", [0, -1, -9_223_372_036_854_775_808])
def test_a_duration_of_nothing_is_refused(value):
    """Durations of 0 or less are a `DatabaseError` with the detail in its cause."""
    with pytest.raises(DatabaseError) as caught:
        check_duration("ttl", value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert str(caught.value) == f"ttl must be at least 1 second, not {value}"


@pytest.mark.parametrize("value", [True, 1.5, "1", 9_223_372_036_854_775_808])
def test_a_duration_is_an_i64(value):
    """Durations follow the rules of integers first."""
    with pytest.raises(DatabaseError):
        check_duration("ttl", value)


def test_a_positive_duration_passes():
    """One second and the longest there is come back."""
    assert check_duration("ttl", 1) == 1
    assert check_duration("ttl", 9_223_372_036_854_775_807) == 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (2, 3, 5),
        (9_223_372_036_854_775_807, 1, 9_223_372_036_854_775_807),
        (9_223_372_036_854_775_807, 9_223_372_036_854_775_807, 9_223_372_036_854_775_807),
        (-9_223_372_036_854_775_808, -1, -9_223_372_036_854_775_808),
        (9_223_372_036_854_775_807, -9_223_372_036_854_775_808, -1),
    ],
)
def test_sums_saturate(a, b, total):
    """A sum that leaves the range stays at its end."""
    assert saturating_add(a, b) == total


@pytest.mark.parametrize(("wanted", "told"), [(EnqueueOpts, "an EnqueueOpts"), (QueueOpts, "a Qu")])
def test_another_class_is_told_in_english(wanted, told):
    """With the article that the name of the class takes."""
    with pytest.raises(DatabaseError, match=f"opts must be {told}.*, not dict"):
        check_class("opts", {}, wanted)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_sums_never_leave_the_range(a, b):
    """Whatever is added, the sum is an i64."""
    assert -9_223_372_036_854_775_808 <= saturating_add(a, b) <= 9_223_372_036_854_775_807
