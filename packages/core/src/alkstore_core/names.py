"""Which names are legal. The rules are the same on every engine and for all six kinds."""

from __future__ import annotations

import functools
from typing import Any, Literal

from alkstore_core.errors import InvalidName, ReservedName

NameKind = Literal["channel", "stream", "queue", "outbox", "lock", "schedule"]
LabelKind = Literal["worker id", "owner", "consumer", "key"]

RESERVED_PREFIX = "__alkstore_"
RECONNECTED = "__alkstore_listener_reconnected__"
SCHEDULER_LOCK = "__alkstore_scheduler"
MAX_NAME_BYTES = 255
_OUTBOX = f"{RESERVED_PREFIX}outbox:"


def check_name(kind: NameKind, name: Any) -> str:
    """Return the name as a plain `str`; it is not trimmed and its case counts.

    Raises:
        InvalidName: not a str, empty, only whitespace, with a NUL or a lone surrogate, or
            longer than 255 bytes in UTF-8.
        ReservedName: it starts with `__alkstore_`.

    """
    if not isinstance(name, str):
        raise InvalidName(kind, name, "is not a str")
    return _accepted_name(kind, name)


def check_label(kind: LabelKind, value: Any) -> str:
    """Return a worker id, owner, consumer or key as a plain `str`; reserved names are legal.

    Raises:
        InvalidName: as `check_name`.

    """
    if not isinstance(value, str):
        raise InvalidName(kind, value, "is not a str")
    return _accepted_label(kind, value)


def backing_queue(outbox: str) -> str:
    """The queue behind an outbox. Its name is reserved, so no caller can collide with it."""
    return f"{_OUTBOX}{outbox}"


def outbox_behind(queue: str) -> str | None:
    """The outbox that a queue stands behind, `None` for a plain queue."""
    return queue.removeprefix(_OUTBOX) if queue.startswith(_OUTBOX) else None


# Accepted names are remembered (refusals raise, so they are not): programs use few names, often.
@functools.lru_cache(maxsize=4096)
def _accepted_name(kind: str, name: str) -> str:
    plain = _legal(kind, name)
    if plain.startswith(RESERVED_PREFIX):
        raise ReservedName(kind, plain)
    return plain


@functools.lru_cache(maxsize=4096)
def _accepted_label(kind: str, value: str) -> str:
    return _legal(kind, value)


def _legal(kind: str, value: str) -> str:
    plain = str.__str__(value)
    if not plain or plain.isspace():
        raise InvalidName(kind, plain, "is empty or only whitespace")
    if "\0" in plain:
        raise InvalidName(kind, plain, "holds a NUL character")
    try:
        size = len(plain.encode())
    except UnicodeEncodeError:
        raise InvalidName(kind, plain, "holds a lone surrogate") from None
    if size > MAX_NAME_BYTES:
        problem = f"is {size} bytes in UTF-8, at most {MAX_NAME_BYTES} are legal"
        raise InvalidName(kind, plain, problem)
    return plain
