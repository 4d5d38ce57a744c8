"""What is expected, and whether that is what is there, as JSON has both."""

from __future__ import annotations

import dataclasses
import operator
import uuid
from typing import Any, Final, final, get_type_hints

import attrs

from alkstore_core import decode_payload, encode_payload
from alkstore_core.structuring import has_fields, unstructure


@final
class Anything:
    """Equals everything, so that a part of a payload may be left open."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Final[Any] = Anything()
"""Equals whatever is there, also inside of a payload."""


# No payload has this text, which stands for ANYTHING while the rest is encoded.
_OPEN: Final = f"ANYTHING {uuid.uuid4()}"


def pattern(value: Any) -> Any:
    """What a reader would get of a value, with each `ANYTHING` where it was.

    Raises:
        CodecError: JSON cannot carry something in it, so nothing that is stored is like it.

    """
    try:
        closed = _closed(value)
    except RecursionError:
        # Something that holds itself, which is refused below, or that is too deep to be open.
        closed = value
    plain = decode_payload(encode_payload(closed))
    return plain if closed is value else _reopened(plain)


def _closed(value: Any) -> Any:
    """A copy without `ANYTHING`; the value itself if none is in it."""
    if isinstance(value, Anything):
        return _OPEN
    if isinstance(value, dict):
        items = {key: _closed(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items
    if isinstance(value, list):
        parts = [_closed(item) for item in value]
        return value if all(map(operator.is_, parts, value)) else parts
    return _closed_fields(value) if has_fields(type(value)) else value


def _closed_fields(value: Any) -> Any:
    """The others are converted as their class declares; an open one is of no type of theirs."""
    kind = type(value)
    fields = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
    given = {field.name: getattr(value, field.name) for field in fields if field.init}
    closed = {name: _closed(item) for name, item in given.items()}
    opened = {name for name, item in given.items() if closed[name] is not item}
    if not opened:
        return value
    hints = get_type_hints(kind, include_extras=True)
    types = [(name, Any if name in opened else hints.get(name, Any)) for name in given]
    return unstructure(dataclasses.make_dataclass(kind.__name__, types)(**closed))


def _reopened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reopened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_reopened(item) for item in value]
    return ANYTHING if value == _OPEN else value


def alike(wanted: Any, found: Any) -> bool:
    """Whether decoded JSON fits a pattern: the same text but for spaces and the order of keys."""
    pairs = [(wanted, found)]
    while pairs:
        wanted, found = pairs.pop()
        if isinstance(wanted, Anything):
            continue
        if type(wanted) is not type(found):
            return False
        if isinstance(wanted, dict):
            if wanted.keys() != found.keys():
                return False
            pairs += [(value, found[key]) for key, value in wanted.items()]
        elif isinstance(wanted, list):
            if len(wanted) != len(found):
                return False
            pairs += zip(wanted, found, strict=True)
        elif encode_payload(wanted) != encode_payload(found):
            return False
    return True
