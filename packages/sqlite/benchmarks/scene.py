"""Where SQLite is measured, and with which options."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alkstore_sqlite import SqliteOpts
from frame import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

Synchronous = Literal["FULL", "NORMAL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScene(Scene):
    """A directory for files."""

    directory: Path

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A path for a new database, removed with all beside it at the end."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            yield Path(directory, "bench.db")


def options(synchronous: Synchronous = "FULL", poll_interval: float = 0.001) -> SqliteOpts:
    """The store's options under measurement; all others are the defaults."""
    return SqliteOpts(synchronous=synchronous, poll_interval=poll_interval)
