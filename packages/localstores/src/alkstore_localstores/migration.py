"""Moving a queue of an older release to where its owner keeps it, with everything stopped."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from shutil import copytree, rmtree
from typing import TYPE_CHECKING

import attrs

from alkstore_localstores.errors import (
    BINDING_SETUP_FAILED,
    LOCAL_FILESYSTEM_ERROR,
    LocalStoreError,
)
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.holders import exclusively, refuse_live
from alkstore_localstores.opening import make_directory, sync_directory
from alkstore_localstores.owner.state import OwnerLock, StateDirectory
from alkstore_localstores.probe import probe

if TYPE_CHECKING:
    from pathlib import Path

BACKUPS = "queue-backups"
"""The directory below the state directory that backups go to."""


@attrs.frozen
class Migration:
    """A queue that was moved."""

    source: Path
    destination: Path
    backup: Path
    """A copy of the whole directory as it was, on the disk before anything was moved."""


def migrate_legacy(state_dir: str | os.PathLike[str], resource: str) -> Migration:
    """Move `queue/<resource>` to `queue-owned/<resource>`, after a backup of it. Blocking.

    No row is read for writing and no byte of the directory changes. An owner cannot start
    meanwhile, and no client can open the queue. Stop the clients all the same, and whatever would
    start them again: what a container does with its own view of the disk cannot all be seen.

    Raises:
        LocalStoreError: `INVALID_INPUT` for a resource id out of its rules;
            `BINDING_SETUP_FAILED` when there is no such queue, it has another format, something
            holds its files or the destination exists; `LOCAL_FILESYSTEM_ERROR` when the system
            refuses. The queue is where it was, unless the message says that it was moved.

    """
    state = StateDirectory(state_dir)
    source, destination = state.legacy(resource), state.owned(resource)
    _check(state, source, destination)
    with OwnerLock(state):
        _check(state, source, destination)
        database = str(source / QUEUE.file)
        try:
            probe(database, QUEUE)
            with exclusively(database):
                return _move(state, source, destination)
        except OSError as error:
            raise _failed(f"{source} was not moved: {error}", source) from error


def _check(state: StateDirectory, source: Path, destination: Path) -> None:
    if source.is_symlink() or not source.is_dir():
        raise _refused(f"there is no queue to move: {source} is no directory", source)
    if not (source / QUEUE.file).is_file():
        raise _refused(f"there is no queue to move: {source} holds no {QUEUE.file}", source)
    if os.path.lexists(destination):
        raise _refused(
            f"{destination} exists already; nothing was moved",
            destination,
            "find out which of the two is the queue, and move the other one away",
        )
    refuse_live(str(source / QUEUE.file))
    odd = [p for p in source.rglob("*") if not stat.S_ISREG(p.lstat().st_mode) and not p.is_dir()]
    if odd:
        raise _refused(f"{odd[0]} is neither a file nor a directory", source)
    if source.stat().st_dev != state.path.stat().st_dev:
        raise _refused(f"{source} is on another file system than {state.path}", source)


def _move(state: StateDirectory, source: Path, destination: Path) -> Migration:
    backup = _back_up(source, state.path / BACKUPS)
    make_directory(str(destination.parent))
    if os.path.lexists(destination):
        raise _refused(f"{destination} exists already; nothing was moved", destination)
    source.rename(destination)
    try:
        for directory in (destination.parent, source.parent, state.path):
            sync_directory(str(directory))
    except OSError as error:
        raise LocalStoreError(
            LOCAL_FILESYSTEM_ERROR,
            f"{source} was moved to {destination}; whether that outlasts a power cut is unknown: "
            f"{error}",
            context={"path": str(destination), "backup": str(backup)},
            hint=f"have the disk looked at before an owner starts; a copy is in {backup}",
            retryable=False,
        ) from error
    return Migration(source, destination, backup)


def _back_up(source: Path, home: Path) -> Path:
    """A durable copy of a directory, compared with it byte for byte."""
    make_directory(str(home), 0o700)
    backup = home / f"{source.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    if os.path.lexists(backup):
        raise _refused(f"the backup {backup} exists already", backup, "try again")
    # Under another name first: half a copy must not look like a backup.
    draft = home / f".{backup.name}-{secrets.token_hex(8)}"
    try:
        _copy(source, draft)
        draft.rename(backup)
        sync_directory(str(home))
    except BaseException:
        rmtree(draft, ignore_errors=True)
        raise
    return backup


def _copy(source: Path, draft: Path) -> None:
    copytree(source, draft, symlinks=True)
    for copy in [*draft.rglob("*"), draft]:
        descriptor = os.open(copy, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if _digests(source) != _digests(draft):
        raise OSError(errno.EIO, f"the backup {draft} is not what was copied")


def _digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def _refused(message: str, path: Path, hint: str | None = None) -> LocalStoreError:
    return LocalStoreError(BINDING_SETUP_FAILED, message, context={"path": str(path)}, hint=hint)


def _failed(message: str, path: Path) -> LocalStoreError:
    return LocalStoreError(LOCAL_FILESYSTEM_ERROR, message, context={"path": str(path)})
