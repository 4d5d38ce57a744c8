"""What can go wrong, as far as a caller can act on it.

"No work", a lost race and a stale handle are values, not errors. Messages name the value and
what to do about it; they never hold a payload or a password. Every error survives pickling.
"""

from __future__ import annotations

import reprlib
from typing import Any

__all__ = [
    "AlkstoreError",
    "Closed",
    "CodecError",
    "CopyRefused",
    "DatabaseError",
    "InvalidName",
    "InvalidSpec",
    "LeadershipLost",
    "PayloadTooLarge",
    "ReservedName",
]


class AlkstoreError(Exception):
    """The base of every error this library raises."""


class PayloadTooLarge(AlkstoreError):  # noqa: N818 - the contract's name, as all below.
    """A notify payload is larger than the engine can carry; nothing was sent.

    `limit` and `size` are bytes of the encoded payload. The transaction stays usable.
    """

    def __init__(self, limit: int, size: int) -> None:
        super().__init__(limit, size)
        self.limit = limit
        self.size = size

    def __str__(self) -> str:
        return (
            f"the encoded payload is {self.size} bytes, this engine carries at most "
            f"{self.limit}; store the data and notify its key"
        )


class InvalidName(AlkstoreError):  # noqa: N818
    """A name is empty, too long or not storable; nothing was written."""

    def __init__(self, kind: str, name: Any, problem: str) -> None:
        super().__init__(kind, name, problem)
        self.kind = kind
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.kind} {_shown(self.name)} {self.problem}"


class ReservedName(AlkstoreError):  # noqa: N818
    """A name lies in the library's own namespace; nothing was written."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind = kind
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.kind} {_shown(self.name)} is reserved: names that start with "
            "'__alkstore_' belong to the library; choose another"
        )


class InvalidSpec(AlkstoreError):  # noqa: N818
    """A schedule's spec is not in the grammar; nothing was written."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self.spec = spec

    def __str__(self) -> str:
        return (
            f"schedule spec {_shown(self.spec)} is not '@every <n><unit>', such as '@every "
            "15m', with n in ASCII digits above 0, unit one of s, m, h, d, and at most 2**63-1 "
            "seconds; cron expressions are not understood"
        )


class Closed(AlkstoreError):  # noqa: N818
    """The store is not open: not yet, or no more."""


class CodecError(AlkstoreError):
    """A value is not JSON, or stored JSON is not the wanted type."""


class DatabaseError(AlkstoreError):
    """The database refused or was not reached; `__cause__` holds the detail."""


class LeadershipLost(AlkstoreError):  # noqa: N818
    """`run_schedules` no longer leads; it fired nothing after the loss. Call it again."""


class CopyRefused(AlkstoreError):  # noqa: N818
    """A copy was not begun, or is not whole; the message says what to change. Call it again."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = 80


def _shown(value: object) -> str:
    # A value of another type may have any repr, so only its type is told.
    return _SHORT.repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"
