"""`SqliteStore`: one host, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alkstore_core import DatabaseError
from alkstore_core.sql.store import SqlStore
from alkstore_sqlite.engine import SqliteEngine
from alkstore_sqlite.opts import SqliteOpts

if TYPE_CHECKING:
    import os

    from alkstore_core import Clock


_SCHEME: Final = "sqlite:///"


class SqliteStore(SqlStore):
    """A store in one SQLite file, shared by any number of processes of one host.

    `path` is a plain path on a local disk, never taken for a URI; the file is made when it is
    missing, its directory is not. SQLite's `-wal` and `-shm` files stand beside it. With an
    injected `clock` that clock stamps and judges everything.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        opts: SqliteOpts | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; nothing is opened before `open()` or `async with`."""
        super().__init__(SqliteEngine(path, SqliteOpts() if opts is None else opts, clock))


def engine_from_url(url: str, *, clock: Clock | None = None) -> SqliteStore:
    """An unopened store; `url` is `sqlite:///` and then the path, verbatim.

    Raises:
        DatabaseError: the URL has another shape.

    """
    path = url[len(_SCHEME) :]
    if url[: len(_SCHEME)].lower() != _SCHEME or not path:
        raise DatabaseError(
            "a SQLite URL is sqlite:/// without a driver, and then the path: sqlite:///app.db for "
            "a file in the working directory, sqlite:////var/lib/app.db for an absolute path"
        )
    return SqliteStore(path, clock=clock)
