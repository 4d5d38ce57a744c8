"""The tables in the file: made once, never changed behind a running worker's back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite

from alkstore_core import DatabaseError
from alkstore_core.sql.tables import PREFIX, SCHEMA_VERSION, ddl, meta
from alkstore_sqlite.connections import open_plain, patiently

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable


def ensure_schema(
    path: str, connect: Callable[[], sqlite3.Connection], busy_timeout: float
) -> None:
    """Leave the file with our schema, whoever else opens it at the same time.

    A file that already has it is not written to, unless somebody ran ANALYZE on it: what that
    noted of our tables is deleted. A file of a newer version is not touched, not
    even switched to WAL.

    Raises:
        DatabaseError: the file's schema version is not the one this release knows.
        sqlite3.Error: the file cannot be opened, read or written.

    """
    connection = open_plain(path)
    try:
        current = patiently(lambda: _is_current(connection, path), busy_timeout)
        if current and not _has_statistics(connection):
            return
    finally:
        connection.close()
    connection = connect()
    try:
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), busy_timeout)
        try:
            if not _is_current(connection, path):
                _create(connection)
            if _has_statistics(connection):
                connection.execute(f"DELETE {_STATISTICS}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    finally:
        connection.close()


def _create(connection: sqlite3.Connection) -> None:
    for statement in ddl(sqlite.dialect()):
        connection.execute(statement)
    connection.execute(
        f'INSERT INTO "{meta.name}" VALUES (?, ?)',  # noqa: S608 - our own name
        ("schema_version", str(SCHEMA_VERSION)),
    )


# Statistics of an hour when our tables were almost empty would make SQLite scan them when they
# are full. Our statements are written for the plans it makes without any.
_STATISTICS = f"FROM sqlite_stat1 WHERE tbl GLOB '{PREFIX}*'"


def _has_statistics(connection: sqlite3.Connection) -> bool:
    known = "SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'"
    found = connection.execute(known).fetchone() is not None
    return found and connection.execute(f"SELECT 1 {_STATISTICS}").fetchone() is not None


def _is_current(connection: sqlite3.Connection, path: str) -> bool:
    (encoding,) = connection.execute("PRAGMA encoding").fetchone()
    if encoding != "UTF-8":
        raise DatabaseError(
            f"{path} is a database in {encoding}, in which payloads would not keep their "
            "bytes; alkstore-sqlite takes files in UTF-8, SQLite's default"
        )
    known = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (meta.name,)
    ).fetchone()
    if known is None:
        return False
    row = connection.execute(
        f"SELECT value FROM \"{meta.name}\" WHERE key = 'schema_version'"  # noqa: S608 - our own name
    ).fetchone()
    found = None if row is None else row[0]
    if found != str(SCHEMA_VERSION):
        message = (
            f"{path} holds alkstore schema version {found}, this release of alkstore-sqlite "
            f"knows version {SCHEMA_VERSION}; nothing was changed. Use the release that wrote "
            "the file, or a newer one"
        )
        raise DatabaseError(message)
    return True
