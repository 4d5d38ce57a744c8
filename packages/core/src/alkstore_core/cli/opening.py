"""Opening the store that the command line names."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from alkstore_core import JobSource, Store, open_store
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
    # An operator who mistypes a path is not to look at an empty file and be content.
    if not create and _is_missing(url):
        raise NoDatabase(f"there is no file {url[len(_FILE) :]}")
    async with open_store(url) as store:
        yield store


def source_of(store: Store, name: str, *, outbox: bool) -> JobSource:
    """The queue, or what is behind the outbox."""
    return store.outbox(name).backing if outbox else store.queue(name)


def _is_missing(url: str) -> bool:
    path = url[len(_FILE) :]
    return url[: len(_FILE)].lower() == _FILE and bool(path) and not Path(path).exists()
