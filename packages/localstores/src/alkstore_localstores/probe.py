"""Looking at a database file before anything is done to it.

What is refused here keeps every byte, so SQLite never opens it for writing: without a log it
reads the file as it stands; with a log that others are using it takes part in their index of it;
with a log alone, as Turso or a crash leaves it, it gets another name of both, where it can make
an index; with a rollback journal it gets a copy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from alkstore_core.sql.dbapi import Fault, retry_pause
from alkstore_localstores import guard
from alkstore_localstores.drivers import BUSY_SECONDS, SqliteDbapi
from alkstore_localstores.errors import BINDING_SETUP_FAILED, LocalStoreError
from alkstore_localstores.formats import COMPILER, FIND_MARKER, meta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Table

    from alkstore_core.sql.dbapi import Connection
    from alkstore_localstores.formats import Format

WAL_HEADER = 32
"""Bytes of a log before its first frame."""

_CHECKED_PAGES = 2048
"""Files of so many pages are read whole before they are opened; larger ones where it matters."""


def probe(path: str, format_: Format) -> None:
    """Return when the file is of this format, or can become it; change nothing.

    Raises:
        LocalStoreError: it is something else, or damaged.

    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        before = _state(path)
        try:
            _probe(path, format_)
        except sqlite3.Error as error:
            # Somebody who works on the file makes a reader without locks see things.
            busy = SqliteDbapi().judge(error) is Fault.BUSY
            if not (busy or _state(path) != before) or time.monotonic() > deadline:
                raise _unreadable(path, error, busy=busy) from error
        except FileNotFoundError:
            # A log or a journal that was there has been dealt with.
            if time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(retry_pause())


def _probe(path: str, format_: Format) -> None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise refused(path, f"{path} is {kind}", "move it away, or choose another directory")
    if found is None or not found.st_size:
        log = next((n for n in _logs(path) if _size(n) > WAL_HEADER), None)
        if log is not None:
            # SQLite would delete it without a word.
            raise refused(
                path,
                f"{log} holds transactions of a database, and {path} is missing or empty",
                "restore the file from the backup that the log belongs to, or move the log away",
            )
        return
    with readable(path) as connection:
        look(connection, path, format_)
        _check_pages(connection, path)


