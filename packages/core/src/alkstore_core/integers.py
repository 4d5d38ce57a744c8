"""The one number type of the contract: a signed 64-bit integer."""

from __future__ import annotations

from typing import Any

from alkstore_core.errors import DatabaseError

I64_MIN = -(2**63)
I64_MAX = 2**63 - 1


def check_i64(what: str, value: Any) -> int:
    """Return `value` as a plain int that every engine can store.

    Subclasses of int (an `IntEnum` member) pass as the int they are. `what` names the argument.

    Raises:
        DatabaseError: not an int (bools and floats are not) or out of range; the detail, a
            `TypeError` or `OverflowError`, is the cause.

    """
    if type(value) is not int:
        if not isinstance(value, int) or isinstance(value, bool):
            detail = f"{what} must be an int, not {type(value).__name__}"
            raise DatabaseError(detail) from TypeError(detail)
        value = int.__int__(value)
    number: int = value
    if I64_MIN <= number <= I64_MAX:
        return number
    detail = f"{what} must lie within -2**63 and 2**63-1"
    raise DatabaseError(detail) from OverflowError(detail)


def check_duration(what: str, value: Any) -> int:
    """Return `value` as a number of seconds above 0.

    Raises:
        DatabaseError: as `check_i64`, or 0 or less, with a `ValueError` as cause.

    """
    seconds = check_i64(what, value)
    if seconds > 0:
        return seconds
    detail = f"{what} must be at least 1 second, not {seconds}"
    raise DatabaseError(detail) from ValueError(detail)


def saturating_add(a: int, b: int) -> int:
    """The sum, held at the ends of the i64 range."""
    return min(max(a + b, I64_MIN), I64_MAX)


def with_article(name: str) -> str:
    """`a` or `an` before the name of a type."""
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def check_class(what: str, value: object, wanted: type) -> None:
    """Refuse an argument of another class.

    Raises:
        DatabaseError: with a `TypeError` as its cause.

    """
    if not isinstance(value, wanted):
        kind = with_article(wanted.__name__)
        detail = f"{what} must be {kind}, not {type(value).__name__}"
        raise DatabaseError(detail) from TypeError(detail)
