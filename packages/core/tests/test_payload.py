"""Payloads: what comes back equals what went in, or nothing is stored."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import sys
import threading
import typing

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.errors import CodecError
from alkstore_core.payload import decode_payload, encode_payload, structure


class Colour(enum.Enum):
    """An enum that equals no JSON value."""

    RED = "red"


class Level(enum.StrEnum):
    """An enum of strings."""

    LOW = "low"


class Size(enum.IntEnum):
    """An enum of ints."""

    BIG = 3


@attrs.frozen
class Line:
    """An attrs class."""

    sku: str
    count: int = 1
    tags: tuple[str, ...] = ()


@dataclasses.dataclass
class Order:
    """A data class with every kind of field."""

    lines: list[Line]
    colour: Colour
    level: Level
    placed: dt.datetime
    pair: tuple[int, str] = (1, "a")
    seen: set[int] = dataclasses.field(default_factory=set)
    by_sku: dict[str, Line] = dataclasses.field(default_factory=dict)
    note: str | None = None
    ratio: float = 0.5
    parent: "Order | None" = None


@attrs.define
class Node:
    """An attrs class that says nothing about its field."""

    child: typing.Any = None


ORDER = Order(
    lines=[Line("a", 2, ("x", "y")), Line("b")],
    colour=Colour.RED,
    level=Level.LOW,
    placed=dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    seen={7},
    by_sku={"a": Line("a")},
    parent=Order([], Colour.RED, Level.LOW, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
)


class Point(typing.NamedTuple):
    """A tuple with names."""

    x: int


def nested(levels):
    """Lists within lists."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, b"null"),
        (True, b"true"),
        (0, b"0"),
        ("", b'""'),
        ([], b"[]"),
        ({}, b"{}"),
        ({"b": 1, "a": [1, 2.5, None]}, b'{"b":1,"a":[1,2.5,null]}'),
        ("é🐙", b'"\xc3\xa9\xf0\x9f\x90\x99"'),
        ({"é": "/"}, b'{"\xc3\xa9":"/"}'),
        ('\0\n"\\', rb'"\u0000\n\"\\"'),
        (-0.0, b"-0.0"),
        (1e308, b"1e+308"),
        (1.0, b"1.0"),
        (2**70, b"1180591620717411303424"),
    ],
)
def test_the_bytes_are_compact_utf8(value, data):
    """No spaces, keys in their order, non-ASCII as it is; these exact bytes decode back."""
    assert encode_payload(value) == data
    assert repr(decode_payload(data)) == repr(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_round_trips(value):
    """The value, its types and the order of its keys come back."""
    assert repr(decode_payload(encode_payload(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "a float that is not finite, found at $ in"),
        ({"a": [1, float("-inf")]}, "a float that is not finite, found at $.a[1] in"),
        ("a\ud800", "a lone surrogate, found at $ in"),
        ({"\udfff": 1}, r"a lone surrogate, found at $['\udfff'] in"),
        ({1: "a"}, "a key of type int, found at $ in"),
        ({"a": {None: 1}}, "a key of type NoneType, found at $.a in"),
        ({True: 1}, "a key of type bool, found at $ in"),
        ((1, 2), "a value of type tuple, found at $ in"),
        ({"items": [0, 0, 0, {"price": (1,)}]}, "type tuple, found at $.items[3].price in"),
        (b"raw", "a value of type bytes, found at $ in"),
        (bytearray(), "a value of type bytearray, found at $ in"),
        ({1}, "a value of type set, found at $ in"),
        (frozenset(), "a value of type frozenset, found at $ in"),
        (decimal.Decimal(1), "a value of type Decimal, found at $ in"),
        (1j, "a value of type complex, found at $ in"),
        ({"when": dt.date(2026, 1, 1)}, "a value of type date, found at $.when in"),
        (Colour.RED, "a value of type Colour, found at $ in"),
        (Point(1), "a value of type Point, found at $ in"),
        (Line, "a value of type type, found at $ in"),
        (object(), "a value of type object, found at $ in"),
        (range(3), "a value of type range, found at $ in"),
        ({"a b": {"c": {1}}}, "a value of type set, found at $['a b'].c in"),
        ([{"n": 10**4300}], "an integer of more than 4300 digits, found at $[0].n in"),
        (-(10**4300), "an integer of more than 4300 digits, found at $ in"),
    ],
    ids=range(24),
)
def test_what_json_would_change_is_refused(value, message):
    """Everything that would not come back equal is a `CodecError` that gives place and type."""
    with pytest.raises(CodecError) as caught:
        encode_payload(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Level.LOW, b'"low"'),
        ({Level.LOW: Size.BIG}, b'{"low":3}'),
        (collections.OrderedDict(b=1, a=2), b'{"b":1,"a":2}'),
        (collections.defaultdict(list, a=[1]), b'{"a":[1]}'),
        (collections.Counter("aab"), b'{"a":2,"b":1}'),
        ([collections.OrderedDict(line=Line("s"))], b'[{"line":{"sku":"s","count":1,"tags":[]}}]'),
    ],
)
def test_a_subclass_that_equals_its_plain_value_is_stored_as_it(value, data):
    """Members of `StrEnum` and `IntEnum` and dicts of other classes lose their class only."""
    assert encode_payload(value) == data


