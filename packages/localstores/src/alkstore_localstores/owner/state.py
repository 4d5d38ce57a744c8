"""A state directory: where queues lie, who owns them, and what keeps one from being opened."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any, Final, Self

from alkstore_localstores.errors import (
    BINDING_SETUP_FAILED,
    INVALID_INPUT,
    LOCAL_FILESYSTEM_ERROR,
    LocalStoreError,
    shown,
)
from alkstore_localstores.opening import make_directory, sync_directory

OWNED: Final = "queue-owned"
LEGACY: Final = "queue"
TOKENS: Final = "queue-tokens"
LOCK: Final = "owner.lock"
SOCKET: Final = "owner.sock"

_RESOURCE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DELETED = ".deleted-"


def check_resource(resource: Any) -> str:
    """A resource id, which is safe as a file's name and in a path.

    Raises:
        LocalStoreError: INVALID_INPUT: it is something else.

    """
    if not isinstance(resource, str) or not _RESOURCE.fullmatch(resource):
        raise LocalStoreError(
            INVALID_INPUT,
            f"{shown(resource)} is no resource id: 1 to 64 letters, digits, '_' and '-' of ASCII",
        )
    return resource


class StateDirectory:
    """The directories of queues under one path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path` is made absolute.

        Raises:
            LocalStoreError: INVALID_INPUT: it is no path.

        """
        try:
            name = os.fsdecode(path)
        except TypeError as error:
            kind = type(path).__name__
            raise LocalStoreError(
                INVALID_INPUT, f"the state directory is of type {kind}, and no path"
            ) from error
        if "\0" in name:
            raise LocalStoreError(INVALID_INPUT, f"{name!r} is no path: NUL is in it")
        self.path = Path(name).absolute()

    @property
    def tokens(self) -> Path:
        """Where the credentials lie."""
        return self.path / TOKENS

    @property
    def socket(self) -> Path:
        """Where a running owner listens to the command line."""
        return self.path / SOCKET

    def owned(self, resource: str) -> Path:
        """Where the owner keeps a queue."""
        return self.path / OWNED / check_resource(resource)

    def legacy(self, resource: str) -> Path:
        """Where older releases kept it, and their clients still open it."""
        return self.path / LEGACY / check_resource(resource)

    def check_legacy(self, resource: str) -> None:
        """Refuse a queue that older clients may have open.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: the older directory is there, whatever else is.

        """
        legacy = self.legacy(resource)
        if os.path.lexists(legacy):
            raise LocalStoreError(
                BINDING_SETUP_FAILED,
                f"queue {resource!r} is not opened: {legacy} is there, and clients of older "
                "releases may be using it",
                context={"resource": resource, "directory": str(legacy)},
                hint="stop them all and move it with: alkstore-localstores migrate-legacy "
                f"--state-dir {self.path} {resource}",
            )

    def resources(self) -> list[str]:
        """The queues that are there, in order.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: their directory cannot be read.

        """
        found = self._entries()
        try:
            return sorted(p.name for p in found if _RESOURCE.fullmatch(p.name) and p.is_dir())
        except OSError as error:
            raise _unusable(self.path, error) from error

    def set_aside(self, resource: str) -> Path:
        """Take a queue's directory away from its name, and return where it is now.

        Half a directory must never be found under a queue's name.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: it is where it was, or nobody knows.

        """
        owned = self.owned(resource)
        doomed = owned.with_name(f"{_DELETED}{resource}-{secrets.token_hex(8)}")
        try:
            with contextlib.suppress(FileNotFoundError):
                owned.rename(doomed)
                sync_directory(str(owned.parent))
        except OSError as error:
            raise _not_deleted(owned, error) from error
        return doomed

    def set_aside_before(self) -> list[tuple[str, Path]]:
        """What was set aside before and is not deleted yet: of which queues, and where.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: their directory cannot be read.

        """
        found = (path for path in self._entries() if path.name.startswith(_DELETED))
        named = ((path.name.removeprefix(_DELETED).rpartition("-")[0], path) for path in found)
        return [(resource, path) for resource, path in named if resource]

    def _entries(self) -> list[Path]:
        try:
            return list((self.path / OWNED).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unusable(self.path, error) from error

    def delete(self, doomed: Path) -> None:
        """Delete what was set aside. Nothing to do when it is gone.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: some of it is still there.

        """
        try:
            if doomed.is_symlink():
                # What it leads to is not ours.
                doomed.unlink()
            elif doomed.exists():
                shutil.rmtree(doomed)
        except OSError as error:
            raise _not_deleted(doomed, error) from error


class OwnerLock:
    """Held by the one process that may open the queues of a state directory.

    It goes with the process, however that ends.
    """

    def __init__(self, state: StateDirectory) -> None:
        """Take it, without waiting; the directory is made when it is missing.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: another process has it;
                LOCAL_FILESYSTEM_ERROR: the directory cannot be used.

        """
        path = state.path / LOCK
        try:
            make_directory(str(state.path))
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(state.path, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            self.release()
            raise LocalStoreError(
                BINDING_SETUP_FAILED,
                f"the state directory {state.path} has an owner already, process {holder or '?'}",
                context={"directory": str(state.path)},
                hint="stop that process; create-queue, delete-queue and stats work beside it",
            ) from error
        except OSError as error:
            self.release()
            raise _unusable(state.path, error) from error
        # Who we are is for people to read: a full disk need not keep queues from being emptied.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it up. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _unusable(path: Path, error: OSError) -> LocalStoreError:
    return LocalStoreError(
        LOCAL_FILESYSTEM_ERROR,
        f"the state directory {path} cannot be used: {error}",
        context={"directory": str(path)},
    )


def _not_deleted(path: Path, error: OSError) -> LocalStoreError:
    return LocalStoreError(
        LOCAL_FILESYSTEM_ERROR,
        f"{error.filename or path} cannot be deleted: {error.strerror}",
        context={"directory": str(path)},
    )
