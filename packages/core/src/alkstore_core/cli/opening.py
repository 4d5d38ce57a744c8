"""Opening the store that the command line names."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import click

from alkstore_core import JobSource, Store, open_store
from alkstore_core.cli.escaping import safe
from alkstore_core.cli.statuses import NoDatabase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

T = TypeVar("T")

_FILE: Final = "sqlite:///"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do it in an event loop of its own."""
    return asyncio.run(work)


@contextlib.asynccontextmanager
async def opened(url: str | None, *, create: bool = False) -> AsyncGenerator[Store]:
    """The store of a URL, open; a file that is not there is made with `create` alone.

    Raises:
        ClickException: there is no URL, or nothing where it says.
        DatabaseError: the database is not reached, or refuses.

    """
    if not url:
        raise click.UsageError("name the database: --url sqlite:///app.db, or ALKSTORE_URL")
    if url.lower().startswith("mem:"):
        raise click.UsageError(
            "a database in memory ends with its process, and this one has just begun: name the "
            "file or the server that your application uses"
        )
    if ":" not in url:
        raise click.UsageError(f"{url!r} is no URL: for a file of SQLite write sqlite:///{url}")
    path = file_of(url)
    # An operator who mistypes a path is not to look at an empty file and be content.
    if path is not None and not create:
        if not exists(path):
            raise NoDatabase(
                f"there is no file {path}: your application makes it, or alkstore worker, or "
                "--create where a command has that"
            )
        if not await asyncio.to_thread(_has_tables, path):
            raise NoDatabase(
                f"{path} is a SQLite file without a table of alkstore's, and was left as it is: "
                "name the file that your application uses"
            )
    async with open_store(url) as store:
        yield store


def file_of(url: str) -> Path | None:
    """The absolute path of a SQLite URL; `None` for those of other engines."""
    path = url[len(_FILE) :]
    return Path(path).absolute() if url[: len(_FILE)].lower() == _FILE and path else None


def name_of(url: str) -> str:
    """What people call the database of a URL: a file's name, or the last part of a path."""
    path = file_of(url)
    if path is not None:
        return path.name
    # Nothing of a password that was not encoded may be taken for a path.
    name = safe(url).partition("?")[0].rpartition("/")[2]
    return "alkstore" if not name or "@" in name or ":" in name else unquote(name)


def exists(path: Path) -> bool:
    """Whether there is such a file.

    Raises:
        ClickException: nobody can tell, as behind a directory that is closed to us.

    """
    try:
        return path.exists()
    except OSError as error:
        raise NoDatabase(f"cannot look for {path}: {error.strerror}") from None


def source_of(store: Store, name: str, *, outbox: bool) -> JobSource:
    """The queue, or what is behind the outbox."""
    return store.outbox(name).backing if outbox else store.queue(name)


def _has_tables(path: Path) -> bool:
    """Whether a store was opened on that file before; a file that says nothing may be one.

    Opening it as a store would make the tables, in whoever's file it is.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            found = file.execute("SELECT 1 FROM sqlite_master WHERE name = '__alkstore_meta'")
            return found.fetchone() is not None
    except sqlite3.Error:
        # The engine says better what is wrong with it.
        return True