def test_a_subclass_that_does_not_equal_its_plain_value_is_refused():
    """A str that claims to be something else would not come back as what it was."""

    class Secretive(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return self is other

    with pytest.raises(CodecError, match="a Secretive that does not equal its plain value"):
        encode_payload([Secretive("x")])


def test_typed_objects_round_trip():
    """Instances of attrs and data classes, nested ones too, come back equal by `structure`."""
    assert structure(encode_payload(ORDER), Order) == ORDER


def test_typed_objects_may_stand_inside_json():
    """Instances inside dicts and lists are unstructured where they stand."""
    data = encode_payload({"lines": [Line("a", 2, ("x",))], "n": 1})
    assert data == b'{"lines":[{"sku":"a","count":2,"tags":["x"]}],"n":1}'


def test_a_typed_field_json_cannot_carry_is_refused():
    """What an instance holds follows the same rule; the place counts from the payload."""
    with pytest.raises(CodecError, match=r"type Decimal, found at \$\.a\[0\]\.child in"):
        encode_payload({"a": [Node(decimal.Decimal(1))]})


def test_500_levels_round_trip():
    """Deep nesting comes back, up to the documented 500 levels."""
    assert decode_payload(encode_payload(nested(500))) == nested(500)


@pytest.mark.parametrize("levels", [501, 2000, 200_000])
def test_deeper_nesting_is_refused(levels):
    """Beyond 500 levels it is a `CodecError`, never a crash."""
    with pytest.raises(CodecError):
        encode_payload(nested(levels))


def test_nesting_of_typed_objects_is_refused():
    """A long chain of instances is a `CodecError` as well."""
    node = Node()
    for _ in range(5000):
        node = Node(node)
    with pytest.raises(CodecError):
        encode_payload(node)


def test_cycles_are_refused():
    """Lists, dicts and instances that contain themselves are a `CodecError`."""
    array = [1]
    array += [array, array]
    table = {"a": {"b": []}}
    table["a"]["b"].append(table)
    node = Node()
    node.child = node
    for value in (array, table, node, [node]):
        with pytest.raises(CodecError):
            encode_payload(value)


def test_shared_references_are_no_cycle():
    """The same list twice is stored twice."""
    shared = [1]
    assert encode_payload([shared, {"a": shared}, shared]) == b'[[1],{"a":[1]},[1]]'


@pytest.fixture
def digits_limit():
    """Lets a test set the interpreter's limit on digits."""
    before = sys.get_int_max_str_digits()
    yield sys.set_int_max_str_digits
    sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("limit", [4300, 640, 0, 100_000])
def test_4300_digits_whatever_the_interpreters_limit(digits_limit, limit):
    """Integers of 4,300 digits round-trip and longer ones do not, under every setting."""
    digits_limit(limit)
    value = {"é": [10**4300 - 1, {"b": -(10**4300) + 1}], "a": [1.5, "x", None, True]}
    assert decode_payload(encode_payload(value)) == value
    with pytest.raises(CodecError):
        encode_payload({"a": [10**4300]})
    with pytest.raises(CodecError, match="more than 4300 digits"):
        decode_payload(b"[1" + b"0" * 4300 + b"]")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"NaN",
        b"[Infinity]",
        b'{"a":-Infinity}',
        b"{'a':1}",
        b"1 2",
        b"\xef\xbb\xbf1",
        b"[1,]",
        b'"\0"',
        b"[" * 200_000,
    ],
    ids=range(12),
)
def test_what_is_no_json_does_not_decode(data):
    """Stored bytes that are not JSON are a `CodecError`."""
    with pytest.raises(CodecError):
        decode_payload(data)


