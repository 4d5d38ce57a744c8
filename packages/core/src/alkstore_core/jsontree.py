"""What JSON can carry unchanged: the one rule behind every payload."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NoReturn

import attrs

from alkstore_core.errors import CodecError
from alkstore_core.structuring import unstructure

MAX_DEPTH = 500  # Well below the interpreter's recursion limit, and the same on each version.
MAX_DIGITS = 4300
_TOO_BIG = 10**MAX_DIGITS
_SCALARS = frozenset({str, int, float, bool, type(None)})

Path = tuple[str | int, ...]


def is_plain(value: Any) -> bool:
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
    if _has_fields(value):
        value = unstructure(value)
    return _plain(value, (), frozenset())


def _plain(value: Any, path: Path, above: frozenset[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_str(value, path)
    if isinstance(value, int):
        plain = int.__int__(value)
        if not -_TOO_BIG < plain < _TOO_BIG:
            _refuse(path, f"an integer of more than {MAX_DIGITS} digits")
        return _equal(plain, value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(path, "a float that is not finite")
        return _equal(float.__float__(value), value, path)
    if id(value) in above:
        _refuse(path, "a cycle")
    if len(above) >= MAX_DEPTH:
        _refuse(path, f"nested deeper than {MAX_DEPTH} levels")
    above |= {id(value)}
    if isinstance(value, list):
        items = value if type(value) is list else _equal(list(value), value, path)
        return [_plain(item, (*path, index), above) for index, item in enumerate(items)]
    if isinstance(value, dict):
        pairs = value if type(value) is dict else _equal(dict(value), value, path)
        return {_key(key, path): _plain(item, (*path, key), above) for key, item in pairs.items()}
    if _has_fields(value):
        return _plain(unstructure(value), path, above)
    _refuse(path, f"a value of type {type(value).__name__}")


def _key(key: object, path: Path) -> str:
    if isinstance(key, str):
        return _plain_str(key, (*path, key))
    _refuse(path, f"a key of type {type(key).__name__}")


def _plain_str(value: str, path: Path) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        _refuse(path, "a lone surrogate")
    return plain if type(value) is str else _equal(plain, value, path)


def _equal(plain: Any, value: Any, path: Path) -> Any:
    if plain == value:
        return plain
    _refuse(path, f"a {type(value).__name__} that does not equal its plain value")


def _has_fields(value: Any) -> bool:
    kind = type(value)
    return attrs.has(kind) or dataclasses.is_dataclass(kind)


def _refuse(path: Path, what: str) -> NoReturn:
    steps = (
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if step.isidentifier()
        else f"[{str.__str__(step)!r}]"
        for step in path[:20]
    )
    place = "$" + "".join(steps) + ("…" if len(path) > 20 else "")
    raise CodecError(
        f"JSON cannot carry {what}, found at {place} in the payload; convert it first"
    ) from None
