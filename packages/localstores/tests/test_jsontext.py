"""Stored JSON is the same text whoever writes it."""

import json
import math
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alkstore_localstores import LocalStoreError
from alkstore_localstores.drivers import find
from alkstore_localstores.jsontext import DEPTH_LIMIT, dumps, loads, parse, rewrite
from alkstore_localstores.owner.state import check_resource

texts = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | floats | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner))

NUMBER = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-])(\d+)")


def number(found):
    """A number with an exponent."""
    sign, first, rest, direction, exponent = found.groups()
    if direction == "-" and int(exponent) == 5:
        return f"{sign}0.0000{first}{rest or ''}"
    point = "" if rest is None else f".{rest}"
    return f"{sign}{first}{point}e{direction}{int(exponent)}"


def rewritten(value):
    """The rules of the format, applied to what `json.dumps` writes: floats stand apart."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and -(2**63) <= value <= 2**64 - 1:
        return str(value)
    if isinstance(value, (int, float)):
        return NUMBER.sub(number, json.dumps(float(value)))
    if isinstance(value, list):
        return f"[{','.join(map(rewritten, value))}]"
    members = (f"{rewritten(key)}:{rewritten(value[key])}" for key in sorted(value))
    return f"{{{','.join(members)}}}"


@given(values)
@example([0.00001, 1e-6, -1.5e-7, 1e16, 1e-4, -1e-5, 1.25e-5, 5e-324, 1.7976931348623157e308])
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300])
@example({"\U0001f600": 1, "\uffff": 2, "z": 3, "Z": 4, "": 5, "\x00": 6, "\x7f\u2028/": 7})
def test_text_follows_the_rules(value):
    """Compact, keys in order, non-ASCII raw, numbers as the other implementation writes them."""
    assert rewritten(value) == dumps(value)


@given(values)
@example([0.00001, 1e-6, "e-", {"b": -0.0, "a": 2**64}])
@example({"b": [[[]]], "a": "\x00\u2028"})
def test_what_was_parsed_is_written_the_same_faster(value):
    """Two ways, one text."""
    parsed = parse(json.dumps(value))
    assert dumps(parsed) == rewrite(parsed)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00001, "0.00001"),
        (-0.0000125, "-0.0000125"),
        (1e-6, "1e-6"),
        (-1.5e-7, "-1.5e-7"),
        (1e-10, "1e-10"),
        (1e-100, "1e-100"),
        (0.0001, "0.0001"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (-0.0, "-0.0"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e+19"),
        (-(2**63), "-9223372036854775808"),
        (-(2**63) - 1, "-9.223372036854776e+18"),
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        (
            '\x00\x1f\x7f"\\/\b\f\n\r\té\u2028😀',
            '"\\u0000\\u001f\x7f\\"\\\\/\\b\\f\\n\\r\\té\u2028😀"',
        ),
        ([], "[]"),
        ({}, "{}"),
        ((1, (2,)), "[1,[2]]"),
    ],
)
def test_text_of_a_value(value, text):
    """These very texts were seen in a store of the other implementation, or follow from them."""
    assert text == dumps(value)


@given(values)
def test_values_come_back(value):
    """What was written reads as the same value; integers beyond 64 bits as the nearest float."""

    def kept(value):
        if isinstance(value, list):
            return [kept(item) for item in value]
        if isinstance(value, dict):
            return {key: kept(item) for key, item in value.items()}
        beyond = type(value) is int and not -(2**63) <= value <= 2**64 - 1
        return float(value) if beyond else value

    assert repr(sorted_keys(kept(value))) == repr(loads(dumps(value)))


def sorted_keys(value):
    """The value as it comes back from where keys are sorted."""
    if isinstance(value, list):
        return [sorted_keys(item) for item in value]
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [math.inf],
        {"x": -math.inf},
        10**400,
        {1: "x"},
        {None: "x"},
        {"a": 1, 2: 3},
        b"bytes",
        Decimal(1),
        {1, 2},
        "\ud800",
        {"\udfff": 1},
        object(),
    ],
)
def test_what_is_no_json_is_refused(value):
    """Nothing is stored that would read as something else, or not at all."""
    with pytest.raises(LocalStoreError) as caught:
        dumps(value)
    assert "INVALID_INPUT" == caught.value.code


def nested(depth):
    """So many arrays in each other."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded():
    """The other implementation could not read what is nested deeper."""
    assert "[" * DEPTH_LIMIT in dumps(nested(DEPTH_LIMIT))
    assert dumps(nested(DEPTH_LIMIT)) == rewrite(nested(DEPTH_LIMIT))
    for write in (dumps, rewrite):
        for depth in (DEPTH_LIMIT + 1, 100_000):
            with pytest.raises(LocalStoreError, match="nested"):
                write(nested(depth))


def test_a_value_that_holds_itself_is_refused():
    """It has no end, so no text."""
    value = {}
    value["again"] = value
    with pytest.raises(LocalStoreError, match="nested"):
        dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        '"\\ud800"',
        '{"\\udc00":1}',
        "[" * 100_000,
        "'x'",
    ],
)
def test_broken_text_is_an_error(text):
    """A reader is told, whatever is wrong."""
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the json module's
        loads(text)


def test_negative_zero_stays():
    """An integer zero with a sign is the float, as the other implementation reads it."""
    assert "-0.0" == repr(loads("-0"))


def test_large_integers_read_as_floats():
    """As the other implementation reads them; beyond all floats they are an error."""
    assert [1.8446744073709552e19, 2**64 - 1] == loads(
        "[18446744073709551616,18446744073709551615]"
    )
    with pytest.raises(ValueError, match="range"):
        loads("9" * 400)


def test_stored_depth_is_bounded_on_reading_too():
    """What could not be sent on is not handed out: brackets in texts do not count."""
    assert nested(DEPTH_LIMIT) == loads("[" * DEPTH_LIMIT + "0" + "]" * DEPTH_LIMIT)
    empty = "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT
    assert empty == dumps(loads(empty))
    wide = "[" + ",".join(["{}"] * 1000) + "]"
    assert wide == dumps(loads(wide))
    assert "[" * 1000 == loads(f'"{"[" * 1000}"')
    for inner in ("0", ""):
        with pytest.raises(ValueError, match="nested"):
            loads("[" * (DEPTH_LIMIT + 1) + inner + "]" * (DEPTH_LIMIT + 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda huge: dumps({huge: 1}),
        check_resource,
        find,
    ],
    ids=["key", "resource", "driver"],
)
def test_an_integer_too_long_to_be_shown_is_still_our_error(call):
    """Python writes no integer of more than 4,300 digits."""
    with pytest.raises(LocalStoreError, match="too large to be shown") as caught:
        call(10**5000)
    assert caught.value.code == "INVALID_INPUT"
