"""Who has a stopped store's files open after all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from alkstore_localstores import guard, registry
from alkstore_localstores.errors import (
    BINDING_SETUP_FAILED,
    LOCAL_FILESYSTEM_ERROR,
    OPERATION_NOT_SUPPORTED,
    LocalStoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROCESSES = Path("/proc")


def refuse_live(database: str) -> None:
    """Refuse a database that a process has open, as far as its locks and the system tell.

    Raises:
        LocalStoreError: somebody has, or nobody can tell.

    """
    _need_linux()
    with registry.OPENING:
        if registry.is_noted(database):
            raise _in_use(database, [os.getpid()])
    found = _holders([database, *siblings(database)])
    try:
        in_use = bool(found) or guard.is_locked(database + guard.SUFFIX)
    except OSError as error:
        raise LocalStoreError(
            LOCAL_FILESYSTEM_ERROR, f"whether {database} is in use cannot be told: {error}"
        ) from error
    if in_use:
        raise _in_use(database, found)


@contextlib.contextmanager
def exclusively(database: str) -> Iterator[None]:
    """Nobody has the database open, and neither SQLite nor Turso can open it until the end.

    Changes nothing in the file. Opening it through SQLite here would wait for this lock.

    Raises:
        LocalStoreError: somebody has it open.

    """
    refuse_live(database)
    try:
        descriptor = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise LocalStoreError(
            LOCAL_FILESYSTEM_ERROR, f"{database} cannot be opened: {error.strerror}"
        ) from error
    try:
        if not guard.lock_whole(descriptor):
            raise _in_use(database, [])
        yield
    finally:
        os.close(descriptor)


def siblings(database: str) -> list[str]:
    """The files beside a database that belong to it."""
    path = Path(database)
    names = path.parent.glob(f"{path.name}-*") if path.parent.is_dir() else ()
    return sorted(map(str, names))


def _holders(paths: Iterable[str]) -> list[int]:
    """The processes that have one of the files open; those of other users may be hidden."""
    wanted = {key for path in paths if (key := registry.key_of(path)) is not None}
    found = set()
    for process in _PROCESSES.iterdir():
        if not process.name.isdigit():
            continue
        # It may end, or not be ours to look into.
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                if registry.key_of(str(descriptor)) in wanted:
                    found.add(int(process.name))
    return sorted(found)


def _in_use(database: str, processes: list[int]) -> LocalStoreError:
    by = f" by process {', '.join(map(str, processes))}" if processes else ""
    return LocalStoreError(
        BINDING_SETUP_FAILED,
        f"{database} is in use{by}; this works on stopped stores only",
        context={"file": database, "processes": processes},
        hint="stop everything that uses the store, containers included",
    )


def _need_linux() -> None:
    if not guard.SUPPORTED:
        raise LocalStoreError(
            OPERATION_NOT_SUPPORTED, "whether a store is in use can be told on Linux only"
        )
