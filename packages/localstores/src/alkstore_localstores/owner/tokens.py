"""One credential for each queue: made here, kept in a file of 0600, compared by hash."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from typing import TYPE_CHECKING

from alkstore_localstores.errors import LOCAL_FILESYSTEM_ERROR, LocalStoreError
from alkstore_localstores.opening import make_directory, sync_directory

if TYPE_CHECKING:
    from pathlib import Path

_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}\n?")


class Tokens:
    """The credentials of the queues of one state directory.

    A token is on the disk before it is handed out, and stays the same until it is revoked. Files
    of another shape or mode are an error: a credential that others could have read or changed
    is none.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._digests: dict[str, bytes] = {}
        # What an unknown queue's token is compared with, so that it takes as long.
        self._nobodys = secrets.token_bytes(hashlib.sha256().digest_size)

    def issue(self, resource: str) -> str:
        """The queue's token; made when there is none.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: its file cannot be read or written.

        """
        path = self._directory / resource
        try:
            make_directory(str(self._directory), 0o700)
            token = self._read(path)
            if token is None:
                token = secrets.token_urlsafe(_BYTES)
                self._write(path, token)
        except OSError as error:
            raise _failed(path, error) from error
        self._digests[resource] = _digest(token.encode())
        return token

    def forget(self, resource: str) -> None:
        """Accept the queue's token no more, in this process."""
        self._digests.pop(resource, None)

    def revoke(self, resource: str) -> None:
        """Accept the queue's token never again. Idempotent.

        Raises:
            LocalStoreError: LOCAL_FILESYSTEM_ERROR: its file cannot be deleted.

        """
        self.forget(resource)
        path = self._directory / resource
        try:
            # Synced also when the file is gone already: whoever deleted it may not have come to it.
            path.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                sync_directory(str(self._directory))
        except OSError as error:
            raise _failed(path, error) from error

    def accepts(self, resource: str, token: bytes) -> bool:
        """Whether this is the queue's token. Takes the same time for each answer."""
        wanted = self._digests.get(resource, self._nobodys)
        return hmac.compare_digest(wanted, _digest(token))

    def accepts_any(self, token: bytes) -> bool:
        """Whether this is the token of any queue."""
        found = [self.accepts(resource, token) for resource in self._digests]
        return any(found)

    def _read(self, path: Path) -> str | None:
        try:
            opened = open(path, errors="replace", opener=_open_itself)  # noqa: SIM115
        except FileNotFoundError:
            return None
        with opened as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read(1024)
        if mode & 0o077:
            message = f"its mode is {mode:o}, so others may have read it; it must be 600"
            raise PermissionError(message)
        if not _TOKEN.fullmatch(text):
            raise OSError("it holds no token; delete the file, and a new one is made")
        return text.strip()

    def _write(self, path: Path, token: str) -> None:
        # Under another name first: a file with half a token would lock everybody out.
        draft = self._directory / f".{path.name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(draft, flags, 0o600), "w") as file:
                file.write(f"{token}\n")
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
            sync_directory(str(self._directory))
        finally:
            draft.unlink(missing_ok=True)


def _open_itself(path: str, flags: int) -> int:
    # Neither what a link leads to, nor a pipe that nobody writes to.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _failed(path: Path, error: OSError) -> LocalStoreError:
    return LocalStoreError(
        LOCAL_FILESYSTEM_ERROR,
        f"the file of the credential, {path}, cannot be used: {error.strerror or error}",
    )
