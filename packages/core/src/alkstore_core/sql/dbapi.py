"""What blocking drivers have in common: their connections, their errors, waiting for a lock."""

from __future__ import annotations

import enum
import random
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

RETRY_SECONDS = (0.0005, 0.003)
"""How long to sleep before asking for a busy database again, drawn uniformly."""


def retry_pause() -> float:
    """Seconds until the next try for the lock; random, so that no process is always late."""
    return random.uniform(*RETRY_SECONDS)  # noqa: S311 - spreads load, guards nothing


class Fault(enum.Enum):
    """What an error of the driver means for the connection it came from."""

    BUSY = "busy"
    """Somebody else holds the lock: wait and try again."""

    STATEMENT = "statement"
    """This statement is refused; the connection is as good as before."""

    CONNECTION = "connection"
    """The disk, the file or the connection fails: the next call makes a new one."""


class Cursor(Protocol):
    """The part of a DBAPI cursor the runner uses."""

    @property
    def rowcount(self) -> int: ...  # noqa: D102 - DBAPI

    def fetchall(self) -> list[Any]: ...  # noqa: D102 - DBAPI


class Connection(Protocol):
    """The part of a blocking DBAPI connection the runner uses; it is in autocommit mode."""

    @property
    def in_transaction(self) -> bool: ...  # noqa: D102 - DBAPI

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...  # noqa: D102 - DBAPI

    def close(self) -> None: ...  # noqa: D102 - DBAPI
