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
    try:
        size = Path(path + "-wal").stat().st_size
    except FileNotFoundError:
        return
    if size > LARGE_WAL:
        yield Finding(
            code="sqlite.wal.large",
            severity="warning",
            message=(
                f"the write-ahead log of {path} has {size} bytes: some connection keeps a read "
                "transaction open, so that SQLite cannot reuse it"
            ),
        )
