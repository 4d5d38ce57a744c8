"""SQLite beside the plain `sqlite3` module."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import backlog
import fairness
import handling
import hop
import wakes
import workloads
from scene import FileScene

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = [*workloads.ALL, *backlog.ALL, *wakes.ALL, *fairness.ALL, *handling.ALL]


@contextmanager
def scene(parent: Path | None, *, rounds: int, scale: float) -> Iterator[FileScene]:
    """A directory for the databases, gone with all of them at the end."""
    with tempfile.TemporaryDirectory(prefix="alkstore-bench-", dir=parent) as directory:
        yield FileScene(directory=Path(directory), rounds=rounds, scale=scale)


async def prices(_: FileScene) -> dict[str, float]:
    """What an awaited call pays here and the plain module does not, in seconds."""
    return {"a call to another thread and back, with nothing done": await hop.measure()}


def where(_: FileScene) -> dict[str, str]:
    """The release that the numbers depend on."""
    return {"sqlite": sqlite3.sqlite_version}
