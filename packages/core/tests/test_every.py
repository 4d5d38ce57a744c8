"""The spec grammar: `@every <n><unit>` and nothing else."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.errors import InvalidSpec
from alkstore_core.policy.every import parse_every


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ("@every 1s", 1),
        ("@every 30s", 30),
        ("@every 15m", 900),
        ("@every 2h", 7200),
        ("@every 1d", 86_400),
        ("@every   5m", 300),
        ("@every 007s", 7),
        pytest.param("@every " + "0" * 5000 + "7s", 7, id="zeros"),
        ("@every 9223372036854775807s", 9_223_372_036_854_775_807),
        ("@every 153722867280912930m", 9_223_372_036_854_775_800),
        ("@every 106751991167300d", 9_223_372_036_854_720_000),
    ],
)
def test_the_grammar_gives_seconds(spec, seconds):
    """A legal spec is its interval in elapsed seconds, up to the end of i64."""
    assert parse_every(spec) == seconds


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "@every",
        "@every ",
        "@every5m",
        "@every 5",
        "@every m",
        "@every 0s",
        "@every 000d",
        "@every -1s",
        "@every +1s",
        "@every 1.5h",
        "@every 1_000s",
        "@every 5 m",
        "@every 5ms",
        "@every 5M",
        "@every 1h30m",
        "@Every 5m",
        " @every 5m",
        "@every 5m ",
        "@every 5m\n",
        "@every\n5m",
        "@every\t5m",
        "@every\u00a05m",
        "@every\u20035m",
        "@every \u0665m",
        "@every \uff15m",
        "@every \u00b2m",
        "@every 5m\0",
        "@every 9223372036854775808s",
        "@every 153722867280912931m",
        "@every 2562047788015216h",
        "@every 106751991167301d",
        pytest.param("@every " + "9" * 5000 + "s", id="nines"),
        "@hourly",
        "*/5 * * * *",
        "5m",
        None,
        5,
        b"@every 5m",
    ],
)
def test_all_else_is_an_invalid_spec(spec):
    """Other digits, spaces, units, signs, cron and overflow are refused."""
    with pytest.raises(InvalidSpec):
        parse_every(spec)


def test_the_error_names_the_grammar():
    """The message shows the spec and what would be one."""
    with pytest.raises(InvalidSpec) as caught:
        parse_every("*/5 * * * *")
    assert str(caught.value) == (
        "schedule spec '*/5 * * * *' is not '@every <n><unit>', such as '@every 15m', with n in "
        "ASCII digits above 0, unit one of s, m, h, d, and at most 2**63-1 seconds; cron "
        "expressions are not understood"
    )
    assert caught.value.spec == "*/5 * * * *"


def test_the_error_survives_pickling():
    """An unpickled error has the same spec and message."""
    copy = pickle.loads(pickle.dumps(InvalidSpec("@hourly")))
    assert (copy.spec, str(copy)) == ("@hourly", str(InvalidSpec("@hourly")))


@given(st.text(max_size=20))
def test_no_text_does_anything_but_parse_or_refuse(spec):
    """Any text gives an interval above 0 or `InvalidSpec`."""
    try:
        seconds = parse_every(f"@every {spec}")
    except InvalidSpec:
        return
    assert seconds > 0
