"""JSON text as the format wants it stored: compact, keys sorted, non-ASCII as it is.

The other implementation of the format writes with Rust's serde_json, and a payload must be the
same bytes whoever sent it. That is what `json.dumps` writes but for small floats and for
integers outside 64 bits.
"""

from __future__ import annotations

import json
import math
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NoReturn

from alkstore_localstores.errors import INVALID_INPUT, LocalStoreError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

DEPTH_LIMIT = 127
"""So many arrays and objects may stand in each other: the other implementation reads no more."""

INTEGERS = (-(2**63), 2**64 - 1)
"""An integer beyond these is written as a float."""


def dumps(value: Any) -> str:
    """A JSON value as stored text.

    Takes what `json.dumps` takes, but keys that are no strings, and neither NaN nor infinities.

    Raises:
        LocalStoreError: INVALID_INPUT: it is no JSON value, too deep, or text that UTF-8 cannot
            hold.

    """
    parts: list[str] = []
    _write(value, parts.append, DEPTH_LIMIT)
    text = "".join(parts)
    check_text(text)
    return text


def rewrite(value: Any) -> str:
    """A value that `parse` has given as stored text: as `dumps`, in a fraction of the time.

    Raises:
        LocalStoreError: INVALID_INPUT: it is too deep.

    """
    try:
        text = _encoder.encode(value)
    except RecursionError:
        return dumps(value)
    # Its numbers and keys are right already; small floats and depth are left to look at.
    if "e-" in text or text.count("[") + text.count("{") > DEPTH_LIMIT:
        return dumps(value)
    return text


def loads(text: str) -> Any:
    """The JSON value of a stored text, read as strictly as it is written.

    Raises:
        ValueError: as `parse`, or it is nested deeper than what is stored.

    """
    value = parse(text)
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    return value


def parse(text: str) -> Any:
    """The JSON value of any text.

    Raises:
        ValueError: the text is no JSON, names a number that no float can hold, is nested too
            deep to be read, or has escapes that are no characters.

    """
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if "\\u" in text:
        # Half a surrogate pair is no character, and nothing could send it on.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def check_text(text: str) -> None:
    """Refuse what UTF-8 cannot hold.

    Raises:
        LocalStoreError: INVALID_INPUT: half a surrogate pair is in it.

    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            _refuse(f"its text holds {error.object[error.start]!r}, which is not a character")


def _write(value: Any, put: Callable[[str], None], depth: int) -> None:
    if isinstance(value, str):
        put(encode_basestring(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, int):
        put(_integer(value))
    elif isinstance(value, float):
        put(_float(value))
    elif isinstance(value, (dict, list, tuple)):
        if not depth:
            _refuse(f"it is nested more than {DEPTH_LIMIT} deep")
        if isinstance(value, dict):
            _write_object(value, put, depth - 1)
        else:
            _write_array(value, put, depth - 1)
    else:
        _refuse(f"it holds a value of type {type(value).__name__}")


def _write_object(value: dict[Any, Any], put: Callable[[str], None], depth: int) -> None:
    for key in value:
        if not isinstance(key, str):
            _refuse(f"it has a key of type {type(key).__name__}, {shown(key)}; keys are strings")
    start = "{"
    # By code point, which is the order of the keys' UTF-8 bytes.
    for key in sorted(value):
        put(start)
        put(encode_basestring(key))
        put(":")
        _write(value[key], put, depth)
        start = ","
    put("}" if value else "{}")


def _write_array(
    value: list[Any] | tuple[Any, ...], put: Callable[[str], None], depth: int
) -> None:
    start = "["
    for item in value:
        put(start)
        _write(item, put, depth)
        start = ","
    put("]" if value else "[]")


def _integer(value: int) -> str:
    if INTEGERS[0] <= value <= INTEGERS[1]:
        return int.__repr__(value)
    try:
        return _float(float(value))
    except OverflowError:
        _refuse("it holds an integer that no 64-bit number comes near to")


def _float(value: float) -> str:
    if not math.isfinite(value):
        _refuse(f"it holds {value!r}, which JSON has no number for")
    text = float.__repr__(value)
    mantissa, small, exponent = text.partition("e-")
    if not small:
        return text
    if exponent == "05":
        sign = "-" if mantissa[0] == "-" else ""
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
    return f"{mantissa}e-{exponent.lstrip('0')}"


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if any(isinstance(inner, (dict, list)) for inner in level):
        message = f"it is nested more than {DEPTH_LIMIT} deep"
        raise ValueError(message)


def _refuse(reason: str) -> NoReturn:
    raise LocalStoreError(INVALID_INPUT, f"this is no JSON value: {reason}")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        message = f"the number {text} is out of range"
        raise ValueError(message)
    return value


def _whole(text: str) -> int | float:
    # As the other implementation reads them: zero may be negative, and large ones are floats.
    if text == "-0":
        return -0.0
    value = int(text)
    return value if INTEGERS[0] <= value <= INTEGERS[1] else _finite(text)


def _constant(text: str) -> NoReturn:
    message = f"{text} is no JSON"
    raise ValueError(message)


_decoder = json.JSONDecoder(parse_float=_finite, parse_int=_whole, parse_constant=_constant)
_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
