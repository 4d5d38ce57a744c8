"""Raw SQLite connections to one database file, and what SQLite's errors mean.

The file is only ever opened through SQLite: closing any other descriptor of it would drop this
process's POSIX locks and lose commits.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from alkstore_core import DatabaseError
from alkstore_core.sql.dbapi import Fault, retry_pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_sqlite.opts import Synchronous

T = TypeVar("T")


_LOST = frozenset(
    {
        # A connection opened while the file was read-only stays so when it no longer is.
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
    }
)


def judge(error: BaseException | None) -> Fault:
    """What an error means. Sees through SQLAlchemy's wrapping."""
    while error is not None:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        if code is not None:
            primary = code & 0xFF
            if primary == sqlite3.SQLITE_BUSY:
                return Fault.BUSY
            return Fault.CONNECTION if primary in _LOST else Fault.STATEMENT
        error = getattr(error, "orig", None) or error.__cause__
    return Fault.STATEMENT


class Patience:
    """How long to ask for a busy database again, and after which pauses.

    Random ones: SQLite's own busy handler lets whoever is late be late again.
    """

    def __init__(self, busy_timeout: float) -> None:
        """Start now, for `busy_timeout` seconds."""
        self._deadline = time.monotonic() + busy_timeout

    def after(self, error: Exception) -> float:
        """Seconds to wait before the next try; raises `error` when there is to be none."""
        if judge(error) is not Fault.BUSY or time.monotonic() >= self._deadline:
            raise error
        return retry_pause()


def patiently(action: Callable[[], T], busy_timeout: float) -> T:
    """Do something again while the database is busy, for at most `busy_timeout` seconds."""
    patience = Patience(busy_timeout)
    while True:
        try:
            return action()
        except sqlite3.Error as error:
            pause = patience.after(error)
        time.sleep(pause)


@attrs.frozen
class FileIdentity:
    """Which file a path named when the store was opened."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, path: str) -> FileIdentity:
        """Look at the file; `stat` opens nothing."""
        found = os.stat(path)  # noqa: PTH116 - each commit asks, and a Path costs more than it
        return cls(path, found.st_dev, found.st_ino)

    def names(self, path: str) -> bool:
        """Whether `path` names this very file now."""
        try:
            found = FileIdentity.of(path)
        except OSError:
            return False
        return (found.device, found.inode) == (self.device, self.inode)

    def check(self) -> None:
        """Refuse to go on when the path names another file now.

        Raises:
            DatabaseError: the file was deleted or replaced: commits to it would be lost.

        """
        if not self.names(self.path):
            message = (
                f"the database file {self.path} was deleted or replaced while the store was "
                "open; close this store and construct a new one"
            )
            raise DatabaseError(message)


def other_link(path: str, other: str) -> bool:
    """Whether two paths of one file are hard links, so that SQLite keeps a log for each."""
    if path == other or os.stat(path).st_nlink == 1:  # noqa: PTH116 - as above
        return False
    return os.path.realpath(path) != os.path.realpath(other)


def connect(path: str, synchronous: Synchronous, busy_timeout: float) -> sqlite3.Connection:
    """Connect in WAL mode and autocommit. `path` is absolute, so never taken for a URI.

    SQLite's own busy handler is off: it is not fair, and it is not asked when a file is
    switched to WAL, so every wait is ours.
    """
    connection = open_plain(path)
    try:
        patiently(lambda: _use_wal(connection), busy_timeout)
        connection.execute(f"PRAGMA synchronous={synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_plain(path: str) -> sqlite3.Connection:
    """Connect without changing anything in the file."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=256)


def _use_wal(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        message = (
            f"SQLite keeps this database in journal mode {mode!r} and cannot switch it to WAL; "
            "put it on a local, writable disk"
        )
        raise DatabaseError(message)


def database_file(cursor: Any) -> str:
    """The file behind a connection's `main` database, as SQLite names it."""
    cursor.execute("PRAGMA database_list")
    return next((str(row[2]) for row in cursor.fetchall() if row[1] == "main"), "")
