"""Stored rows on their way between engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.spi import Record, RecordKind, Scalar
    from alkstore_core.sql.op import Op


def dump(kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int) -> Op[list[Record]]:
    """Stored rows, after a position."""
    raise NotImplementedError


def load(kind: RecordKind, records: Sequence[Record]) -> Op[list[int]]:
    """Store dumped rows."""
    raise NotImplementedError
