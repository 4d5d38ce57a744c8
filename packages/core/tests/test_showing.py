"""What is shown of a payload is what is stored, laid out."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core import CodecError
from alkstore_core.payload import encode_payload
from alkstore_core.showing import BODY_LIMIT, laid_out

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


@given(VALUES)
def test_payloads_are_laid_out_as_pythons_json_does(value):
    """Two spaces for each level, empty objects and arrays on one line."""
    expected = json.dumps(value, ensure_ascii=False, indent=2)
    if len(expected) <= BODY_LIMIT:
        assert (expected, False) == laid_out(encode_payload(value))


@pytest.mark.parametrize(
    "number",
    [
        *("1e999", "-1E+999", "1e-999", "-0", "-0.0", "1.50", "1E2"),
        *("0.1000000000000000055511151231257827", "12345678901234567890.123", "9" * 4_300),
    ],
)
def test_numbers_stand_as_they_are_stored(number):
    """Also those that Python has no equal of, or would write in another way."""
    assert (number, False) == laid_out(number.encode())
    assert f'{{\n  "n": [\n    {number}\n  ]\n}}' == laid_out(f'{{"n":[{number}]}}'.encode())[0]


@pytest.mark.parametrize(
    "text",
    [
        r'{"a":"\u00e9 \ud800 \/ \" \\","a":[{},[ ],"[1,{:}]"],"":{"\\":null}}',
        '\t{ "a b" :\r\n[ true , false,{"c" : "x  y"} ] }\n',
        '"\\\\"',
        '"\u2028\u202e\u00a0"',
    ],
)
def test_only_the_space_between_is_ours(text):
    """Escapes, repeated keys and whatever strings hold are as others have stored them."""

    def parts(given):
        return re.findall(r'"(?:\\.|[^"\\])*"|\S', given)

    shown, cut = laid_out(text.encode())

    assert parts(text) == parts(shown)
    assert json.loads(text) == json.loads(shown)
    assert not cut


@pytest.mark.parametrize("wrong", ["", "NaN", "[Infinity]", "[1,]", "1 2", "9" * 4_301])
def test_what_is_no_json_is_not_laid_out(wrong):
    """It is shown in another way."""
    with pytest.raises(CodecError):
        laid_out(wrong.encode())
