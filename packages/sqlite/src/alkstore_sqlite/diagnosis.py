"""What an operator should know about a database file. `stat` only: nothing is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from alkstore_core import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE_WAL: Final = 64 * 1024 * 1024
"""Bytes. SQLite checkpoints at about 4 MB; far above it somebody holds a snapshot open."""


def diagnose(path: str) -> Iterator[Finding]:
    """Findings about the file at `path`; none when all is well."""
    names = _stat(path, "st_nlink")
    if names > 1:
        yield Finding(
            code="sqlite.file.names",
            severity="warning",
            message=(
                f"{path} is one of {names} names of its file (hard links): SQLite keeps a "
                "write-ahead log for each name, and programs that use different ones destroy the "
                "database; remove the others, and make backups with SQLite's own means"
            ),
        )
    size = _stat(f"{path}-wal", "st_size")
    if size > LARGE_WAL:
        yield Finding(
            code="sqlite.wal.large",
            severity="warning",
            message=(
                f"the write-ahead log of {path} has {size} bytes: some connection keeps a read "
                "transaction open, so that SQLite cannot reuse it"
            ),
        )


def _stat(path: str, what: str) -> int:
    try:
        found: int = getattr(Path(path).stat(), what)
    except FileNotFoundError:
        return 0
    return found
