"""Keeps plain SQLite and Turso's multi-process mode off one file at the same time.

Both write to `-wal`, each by its own rules of who may: rows that one has committed vanish under
the other, and nobody gets an error. Turso keeps a shared lock on the first byte of `<db>-tshm`
and refuses a file of that name which is locked and empty. So for as long as SQLite has a file
open, this end holds a shared lock on an empty one.

Locks of open file descriptions, not of processes, so Linux only; elsewhere nothing is guarded.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from typing import TYPE_CHECKING

from alkstore_core.sql.dbapi import retry_pause
from alkstore_localstores.errors import BINDING_SETUP_FAILED, LocalStoreError

try:
    import fcntl

    SUPPORTED = hasattr(fcntl, "F_OFD_SETLK")
except ImportError:
    SUPPORTED = False

if TYPE_CHECKING:
    from typing import Final

SUFFIX: Final = "-tshm"

# It is emptied, so never what a link leads to.
_ITSELF: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

# struct flock: type, whence, start, length, pid.
_FLOCK: Final = struct.Struct("@hhqqi4x")


class Guard:
    """A shared lock on the empty `-tshm` file of a database, from construction to `release`."""

    def __init__(self, database: str, patience: float) -> None:
        """Lock, waiting up to `patience` seconds for others that are about to.

        Raises:
            LocalStoreError: Turso has the database open, or the lock was not to be had.
            OSError: the file cannot be made or locked.

        """
        self._path = database + SUFFIX
        self._descriptor: int | None = None
        if not SUPPORTED:
            return
        deadline = time.monotonic() + patience
        while not self._try(database):
            if time.monotonic() > deadline:
                raise LocalStoreError(
                    BINDING_SETUP_FAILED,
                    f"the lock on {self._path} was not to be had for {patience:g} s",
                    context={"file": self._path},
                    hint="find the process that keeps it, for example with lsof",
                )
            time.sleep(retry_pause())

    def _try(self, database: str) -> bool:
        """Whether the lock is held now; not when others were in the middle of the same."""
        descriptor = os.open(self._path, _ITSELF | os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _lock(descriptor, fcntl.F_WRLCK):
                # Nobody is there. What Turso left of its coordination would mislead it after
                # we have written to the file.
                os.ftruncate(descriptor, 0)
                # Linux turns the one lock into the other without letting anybody in between.
                _lock(descriptor, fcntl.F_RDLCK)
            elif not _lock(descriptor, fcntl.F_RDLCK):
                return False
            if os.fstat(descriptor).st_size:
                raise turso_is_live(database)
            if not _is_at(descriptor, self._path):
                return False
            self._descriptor, descriptor = descriptor, -1
            return True
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def release(self) -> None:
        """Give the lock up, and the file too when nobody else has it. Idempotent.

        Not before SQLite has closed the database.
        """
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if _lock(descriptor, fcntl.F_WRLCK) and _is_at(descriptor, self._path):
                with contextlib.suppress(OSError):
                    os.unlink(self._path)  # noqa: PTH108
        finally:
            os.close(descriptor)


def is_live(database: str) -> bool:
    """Whether Turso's multi-process mode has the database open. Changes nothing.

    Raises:
        OSError: nobody can tell.

    """
    # A lock for writing is held by whoever is about to find that out.
    found = _lock_found(database + SUFFIX, length=1, at_least=1)
    return found is not None and found == fcntl.F_RDLCK


def is_locked(path: str) -> bool:
    """Whether a process, this one included, has locked any of the file. Changes nothing.

    Not for a file that this process has open through SQLite: its locks would go.

    Raises:
        OSError: nobody can tell.

    """
    return _lock_found(path, length=0, at_least=0) is not None


def _lock_found(path: str, *, length: int, at_least: int) -> int | None:
    """The kind of a lock on the first `length` bytes (0: all) of a file that is big enough."""
    if not SUPPORTED:
        return None
    try:
        # Whoever opens a pipe waits for its other end, unless he says that he will not.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(descriptor).st_size < at_least:
            return None
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, length, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else kind


def forget_stale(database: str) -> None:
    """Empty the `-tshm` file of a database that no Turso has open.

    An engine that does not know of it may have written since: Turso would believe the file and
    not see what stands in the log. Turso waits for this lock, and makes the file anew.
    """
    if not SUPPORTED:
        return
    try:
        descriptor = os.open(database + SUFFIX, _ITSELF | os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        if os.fstat(descriptor).st_size and _lock(descriptor, fcntl.F_WRLCK):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def lock_whole(descriptor: int) -> bool:
    """Keep everybody else from locking any of a file, without waiting; false when others have."""
    return _lock(descriptor, fcntl.F_WRLCK, length=0)


def turso_is_live(database: str) -> LocalStoreError:
    """What is said to whoever would mix the two."""
    return LocalStoreError(
        BINDING_SETUP_FAILED,
        f"{database} is in use by Turso in multi-process mode, which plain SQLite must not join: "
        "committed rows would be lost",
        context={"file": database},
        hint='open it with driver="turso" as well, or stop the processes that use it',
    )


def others_are_live(database: str) -> LocalStoreError:
    """What is said to a Turso that would join SQLite, or Turso in another mode."""
    return LocalStoreError(
        BINDING_SETUP_FAILED,
        f"{database} is in use by SQLite, or by Turso in another mode, which must not be mixed "
        "with Turso here: committed rows would be lost",
        context={"file": database},
        hint="open it with the driver of the others, or stop the processes that use it",
    )


def _lock(descriptor: int, kind: int, *, length: int = 1) -> bool:
    """Lock the first `length` bytes (0: all), without waiting; false when others' locks bar it."""
    asked = _FLOCK.pack(kind, os.SEEK_SET, 0, length, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, asked)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    held = os.fstat(descriptor)
    try:
        named = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