@pytest.mark.parametrize(
    ("data", "target"),
    [
        (b"1", str),
        (b'"1"', int),
        (b"1.0", int),
        (b"true", int),
        (b"1", bool),
        (b'"1.5"', float),
        (b"true", float),
        (b"0", type(None)),
        (b'"abc"', list[str]),
        (b'"abc"', tuple[str, ...]),
        (b'"ab"', tuple[str, str]),
        (b'"abc"', set[str]),
        (b'{"a":1}', list[str]),
        (b"[]", dict[str, int]),
        (b'[["a",1]]', dict),
        (b"[]", Line),
        (b"{}", Line),
        (b'"sku"', Line),
        (b'{"sku":1}', Line),
        (b'{"sku":"a","tags":"xy"}', Line),
        (b'[{"sku":"a"},{"sku":null}]', list[Line]),
        (b'{"a":{"b":["1"]}}', dict[str, dict[str, list[int]]]),
        (b'"blue"', Colour),
        (b'"blue"', Level),
        (b'"x"', int | None),
        (b"1", decimal.Decimal),
        (b"not json", int),
    ],
)
def test_a_mismatch_is_refused(data, target):
    """A payload that is not the wanted type is a `CodecError`; nothing is converted silently."""
    with pytest.raises(CodecError):
        structure(data, target)


@pytest.mark.parametrize(
    ("data", "target", "value"),
    [
        (b'{"a":[1]}', typing.Any, {"a": [1]}),
        (b'{"a":1}', dict, {"a": 1}),
        (b"[1]", list, [1]),
        (b"1", float, 1.0),
        (b"null", int | None, None),
        (b'"low"', Level, Level.LOW),
        (b"3", Size, Size.BIG),
        (b'{"sku":"a","new_field":1}', Line, Line("a")),
        (b'[{"sku":"a"}]', list[Line], [Line("a")]),
        (b"[1,2]", tuple[int, ...], (1, 2)),
    ],
)
def test_a_match_is_built(data, target, value):
    """JSON of the wanted type becomes it; fields the class does not know are ignored."""
    built = structure(data, target)
    assert built == value
    assert type(built) is type(value)


def test_a_mismatch_names_the_place():
    """The message says what was expected where."""
    with pytest.raises(CodecError) as caught:
        structure(b'[{"sku":"a"},{"count":"7"}]', list[Line])
    assert str(caught.value).endswith(
        "missing, expected str @ $[1].sku; a str, not an int @ $[1].count"
    )


@pytest.mark.parametrize(
    ("data", "target", "told"),
    [
        (b'"7"', int, "the payload is a str, not an int"),
        (b"true", int, "the payload is a bool, not an int"),
        (b"null", str, "the payload is None, not a str"),
        (b"1", type(None), "the payload is an int, not None"),
        (b"[]", Line, "the payload is a list, not a Line"),
        (b"3", list[Line], "the payload is an int, not a list[test_payload.Line]"),
        (b"1", Level, "the payload is an int, not a Level"),
    ],
)
def test_a_mismatch_says_what_is_there(data, target, told):
    """Of which type the payload is, and of which it should be."""
    with pytest.raises(CodecError) as caught:
        structure(data, target)
    assert told == str(caught.value)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: encode_payload({"token": ["s3cret", {1}]}),
        lambda: encode_payload(["s3cret\ud800"]),
        lambda: decode_payload(b'{"token":"s3cret"'),
        lambda: decode_payload(b'"s3cret\xff"'),
        lambda: structure(b'{"sku":"a","count":"s3cret"}', Line),
        lambda: structure(b'"s3cret"', Colour),
        lambda: structure(b'"s3cret"', dt.datetime),
    ],
    ids=range(7),
)
def test_no_error_quotes_the_payload(attempt):
    """Neither the message nor the shown cause holds a value of the payload."""
    with pytest.raises(CodecError) as caught:
        attempt()
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_types_are_learned_in_parallel():
    """Threads that meet a type for the first time together all check it strictly."""
    targets = [attrs.make_class(f"New{n}", {"a": attrs.field(type=list[str])}) for n in range(50)]
    silent = []

    def attempt():
        for target in targets:
            try:
                silent.append(structure(b'{"a":"text"}', target))
            except CodecError:
                continue

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert silent == []
