"""What JSON can carry unchanged: the one rule behind every payload."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from alkstore_core.errors import CodecError
from alkstore_core.structuring import MAX_DEPTH, has_fields, unstructure

MAX_DIGITS = 4300
_TOO_BIG = 10**MAX_DIGITS
_SHOWN_STEPS = 20
_SCALARS = frozenset({str, int, float, bool, type(None)})

T = TypeVar("T")
Path = tuple[str | int, ...]


def is_plain(value: Any) -> bool:  # noqa: C901 - calls would cost more than the walk.
    """Whether a value is made of JSON's own types, to a depth the encoder can follow.

    `False` also for cycles. Numbers and strings are not looked into: the encoder does that.
    """
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is not dict and kind is not list:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper = []
        for container in level:
            items = container
            if type(container) is dict:
                for key in container:
                    if type(key) is not str:
                        return False
                items = container.values()
            for item in items:
                kind = type(item)
                if kind in _SCALARS:
                    continue
                if kind is not dict and kind is not list:
                    return False
                deeper.append(item)
        if not deeper:
            return True
        # One of each: a cycle through several references would double the level each time.
        level = list({id(item): item for item in deeper}.values())
    return False


def to_plain(value: Any) -> Any:
    """A copy made of JSON's own types that equals `value`, attrs and data classes as objects.

    Raises:
        CodecError: there is none; the message gives the place and the type.

    """
    if has_fields(type(value)):
        value = unstructure(value)
        if is_plain(value):
            return value
    return _plain(value, (), frozenset())


def _plain(value: Any, path: Path, above: frozenset[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_str(value, path)
    if isinstance(value, int | float):
        return _plain_number(value, path)
    if id(value) in above:
        raise _refusal(path, "a cycle")
    if len(above) >= MAX_DEPTH:
        raise _refusal(path, f"more than {MAX_DEPTH} levels")
    return _plain_container(value, path, above | {id(value)})


def _plain_container(value: Any, path: Path, above: frozenset[int]) -> Any:
    if isinstance(value, list):
        items = value if type(value) is list else _equal(list(value), value, path)
        return [_plain(item, (*path, index), above) for index, item in enumerate(items)]
    if isinstance(value, dict):
        pairs = value if type(value) is dict else _equal(dict(value), value, path)
        return {_key(key, path): _plain(item, (*path, key), above) for key, item in pairs.items()}
    if has_fields(type(value)):
        return _plain(unstructure(value), path, above)
    raise _refusal(path, f"a value of type {type(value).__name__}")


def _key(key: object, path: Path) -> str:
    if isinstance(key, str):
        return _plain_str(key, (*path, key))
    raise _refusal(path, f"a key of type {type(key).__name__}")


def _plain_str(value: str, path: Path) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise _refusal(path, "a lone surrogate") from None
    return plain if type(value) is str else _equal(plain, value, path)


def _plain_number(value: float, path: Path) -> float:
    if isinstance(value, int):
        plain = int.__int__(value)
        if not -_TOO_BIG < plain < _TOO_BIG:
            raise _refusal(path, f"an integer of more than {MAX_DIGITS} digits")
        return _equal(plain, value, path)
    if not math.isfinite(value):
        raise _refusal(path, "a float that is not finite")
    return _equal(float.__float__(value), value, path)


def _equal(plain: T, value: object, path: Path) -> T:
    if plain == value:
        return plain
    raise _refusal(path, f"a {type(value).__name__} that does not equal its plain value")


def _refusal(path: Path, what: str) -> CodecError:
    place = "$" + "".join(map(_step, path[:_SHOWN_STEPS]))
    more = "" if len(path) <= _SHOWN_STEPS else " and below"
    return CodecError(
        f"JSON cannot carry {what}, found at {place}{more} in the payload; convert it first"
    )


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = str.__str__(step)[:80]
    return f".{name}" if name.isidentifier() else f"[{name!r}]"
