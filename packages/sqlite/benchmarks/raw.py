"""The other side of every ratio: the plain `sqlite3` module on our tables.

The strictest opponent that does the same row work: no names to check, no payloads to encode, no
wakes to send, statements cached by the driver, rows fetched as tuples.
"""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any, Self

from alkstore_core.sql.tables import events, jobs
from alkstore_sqlite import SqliteStore
from scene import options

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from scene import Synchronous

PAYLOAD = {
    "task": "thumbnail",
    "image": 4711,
    "sizes": [64, 128, 256],
    "source": "https://img.example.org/originals/4711.jpeg",
}
ENCODED = json.dumps(PAYLOAD, separators=(",", ":")).encode()

ENQUEUE = f"""
INSERT INTO "{jobs.name}" (queue, payload, state, priority, run_at, created_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s)
VALUES ('bench', ?, 'ready', 0, ?, ?, 0, 3, 300, 5)
"""
CLAIM = f"""
UPDATE "{jobs.name}" SET state = 'processing', attempts = attempts + 1, worker_id = 'worker',
    claimed_at = ?1, claim_expires_at = ?1 + visibility_timeout_s
WHERE id IN (
    SELECT id FROM "{jobs.name}"
    WHERE state = 'ready' AND queue = 'bench' AND (expires_at IS NULL OR expires_at > ?1)
    ORDER BY priority DESC, run_at, id LIMIT ?2)
RETURNING *
"""
DELETE = f'DELETE FROM "{jobs.name}" WHERE id = ?'
PUBLISH = f"""
INSERT INTO "{events.name}" (stream, payload, created_at) VALUES ('bench', ?, ?)
"""
READ = f"""
SELECT "offset", stream, "key", payload, headers, created_at FROM "{events.name}"
WHERE stream = 'bench' AND "offset" > ? ORDER BY "offset" LIMIT ?
"""
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


class RawFile:
    """One connection; what is not said to be one commit is one commit per row."""

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def enqueue(self) -> int | None:
        """Insert one job; its id."""
        now = int(time.time())
        return self._connection.execute(ENQUEUE, (ENCODED, now, now)).lastrowid

    def publish(self) -> int | None:
        """Insert one event; its offset."""
        return self._connection.execute(PUBLISH, (ENCODED, int(time.time()))).lastrowid

    def enqueue_and_publish(self) -> None:
        """Insert a job and an event in one commit."""
        self._connection.execute("BEGIN IMMEDIATE")
        self.enqueue()
        self.publish()
        self._connection.execute("COMMIT")

    def claim(self, limit: int) -> list[tuple[Any, ...]]:
        """Claim jobs in one statement and one commit."""
        return self._connection.execute(CLAIM, (int(time.time()), limit)).fetchall()

    def delete(self, claimed: Iterable[tuple[Any, ...]]) -> None:
        """Delete claimed jobs in one commit."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(DELETE, [(row[0],) for row in claimed])
        self._connection.execute("COMMIT")

    def read(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Select a page of events."""
        return self._connection.execute(READ, (after, limit)).fetchall()

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
