"""Durations and times as people write them."""

from datetime import UTC, datetime

import click
import pytest

from alkstore_core import CodecError
from alkstore_core.cli.params import (
    I64,
    LIMIT,
    OFFSET,
    Header,
    Integer,
    Moment,
    Number,
    Past,
    PastMoment,
    Seconds,
    typed_payload,
)


def test_a_payload_without_its_quotes_is_told_of_them():
    """The shell takes one pair away, and JSON needs its own."""
    assert {"to": "ada"} == typed_payload(b'{"to": "ada"}')
    with pytest.raises(
        CodecError, match=r"""at character 0; a payload is JSON.*'"ada"' for a text"""
    ):
        typed_payload(b"ada")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7_200), ("7d", 604_800)],
)
def test_durations(text, seconds):
    """A number with a unit, or seconds."""
    assert seconds == Seconds().convert(text, None, None)


@pytest.mark.parametrize("text", ["", "-1", "1.5h", "5 m", "1w", "٣", "9" * 18 + "d"])
def test_other_durations_are_usage_errors(text):
    """Also one that no database could store."""
    with pytest.raises(click.BadParameter, match="no duration"):
        Seconds().convert(text, None, None)


def test_a_duration_may_have_to_last():
    """A claim of 0 seconds is a wrong command line, and nothing that the database refuses."""
    assert 1 == Seconds(least=1).convert("1s", None, None)
    with pytest.raises(click.BadParameter, match="less than 1 s"):
        Seconds(least=1).convert("0m", None, None)


@pytest.mark.parametrize(
    "text", ["1769860800", "2026-01-31T12:00Z", "2026-01-31T12:00", "2026-01-31T13:00+01:00"]
)
def test_moments(text):
    """Unix seconds and ISO 8601, in UTC unless it says otherwise."""
    moment = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp())

    assert moment == Moment().convert(text, None, None)


def test_a_duration_as_a_moment_is_so_long_ago():
    """`7d` is seven days before the time of the store; what is no duration stands by itself."""
    assert Past(604_800, ago=True) == PastMoment().convert("7d", None, None)
    assert 2_000_000 - 604_800 == PastMoment().convert("7d", None, None).at(2_000_000)
    assert 7 == PastMoment().convert("7", None, None).at(2_000_000)
    with pytest.raises(click.BadParameter, match=r"unix seconds.*, or 7d for seven days ago"):
        PastMoment().convert("yesterday", None, None)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "-5", "7d"])
def test_other_moments_are_usage_errors(text):
    """The error says what would do."""
    with pytest.raises(click.BadParameter, match="unix seconds"):
        Moment().convert(text, None, None)


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (I64, "x", "'x' is no whole number"),
        (I64, "1.5", "'1.5' is no whole number"),
        (I64, "9223372036854775808", "it has to be below 2**63"),
        (I64, "-9223372036854775809", "it has to be -2**63 or more"),
        (OFFSET, "-1", "-1 is out of range: it has to be 0 or more"),
        (LIMIT, "0", "0 is out of range: it has to be from 1 to 10000"),
        (LIMIT, "10001", "10001 is out of range: it has to be from 1 to 10000"),
        (Number(0.2, 3600), "x", "'x' is no number"),
        (Number(0.2, 3600), "nan", "nan is out of range: it has to be from 0.2 to 3600"),
        (Number(0.1, 86_400), "1e9", "1e9 is out of range: it has to be from 0.1 to 86400"),
        (Integer(1), "0", "0 is out of range: it has to be 1 or more"),
    ],
)
def test_a_number_that_will_not_do_is_told_the_rule(kind, text, told):
    """In words, and not as the range of a programming language."""
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)
    assert caught.value.message.endswith(told)


def test_whole_numbers():
    """The bounds are in."""
    assert [1, 10_000] == [LIMIT.convert(text, None, None) for text in ("1", "10000")]
    bounds = [-(2**63), 2**63 - 1]
    assert bounds == [I64.convert(str(bound), None, None) for bound in bounds]
    assert "INTEGER" == I64.name.upper()


def test_headers():
    """A name, and after the first equals sign its value."""
    assert ("trace", "a=b") == Header().convert("trace=a=b", None, None)
    with pytest.raises(click.BadParameter, match="name=value"):
        Header().convert("trace", None, None)
