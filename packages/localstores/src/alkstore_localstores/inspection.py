"""What is in a stopped store's file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from alkstore_localstores.errors import BINDING_SETUP_FAILED, LocalStoreError
from alkstore_localstores.files import unix_milliseconds
from alkstore_localstores.formats import COMPILER, KV, QUEUE
from alkstore_localstores.holders import refuse_live, siblings
from alkstore_localstores.inspection_ops import COUNTS
from alkstore_localstores.opening import real_name
from alkstore_localstores.probe import WAL_HEADER, look, read_marker, readable

if TYPE_CHECKING:
    from alkstore_localstores.formats import Format

_FRAME_HEADER = 24


@attrs.frozen
class Inspection:
    """A stopped store: its format, its rows by state, and how its file stands."""

    file: str
    format: str
    counts: dict[str, int]
    """For a key-value store total, live and expired; for a queue total, visible, in flight
    and delayed."""

    pages: int
    page_size: int
    wal_bytes: int
    wal_frames: int
    """Frames in the log, which are pages that are not yet in the file or are stale there."""

    sidecars: dict[str, int]
    """The files beside it, and their bytes."""

    intact: bool
    """Whether every page and index is as SQLite wants it."""

    problems: list[str]

    def fields(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "file": self.file,
            "format": self.format,
            "counts": self.counts,
            "pages": self.pages,
            "pageSize": self.page_size,
            "walBytes": self.wal_bytes,
            "walFrames": self.wal_frames,
            "sidecars": self.sidecars,
            "intact": self.intact,
            "problems": self.problems,
        }


def inspect_file(path: str | os.PathLike[str]) -> Inspection:
    """Look into a stopped store's file, its log included; every byte stays as it is. Blocking.

    Raises:
        LocalStoreError: `BINDING_SETUP_FAILED`; a process has it open, or it is no local store.

    """
    file = real_name(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
    if not os.path.isfile(file):  # noqa: PTH113
        raise LocalStoreError(
            BINDING_SETUP_FAILED,
            f"{file} is not there, or no file",
            context={"file": file},
            hint=f"name the file itself: {KV.file} or {QUEUE.file} in the store's directory",
        )
    refuse_live(file)
    sidecars = {name: os.stat(name).st_size for name in siblings(file)}  # noqa: PTH116
    try:
        with readable(file) as connection:
            return _inspect(file, connection, sidecars)
    except (sqlite3.Error, OSError) as error:
        raise LocalStoreError(
            BINDING_SETUP_FAILED, f"{file} cannot be read: {error}", context={"file": file}
        ) from error


def _inspect(file: str, connection: sqlite3.Connection, sidecars: dict[str, int]) -> Inspection:
    format_ = _format_of(file, connection)
    look(connection, file, format_)
    ((page_size,),) = connection.execute("PRAGMA page_size")
    ((pages,),) = connection.execute("PRAGMA page_count")
    problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    statement = COUNTS[format_.marker]
    request = COMPILER.request(statement, {"now": unix_milliseconds()})
    with closing(connection.execute(request.sql, request.arguments)) as cursor:
        names = [column[0] for column in cursor.description]
        (row,) = cursor.fetchall()
    wal = sidecars.get(f"{file}-wal", 0)
    return Inspection(
        file=file,
        format=format_.marker,
        counts=dict(zip(names, row, strict=True)),
        pages=pages,
        page_size=page_size,
        wal_bytes=wal,
        wal_frames=max(0, wal - WAL_HEADER) // (_FRAME_HEADER + page_size),
        sidecars=sidecars,
        intact=problems == ["ok"],
        problems=[] if problems == ["ok"] else problems,
    )


def _format_of(file: str, connection: sqlite3.Connection) -> Format:
    try:
        marker = read_marker(connection)
    except sqlite3.OperationalError:
        marker = None
    for format_ in (KV, QUEUE):
        if marker == (format_.marker,):
            return format_
    found = "no format" if marker is None else f"the format {marker[0]!r}"
    raise LocalStoreError(
        BINDING_SETUP_FAILED,
        f"{file} has {found}; supported are {KV.marker!r} and {QUEUE.marker!r}",
        context={"file": file},
    )
