"""The database files that this process has open, in whichever store object.

They are not probed again: a process's locks on a file go with the first descriptor of it that is
closed, whoever opened that. And a child made by a fork must not use what its parent has open.
"""

from __future__ import annotations

import os
import threading

import attrs

from alkstore_localstores.errors import BINDING_SETUP_FAILED, LocalStoreError

Key = tuple[int, int]

OPENING = threading.Lock()
"""Held from the question whether a file is open to its being noted as open."""


@attrs.define
class _Opened:
    marker: str
    driver: str
    count: int = 0


_open: dict[Key, _Opened] = {}
_inherited: set[Key] = set()


def key_of(path: str) -> Key | None:
    """Which file a path names now; `None` for none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - each commit asks, and a Path costs more than it
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def is_open(path: str, marker: str, driver: str) -> bool:
    """Whether this process has the file open, as this format on this driver. Under `OPENING`.

    Raises:
        LocalStoreError: it has it open as something else, or had when it was forked.

    """
    key = key_of(path)
    if key in _inherited:
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"{path} was open when this process was forked, and its locks do not survive that",
            context={"file": path},
            hint="start processes by spawn or exec, or fork before the file is opened",
        )
    opened = _open.get(key) if key is not None else None
    if opened is None:
        return False
    if (opened.marker, opened.driver) != (marker, driver):
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"this process has {path} open as {opened.marker} with driver {opened.driver!r}, "
            f"so not as {marker} with {driver!r} at the same time",
            context={"file": path},
            hint="close that store first, or use its driver",
        )
    return True


def is_noted(path: str) -> bool:
    """Whether this process has the file open as anything. Under `OPENING`."""
    return key_of(path) in _open


def opened(path: str, marker: str, driver: str) -> Key:
    """Note one more connection to an existing file. Under `OPENING`."""
    found = os.stat(path)  # noqa: PTH116
    key = (found.st_dev, found.st_ino)
    _open.setdefault(key, _Opened(marker, driver)).count += 1
    return key


def closed(key: Key) -> None:
    """Forget what `opened` noted; after the connection was closed."""
    with OPENING:
        entry = _open.get(key)
        if entry is not None:
            entry.count -= 1
            if not entry.count:
                del _open[key]


def _after_fork() -> None:
    global OPENING  # noqa: PLW0603 - a thread of the parent may have held it
    OPENING = threading.Lock()
    _inherited.update(_open)
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
