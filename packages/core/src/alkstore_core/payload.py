"""Payloads: JSON in compact UTF-8 bytes, the same bytes on every engine.

What comes back equals what went in; a value of which that is not true is refused before a row
is written. `alkstore_core.jsontree` holds the rule, this module the fast way through it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, overload

from alkstore_core.errors import CodecError, DatabaseError
from alkstore_core.jsontree import MAX_DIGITS, is_plain, to_plain
from alkstore_core.structuring import structure_value

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def encode_payload(value: Any) -> bytes:
    """Encode to compact JSON: no spaces, keys in their order, non-ASCII characters as they are.

    attrs and data class instances become objects, wherever they stand (cattrs' conventions for
    JSON: enum members by value, datetimes in ISO 8601, tuples and sets of a declared field as
    arrays). A subclass of str, int, float, list or dict that equals its plain value, such as a
    `StrEnum` member or a defaultdict, is stored as that value.

    Raises:
        CodecError: JSON cannot carry it unchanged: NaN and infinities, lone surrogates, keys
            that are not strings, tuples, bytes, sets, Decimal, other objects, cycles, more than
            500 levels, integers of more than 4,300 digits. The message gives the place.

    """
    try:
        tree = value if is_plain(value) else to_plain(value)
        try:
            data = _text(tree).encode()
        except ValueError:
            # Says where, unless only the interpreter's own limit on digits was in the way.
            data = _exact_text(to_plain(tree)).encode()
    except RecursionError:
        raise CodecError("cannot encode the payload: it is nested too deep") from None
    if len(data) > MAX_DIGITS and sys.get_int_max_str_digits() != MAX_DIGITS:
        to_plain(tree)
    return data


def encode_payloads(payloads: Iterable[Any]) -> list[bytes]:
    """Encode each payload.

    Raises:
        CodecError: one of them is not JSON.
        DatabaseError: `payloads` is no collection of payloads, such as a single str.

    """
    if isinstance(payloads, (str, bytes, dict)) or not isinstance(payloads, Iterable):
        detail = f"payloads must be a sequence of payloads, not one {type(payloads).__name__}"
        raise DatabaseError(detail) from TypeError(detail)
    encoded: list[bytes] = []
    for index, payload in enumerate(payloads):
        try:
            encoded.append(encode_payload(payload))
        except CodecError as error:
            raise CodecError(f"payload {index}: {error}") from error.__cause__
    return encoded


def decode_payload(data: bytes) -> Any:
    """Decode stored JSON.

    Raises:
        CodecError: not UTF-8, not JSON (NaN and infinities are not), nested too deep, or with
            an integer of more than 4,300 digits.

    """
    decode: Callable[[str], Any] = _decode_quickly
    if len(data) > _ALWAYS_CONVERTIBLE and sys.get_int_max_str_digits() != MAX_DIGITS:
        decode = _decode_exactly
    try:
        return decode(data.decode())
    except json.JSONDecodeError as error:
        # The error holds the whole text, so it is told, not chained; so are those below.
        problem = f"{error.msg} at character {error.pos}"
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
    except RecursionError:
        problem = "it is nested too deep"
    except _NotFiniteError:
        problem = "NaN and infinities are no JSON"
    except ValueError:
        problem = f"it has an integer of more than {MAX_DIGITS} digits"
    raise CodecError(f"cannot decode the payload: {problem}")


@overload
def structure(data: bytes, target: type[T]) -> T: ...
@overload
def structure(data: bytes, target: Any) -> Any: ...
def structure(data: bytes, target: Any) -> Any:
    """Decode stored JSON and build a `target` of it.

    Raises:
        CodecError: as `decode_payload`, or the JSON is not a `target`; the message names the
            places, not the values.

    """
    return structure_value(decode_payload(data), target)


class _NotFiniteError(ValueError):
    pass


# Every setting of the interpreter's limit lets integers of this many digits pass.
_ALWAYS_CONVERTIBLE = sys.int_info.str_digits_check_threshold


def _refuse_constant(_: str) -> Any:
    raise _NotFiniteError


def _exact_int(digits: str) -> int:
    # Decimal converts either way whatever limit the application has set.
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError
    return int(Decimal(digits))


def _exact_text(tree: Any) -> str:
    if type(tree) is dict:
        pairs = (f"{_text(key)}:{_exact_text(item)}" for key, item in tree.items())
        return "{" + ",".join(pairs) + "}"
    if type(tree) is list:
        return "[" + ",".join(map(_exact_text, tree)) + "]"
    if type(tree) is int:
        return format(Decimal(tree), "f")
    return _text(tree)


def _make_encoder() -> Callable[[Any], str]:
    # `is_plain` finds cycles, so the encoder need not look for them once more.
    encoder = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # An interpreter without the accelerator.
        return encoder.encode
    # `encode` builds this anew for each value, which takes longer than encoding a small one.
    quote = json.encoder.encode_basestring
    chunks = make(None, encoder.default, quote, None, ":", ",", False, False, False)
    return lambda tree: "".join(chunks(tree, 0))


_text = _make_encoder()
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode_quickly(text: str) -> Any:
    # What we have encoded has no space around it, so nobody need look for any.
    try:
        value, end = _decoder.raw_decode(text)
    except json.JSONDecodeError:
        return _decoder.decode(text)
    return value if end == len(text) else _decoder.decode(text)


_decode_exactly = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_exact_int).decode
