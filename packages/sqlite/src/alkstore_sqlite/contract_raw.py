"""The other side of every ratio: the plain `sqlite3` module on our tables.

The strictest opponent that does the same row work: no names to check, no payloads to encode, no
wakes to send, statements cached by the driver, rows fetched as tuples. Needs no extra.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from alkstore_core.sql.tables import events, jobs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

ENQUEUE: Final = f"""
INSERT INTO "{jobs.name}" (queue, payload, state, priority, run_at, created_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s)
VALUES ('bench', ?, 'ready', 0, ?, ?, 0, 3, 300, 5)
"""  # noqa: S608 - our own names
CLAIM: Final = f"""
UPDATE "{jobs.name}" SET state = 'processing', attempts = attempts + 1, worker_id = 'worker',
    claimed_at = :now, claim_expires_at = :now + visibility_timeout_s
WHERE id IN (
    SELECT id FROM "{jobs.name}"
    WHERE state = 'ready' AND queue = 'bench' AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY priority DESC, run_at, id LIMIT :limit)
RETURNING *
"""  # noqa: S608 - as above
DELETE: Final = f'DELETE FROM "{jobs.name}" WHERE id = ?'  # noqa: S608 - as above
PUBLISH: Final = f"""
INSERT INTO "{events.name}" (stream, payload, created_at) VALUES ('bench', ?, ?)
"""  # noqa: S608 - as above
READ: Final = f"""
SELECT "offset", stream, "key", payload, headers, created_at FROM "{events.name}"
WHERE stream = 'bench' AND "offset" > ? ORDER BY "offset" LIMIT ?
"""  # noqa: S608 - as above


class RawRows:
    """One connection in autocommit; what is not said to be one commit is one commit per row."""

    def __init__(self, connection: sqlite3.Connection, payload: bytes) -> None:
        self._connection = connection
        self._payload = payload

    def enqueue(self) -> int | None:
        """Insert one job; its id."""
        now = int(time.time())
        return self._connection.execute(ENQUEUE, (self._payload, now, now)).lastrowid

    def enqueue_many(self, count: int) -> None:
        """Insert so many jobs in one commit."""
        now = int(time.time())
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(ENQUEUE, [(self._payload, now, now)] * count)
        self._connection.execute("COMMIT")

    def publish(self) -> int | None:
        """Insert one event; its offset."""
        return self._connection.execute(PUBLISH, (self._payload, int(time.time()))).lastrowid

    def enqueue_and_publish(self) -> None:
        """Insert a job and an event in one commit."""
        self._connection.execute("BEGIN IMMEDIATE")
        self.enqueue()
        self.publish()
        self._connection.execute("COMMIT")

    def claim(self, limit: int) -> list[tuple[Any, ...]]:
        """Claim jobs in one statement and one commit."""
        row = {"now": int(time.time()), "limit": limit}
        return self._connection.execute(CLAIM, row).fetchall()

    def delete(self, claimed: Iterable[tuple[Any, ...]]) -> None:
        """Delete claimed jobs in one commit."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(DELETE, [(row[0],) for row in claimed])
        self._connection.execute("COMMIT")

    def claim_and_delete(self) -> int:
        """Claim a job in one commit, delete it in the next; how many there were."""
        claimed = self.claim(1)
        for row in claimed:
            self._connection.execute(DELETE, (row[0],))
        return len(claimed)

    def read(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Select a page of events."""
        return self._connection.execute(READ, (after, limit)).fetchall()


def runs(rows: RawRows, page: int) -> dict[str, Callable[[int], int]]:
    """For each workload of the kit's bench what does so many operations and says how many.

    Several tasks would only take turns on the file's one writer lock, so there is one.
    """

    def each(step: Callable[[], object]) -> Callable[[int], int]:
        def run(count: int) -> int:
            for _ in range(count):
                step()
            return count

        return run

    def enqueue_many(count: int) -> int:
        for _ in range(count // page):
            rows.enqueue_many(page)
        return count // page * page

    def drain(count: int) -> int:
        return sum(rows.claim_and_delete() for _ in range(count))

    def read(count: int) -> int:
        done = after = 0
        while done < count:
            found = rows.read(after, page)
            if not found and not after:
                break
            done += len(found)
            after = found[-1][0] if len(found) == page else 0
        return done

    return {
        "enqueue": each(rows.enqueue),
        "enqueue-50": each(rows.enqueue),
        "enqueue-many": enqueue_many,
        "drain-1": drain,
        "drain-4": drain,
        "publish": each(rows.publish),
        "read": read,
        "transaction": each(rows.enqueue_and_publish),
    }