@contextlib.contextmanager
def readable(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that reads the database as it stands, and changes nothing.

    Raises:
        sqlite3.Error: SQLite cannot read it.
        OSError: the system does not let us.

    """
    with _name(path) as (name, options):
        connection = sqlite3.connect(f"file:{quote(name)}?{options}", uri=True, timeout=0)
        try:
            connection.isolation_level = None
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()


def look(connection: Connection, path: str, format_: Format) -> bool:
    """Whether the tables and the marker are all there; what is there has to be this format's.

    Raises:
        LocalStoreError: it is another format's, or has another shape.

    """
    encoding = _scalar(connection, "PRAGMA encoding")
    if encoding != "UTF-8":
        raise refused(
            path, f"{path} is in the encoding {encoding}, and has to be UTF-8", "restore a backup"
        )
    if _scalar(connection, "PRAGMA auto_vacuum"):
        raise refused(
            path,
            f"{path} is in an auto_vacuum mode, which Turso cannot write",
            "run PRAGMA auto_vacuum=0 and VACUUM on it with all its users stopped",
        )
    kinds = dict(connection.execute("SELECT name, type FROM sqlite_master").fetchall())
    if meta.name in kinds:
        _check_shape(connection, path, meta, kinds)
        marker = read_marker(connection)
        if marker is not None and marker != (format_.marker,):
            raise refused(
                path,
                f"{path} has the format {marker[0]!r}; supported is {format_.marker!r}",
                "use the release that knows this format, or choose another directory",
            )
    else:
        marker = None
    if format_.table.name in kinds:
        _check_shape(connection, path, format_.table, kinds)
    return marker is not None and format_.names() <= kinds.keys()


def read_marker(connection: Connection) -> tuple[Any] | None:
    """The row that says which format this is."""
    request = COMPILER.request(FIND_MARKER, {})
    rows = connection.execute(request.sql, request.arguments).fetchall()
    return tuple(rows[0]) if rows else None


def _check_shape(connection: Connection, path: str, table: Table, kinds: dict[str, str]) -> None:
    rows = connection.execute(f'PRAGMA table_info("{table.name}")').fetchall()
    found = {str(row[1]) for row in rows}
    wanted = {column.name for column in table.columns}
    if kinds[table.name] != "table" or found != wanted:
        raise refused(
            path,
            f"{kinds[table.name]} {table.name!r} in {path} has the columns {sorted(found)}, and "
            f"this format's table has {sorted(wanted)}",
            "the file belongs to another program: choose another directory",
        )


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    if _scalar(connection, "PRAGMA page_count") > _CHECKED_PAGES:
        return
    problem = _scalar(connection, "PRAGMA quick_check(1)")
    if problem != "ok":
        raise refused(path, f"{path} is damaged: {problem}", "restore a backup")


def _scalar(connection: Connection, sql: str) -> Any:
    return connection.execute(sql).fetchall()[0][0]


@contextlib.contextmanager
def _name(path: str) -> Iterator[tuple[str, str]]:
    """A name under which SQLite can read the database, and the options to do it with."""
    wal, journal = _logs(path)
    if _size(journal):
        with _copied(path, journal) as name:
            yield name, "mode=rw"
    elif not _size(wal):
        yield path, "mode=ro&immutable=1"
    elif _is_indexed(path):
        yield path, "mode=ro"
    else:
        with _linked(path, wal) as name:
            yield name, "mode=ro"


def _is_indexed(path: str) -> bool:
    """Whether the log's index has to be read too: not when nobody keeps it, as it is made anew."""
    index = f"{path}-shm"
    return os.path.exists(index) and (guard.is_locked(index) or not guard.SUPPORTED)  # noqa: PTH110


@contextlib.contextmanager
def _linked(*files: str) -> Iterator[str]:
    """Other names for the same files, where SQLite can put its index of the log."""
    home = os.path.dirname(files[0])  # noqa: PTH120
    try:
        place = tempfile.TemporaryDirectory(prefix=".probe-", dir=home)
    except OSError:
        with _copied(*files) as name:
            yield name
        return
    with place:
        names = [_under(place.name, file) for file in files]
        try:
            for file, name in zip(files, names, strict=True):
                os.link(os.path.realpath(file), name)
        except OSError:
            with _copied(*files) as name:
                yield name
        else:
            yield names[0]


@contextlib.contextmanager
def _copied(*files: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="alkstore-probe-") as place:
        for file in files:
            shutil.copyfile(file, _under(place, file))
        yield _under(place, files[0])


def _under(directory: str, file: str) -> str:
    return str(Path(directory) / Path(file).name)


def _logs(path: str) -> tuple[str, str]:
    return f"{path}-wal", f"{path}-journal"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0


def _state(path: str) -> list[tuple[int, int] | None]:
    """What changes when somebody works on the database."""
    states: list[tuple[int, int] | None] = []
    for name in (path, *_logs(path)):
        try:
            found = os.stat(name)  # noqa: PTH116
        except OSError:
            states.append(None)
        else:
            states.append((found.st_size, found.st_mtime_ns))
    return states


def refused(path: str, message: str, hint: str) -> LocalStoreError:
    """A file that is not ours to open."""
    return LocalStoreError(BINDING_SETUP_FAILED, message, context={"file": path}, hint=hint)


def _unreadable(path: str, error: sqlite3.Error, *, busy: bool) -> LocalStoreError:
    if busy:
        return refused(
            path,
            f"{path} stayed locked by another process for {BUSY_SECONDS:g} s",
            "stop the process that has it for itself; Turso in single-process mode does",
        )
    return refused(
        path, f"{path} cannot be read as a database: {error}", "restore a backup, or move it away"
    )
