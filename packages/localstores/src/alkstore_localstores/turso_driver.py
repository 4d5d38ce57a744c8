"""Turso through pyturso; needs the extra `turso`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import turso
from turso._turso import PyTursoStatusCode as _Status

from alkstore_core.sql.dbapi import Fault
from alkstore_localstores.drivers import BUSY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.sql.dbapi import Connection, Cursor
    from alkstore_localstores.drivers import DriverName

# BEGIN and COMMIT come with each group of operations.
_TRANSACTIONS = frozenset({"BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"})

_MULTIPROCESS = "multiprocess_wal"
_BUSY = "Busy"

# The file or the disk is not what it should be: errors that say so by their kind, and texts of
# those that do not.
_LOST_KINDS = frozenset({"Corrupt", "DatabaseFull", "IoError", "NotAdb", "Readonly"})
_LOST = ("I/O error", "readonly", "Corrupt", "not a database", "Invalid page")


class TursoError(Exception):
    """What pyturso raised, in its words.

    Without its traceback: the frames there would keep the connection, and with it Turso's locks,
    for as long as somebody keeps the error.
    """

    def __init__(self, text: str, fault: Fault) -> None:
        super().__init__(text)
        self.fault = fault


class TursoConnection:
    """A connection that lets go of everything when it is closed, and turns panics into errors.

    It keeps the statements it has prepared, below pyturso's own cursors: those prepare each
    statement twice each time, which takes longer than most of ours do. That is no public
    interface, and the extra asks for exactly one release.
    """

    def __init__(self, path: str, features: str | None) -> None:
        self.release: Callable[[], None] | None = None
        self._prepared: dict[str, Any] = {}
        connection = _told(lambda: turso.connect(path, experimental_features=features))
        self._connection: Any = connection._conn  # noqa: SLF001 - see above

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as far as one has to reckon with it."""
        try:
            return not _told(self._connection.get_auto_commit)
        except TursoError:
            # So that it is rolled back, or the connection given up if that fails as well.
            return True

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Execute to the end; the rows are read, so that no statement stays unfinished."""
        finished: Cursor = _told(lambda: self._execute(sql, tuple(parameters)))
        return finished

    def close(self) -> None:
        """Close; then give up what was held for it. Idempotent."""
        connection, self._connection = self._connection, None
        release, self.release = self.release, None
        try:
            if connection is not None:
                _told(self._finalize_all)
                _told(connection.close)
        finally:
            # The database's locks go with the last reference.
            del connection
            if release is not None:
                release()

    def _execute(self, sql: str, parameters: tuple[Any, ...]) -> _Finished:
        kept = bool(parameters) or sql in _TRANSACTIONS
        # Out of the dictionary while it runs: one that has failed is not used again.
        statement = self._prepared.pop(sql, None) or self._connection.prepare_single(sql)
        try:
            if parameters:
                statement.bind(parameters)
            finished = _rows(statement) if statement.columns() else _count(statement)
            statement.reset()
        except BaseException:
            kept = False
            raise
        finally:
            if kept:
                self._prepared[sql] = statement
            else:
                statement.finalize()
        return finished

    def _finalize_all(self) -> None:
        prepared, self._prepared = self._prepared, {}
        for statement in prepared.values():
            statement.finalize()


class _Finished(NamedTuple):
    """What a statement gave."""

    rows: list[Any]
    rowcount: int

    def fetchall(self) -> list[Any]:
        return self.rows


def _rows(statement: Any) -> _Finished:
    rows = []
    while (status := statement.step()) != _Status.Done:
        if status == _Status.Row:
            rows.append(statement.row())
        else:
            statement.run_io()
    return _Finished(rows, -1)


def _count(statement: Any) -> _Finished:
    while (result := statement.execute()).status == _Status.Io:
        statement.run_io()
    return _Finished([], int(result.rows_changed))


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
    # What is connecting has wrapped its errors, what is executing has not.
    kinds = {type(error).__name__, type(error.__context__).__name__}
    if _BUSY in kinds:
        return Fault.BUSY
    text = str(error)
    lost = not kinds.isdisjoint(_LOST_KINDS) or any(word in text for word in _LOST)
    return Fault.CONNECTION if lost else Fault.STATEMENT
