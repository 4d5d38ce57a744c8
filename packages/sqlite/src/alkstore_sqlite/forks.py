"""Files that must not be opened in a forked child.

SQLite keeps the POSIX locks of a file per process, in memory. A child that is forked while its
parent has the file open inherits the belief that it holds those locks, which it does not: its
commits could vanish with a write-ahead log that others take for unused. So a file that was open
at the fork, by a store or by a prepared engine, is refused in the child.
"""

from __future__ import annotations

import os
from collections import Counter

from alkstore_core import DatabaseError

Key = tuple[int, int]

_open: Counter[Key] = Counter()
_inherited: set[Key] = set()


def refuse_inherited(path: str) -> None:
    """Refuse a file that was open when this process was forked. Asked before SQLite opens it.

    Raises:
        DatabaseError: it was.

    """
    key = _key(path)
    if key in _inherited:
        raise DatabaseError(
            f"{path} was open when this process was forked, and SQLite's locks do not survive "
            "that: start processes by spawn or exec, or fork before the file is opened"
        )


def opened(path: str) -> Key | None:
    """Note a connection or a store on the file; give the answer to `closed` at its end."""
    key = _key(path)
    if key is not None:
        _open[key] += 1
    return key


def closed(key: Key | None) -> None:
    """Forget what `opened` noted."""
    if key is not None and _open[key] > 0:
        _open[key] -= 1


def check_unchanged(path: str, key: Key | None) -> None:
    """Refuse a commit to a file that the path no longer names: nobody would ever see it.

    Raises:
        DatabaseError: it was deleted or replaced since `opened`.

    """
    if key is not None and _key(path) != key:
        raise DatabaseError(
            f"{path} was deleted or replaced during the transaction; nothing was committed"
        )


def _key(path: str) -> Key | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - no Path is made for a mere look
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _after_fork() -> None:
    _inherited.update(key for key, count in _open.items() if count)
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
