"""The two engines a store runs on: how to connect, and what their errors mean."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from alkstore_core.sql.dbapi import Fault, retry_pause
from alkstore_localstores.errors import BINDING_SETUP_FAILED, INVALID_INPUT, LocalStoreError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core.sql.dbapi import Connection

T = TypeVar("T")

DriverName = Literal["sqlite3", "turso"]

BUSY_SECONDS = 5.0
"""How long a call waits for another process's lock before it fails."""


class Dbapi(Protocol):
    """An engine."""

    name: DriverName
    is_turso: bool

    def connect(self, path: str, release: Callable[[], None], *, multiprocess: bool) -> Connection:
        """Connect to an existing file: WAL, autocommit, every commit durable.

        `release` is called when the connection has been closed.
        """

    def judge(self, error: BaseException | None) -> Fault:
        """What an error means for its connection."""


class SqliteConnection(sqlite3.Connection):
    """A connection that says when it is closed."""

    release: Callable[[], None] | None = None

    def close(self) -> None:
        """Close; then give up what was held for it. Idempotent."""
        super().close()
        release, self.release = self.release, None
        if release is not None:
            release()


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


class SqliteDbapi:
    """The `sqlite3` module."""

    name: DriverName = "sqlite3"
    is_turso = False

    def connect(
        self,
        path: str,
        release: Callable[[], None],
        *,
        multiprocess: bool,  # noqa: ARG002 - SQLite is the same for one process and for many
    ) -> Connection:
        """Connect; SQLite's own busy handler is off, for every wait is the runner's."""
        connection = sqlite3.connect(
            path,
            timeout=0,
            isolation_level=None,
            cached_statements=256,
            factory=SqliteConnection,
        )
        try:
            (mode,) = patiently(
                lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone(), self
            )
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        connection.release = release
        if mode != "wal":
            connection.close()
            raise LocalStoreError(
                BINDING_SETUP_FAILED,
                f"SQLite keeps {path} in journal mode {mode!r} and cannot switch it to WAL",
                context={"file": path},
                hint="put it on a local, writable disk",
            )
        return connection

    def judge(self, error: BaseException | None) -> Fault:
        """By SQLite's code."""
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return Fault.STATEMENT
        primary = code & 0xFF
        if primary == sqlite3.SQLITE_BUSY:
            return Fault.BUSY
        return Fault.CONNECTION if primary in _LOST else Fault.STATEMENT


def patiently(action: Callable[[], T], dbapi: Dbapi) -> T:
    """Do something again while the database is busy, for at most `BUSY_SECONDS`."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except Exception as error:
            if dbapi.judge(error) is not Fault.BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(retry_pause())


def find(name: Any) -> Dbapi:
    """The engine of that name.

    Raises:
        LocalStoreError: there is none, or its package is not installed.

    """
    if name == "sqlite3":
        return SqliteDbapi()
    if name == "turso":
        try:
            from alkstore_localstores.turso_driver import TursoDbapi  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise LocalStoreError(
                BINDING_SETUP_FAILED,
                f"driver 'turso' cannot be loaded: {error}",
                hint="pip install 'alkstore-localstores[turso]'",
            ) from error
        return TursoDbapi()
    raise LocalStoreError(
        INVALID_INPUT, f"there is no driver {shown(name)}", hint="it is 'sqlite3' or 'turso'"
    )
