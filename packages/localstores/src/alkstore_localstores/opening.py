"""Making connections to a store's file: look first, guard, and only then make what is missing."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import uuid
from typing import TYPE_CHECKING

from alkstore_localstores import guard, registry
from alkstore_localstores.drivers import find, patiently
from alkstore_localstores.errors import (
    BINDING_SETUP_FAILED,
    LOCAL_FILESYSTEM_ERROR,
    LocalStoreError,
)
from alkstore_localstores.formats import COMPILER, SET_MARKER
from alkstore_localstores.probe import look, probe, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alkstore_core.sql.dbapi import Connection
    from alkstore_localstores.drivers import Dbapi, DriverName
    from alkstore_localstores.formats import Format

_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})
"""Errors of file systems that give a file one name only."""

_WAL_VERSIONS = slice(18, 20)
"""Where a database's header says that it keeps a log: both bytes are 2."""


class Opener:
    """Connects to one store's file, again whenever its runner asks for it. Blocking."""

    def __init__(self, path: str, format_: Format, driver: DriverName) -> None:
        """`path` is absolute."""
        self.dbapi: Dbapi = find(driver)
        self._given = path
        self._path = path
        self._format = format_
        self._key: registry.Key | None = None

    def forget(self) -> None:
        """Take the next connection for the first one, which makes what is missing."""
        self._key = None

    def check(self) -> None:
        """Refuse to go on when the path names another file than the one that was opened.

        Raises:
            LocalStoreError: commits to it would be lost.

        """
        if self._key is not None and registry.key_of(self._given) != self._key:
            raise LocalStoreError(
                self._format.failure,
                f"the database file {self._given} was deleted or replaced while the store was open",
                context={"file": self._given},
                hint="close this store and open another one",
                retryable=False,
            )

    def connect(self) -> Connection:
        """Connect; the first time make the directory, the file and its tables if need be.

        Raises:
            LocalStoreError: see `StoreFile.open`.

        """
        with _as_setup_errors(self._path):
            release = self._acquire()
            try:
                self.check()
                connection = self.dbapi.connect(
                    self._path, release, multiprocess=self._format.multiprocess
                )
            except BaseException:
                release()
                raise
            try:
                self._complete(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _acquire(self) -> Callable[[], None]:
        """Look at the file and guard it; return what gives it up again."""
        create = self._key is None
        if create:
            self._path = real_name(self._given)
        format_, dbapi, path = self._format, self.dbapi, self._path
        if create:
            make_directory(os.path.dirname(path))  # noqa: PTH120
        with registry.OPENING:
            if not registry.is_open(path, format_.marker, dbapi.name):
                self._look()
            held = None if dbapi.is_turso else guard.Guard(path, patience=5)
            try:
                if create:
                    create_file(path, format_)
                key = registry.opened(path, format_.marker, dbapi.name)
            except BaseException:
                if held is not None:
                    held.release()
                raise
        if self._key is None:
            self._key = key

        def release() -> None:
            registry.closed(key)
            if held is not None:
                held.release()

        return release

    def _look(self) -> None:
        path = self._path
        if guard.is_live(path):
            # Whoever reads beside Turso without its locks may see half a change. On Turso
            # itself the look at the open database is enough: its peers have passed the same.
            if not (self.dbapi.is_turso and self._format.multiprocess):
                raise guard.turso_is_live(path)
            return
        probe(path, self._format)
        if _exists(path) and not os.access(path, os.W_OK):
            raise refused(path, f"{path} is read-only for this process", "make it writable")
        if self.dbapi.is_turso:
            # Turso in one mode takes no notice of SQLite, nor of Turso in the other one.
            if guard.is_locked(path) or guard.is_locked(path + guard.SUFFIX):
                raise guard.others_are_live(path)
            if _exists(f"{path}-journal"):
                _settle(path)
            guard.forget_stale(path)

    def _complete(self, connection: Connection) -> None:
        """Make the tables and the marker where they are missing; else write nothing."""
        if patiently(lambda: look(connection, self._path, self._format), self.dbapi):
            return
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), self.dbapi)
        try:
            if not look(connection, self._path, self._format):
                make_tables(connection, self._format)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def real_name(path: str) -> str:
    """The name that a symbolic link in the place of a database leads to.

    Its log, its index and the guard lie beside that one: users of two names would miss each other.
    """
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114


def make_tables(connection: Connection, format_: Format) -> None:
    """Make what is missing of a format's tables and its marker."""
    for statement in format_.ddl():
        connection.execute(statement)
    request = COMPILER.request(SET_MARKER, {"marker": format_.marker})
    connection.execute(request.sql, request.arguments)


def create_file(path: str, format_: Format) -> None:
    """Make the database file if there is none: complete and durable from its first moment.

    Whoever opens the directory at the same time sees no file or all of it.
    """
    if _exists(path):
        return
    directory = os.path.dirname(path)  # noqa: PTH120
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        make_tables(memory, format_)
        content = bytearray(memory.serialize())
    content[_WAL_VERSIONS] = b"\x02\x02"
    name = os.path.join(directory, f".{format_.file}-{uuid.uuid4().hex}")  # noqa: PTH118
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        _give_name(name, path)
    finally:
        os.unlink(name)  # noqa: PTH108
    sync_directory(directory)


def _give_name(file: str, name: str) -> None:
    """Let the file have a second name, unless somebody else's has it already."""
    try:
        os.link(file, name)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Then the engine makes the tables in the file itself, in one transaction.
        os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))


def make_directory(directory: str, mode: int = 0o777) -> None:
    """Make a directory and what is missing above it, durably; nothing to do when it is there.

    `directory` is absolute, and `mode` for itself alone.
    """
    missing: list[str] = []
    while not os.path.isdir(directory):  # noqa: PTH112
        missing.append(directory)
        directory = os.path.dirname(directory)  # noqa: PTH120
    while missing:
        made = missing.pop()
        try:
            os.mkdir(made, 0o777 if missing else mode)  # noqa: PTH102
        except FileExistsError:
            if not os.path.isdir(made):  # noqa: PTH112
                raise
        # Also when somebody else has made it meanwhile: they may not have come to this yet.
        sync_directory(os.path.dirname(made))  # noqa: PTH120


def sync_directory(directory: str) -> None:
    """Make the directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _settle(path: str) -> None:
    """Let SQLite undo what a crash left half done; Turso takes no notice of rollback journals."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()


def _exists(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110


@contextlib.contextmanager
def _as_setup_errors(path: str) -> Iterator[None]:
    """Turn what the system and the engines say into the error of this package."""
    try:
        yield
    except LocalStoreError:
        raise
    except (OSError, ValueError) as error:
        raise LocalStoreError(
            LOCAL_FILESYSTEM_ERROR,
            f"{path} cannot be opened: {error}",
            context={"file": path},
            hint="the directory has to be on a local disk, writable, with room on it",
        ) from error
    except Exception as error:
        raise LocalStoreError(
            BINDING_SETUP_FAILED, f"{path} cannot be opened: {error}", context={"file": path}
        ) from error
