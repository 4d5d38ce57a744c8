"""Turso through pyturso; needs the extra `turso`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import turso

from alkstore_core.sql.dbapi import Fault
from alkstore_localstores.drivers import BUSY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.sql.dbapi import Connection, Cursor
    from alkstore_localstores.drivers import DriverName

_MULTIPROCESS = "multiprocess_wal"
_BUSY = "Busy"

# Their texts, as Turso has no codes: the file or the disk is not what it should be.
_LOST = ("I/O error", "readonly", "read-only", "Corrupt", "not a database", "Invalid page", "full")


class TursoError(Exception):
    """What pyturso raised, in its words.

    Without its traceback: the frames there would keep the connection, and with it Turso's locks,
    for as long as somebody keeps the error.
    """

    def __init__(self, text: str, fault: Fault) -> None:
        super().__init__(text)
        self.fault = fault


class TursoConnection:
    """A connection that lets go of everything when it is closed, and turns panics into errors."""

    def __init__(self, path: str, features: str | None) -> None:
        self.release: Callable[[], None] | None = None
        self._connection: Any = _told(
            lambda: turso.connect(path, experimental_features=features, isolation_level=None)
        )

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(_told(lambda: self._connection.in_transaction))

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Execute to the end; the rows are read, so that no statement stays unfinished."""
        finished: Cursor = _told(lambda: _Finished(self._connection.execute(sql, parameters)))
        return finished

    def close(self) -> None:
        """Close; then give up what was held for it. Idempotent."""
        connection, self._connection = self._connection, None
        release, self.release = self.release, None
        try:
            if connection is not None:
                _told(connection.close)
        finally:
            # The database's locks go with the last reference.
            del connection
            if release is not None:
                release()


class _Finished:
    """What a statement gave."""

    def __init__(self, cursor: Any) -> None:
        self.rowcount: int = cursor.rowcount
        self._rows: list[Any] = cursor.fetchall()
        cursor.close()

    def fetchall(self) -> list[Any]:
        return self._rows


class TursoDbapi:
    """The engine that the formats name."""

    name: DriverName = "turso"
    is_turso = True

    def connect(self, path: str, release: Callable[[], None], *, multiprocess: bool) -> Connection:
        """Connect; without a timeout of its own Turso gives up at once when it is locked."""
        connection = TursoConnection(path, _MULTIPROCESS if multiprocess else None)
        try:
            connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        connection.release = release
        return connection

    def judge(self, error: BaseException | None) -> Fault:
        """As it was judged when it was raised."""
        return error.fault if isinstance(error, TursoError) else Fault.STATEMENT


def _told(action: Callable[[], Any]) -> Any:
    """Do it; an error is told without what hangs on it."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - some of pyturso's errors are no DB-API errors
        failure = TursoError(f"{type(error).__name__}: {error}", _fault(error))
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        failure = TursoError(f"Turso panicked: {panic}", Fault.CONNECTION)
    # Out here, so that the error of pyturso does not become its context.
    raise failure


def _fault(error: Exception) -> Fault:
    if _BUSY in (type(error).__name__, type(error.__context__).__name__):
        return Fault.BUSY
    text = str(error)
    return Fault.CONNECTION if any(word in text for word in _LOST) else Fault.STATEMENT
