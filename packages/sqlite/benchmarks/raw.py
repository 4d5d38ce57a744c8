"""Files for both sides of a ratio: `alkstore_sqlite.contract_raw` on one of its own."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Self

from alkstore_core.sql.tables import events, jobs
from alkstore_sqlite import SqliteStore
from alkstore_sqlite.contract_raw import RawRows
from calling import ENCODED
from scene import options

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from scene import Synchronous

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
FILL = f"""
INSERT INTO "{jobs.name}" (queue, payload, state, priority, run_at, created_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s)
{NUMBERS} SELECT 'bench', ?, ?, ?, ?, ?, 0, 3, 300, 5 FROM n
"""
FILL_STREAM = f"""
INSERT INTO "{events.name}" (stream, payload, created_at) {NUMBERS} SELECT 'bench', ?, ? FROM n
"""


async def create(path: Path, synchronous: Synchronous) -> None:
    """Make the tables the way every program does: open a store."""
    async with SqliteStore(path, opts=options(synchronous)):
        pass


class RawFile(RawRows):
    """One connection to a file, which it can fill."""

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        super().__init__(self._connection, ENCODED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def fill(self, count: int, *, delay: int = 0, priority: int = 0) -> None:
        """Put many jobs into the table at once, and leave no WAL for the measured part to move."""
        now = int(time.time())
        state = "delayed" if delay else "ready"
        if count:
            row = (ENCODED, state, priority, now + delay, now)
            self._connection.execute(FILL, (count, *row))
        self._checkpoint()

    def fill_stream(self, count: int) -> None:
        """Put many events into the table at once."""
        if count:
            self._connection.execute(FILL_STREAM, (count, ENCODED, int(time.time())))
        self._checkpoint()

    def _checkpoint(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
