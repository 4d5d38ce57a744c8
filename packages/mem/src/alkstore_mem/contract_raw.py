"""The plain `sqlite3` module on our tables in memory: what the kit's bench compares us with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from alkstore_contract import BENCH, BENCH_PAGE, BENCH_PAYLOAD
from alkstore_core.sql.tables import events, jobs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from alkstore_contract import RawWorkload

_ENQUEUE: Final = f"""
INSERT INTO "{jobs.name}" (queue, payload, state, priority, run_at, created_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s)
VALUES ('{BENCH}', :payload, 'ready', 0, :now, :now, 0, 3, 300, 5)
"""  # noqa: S608 - our own names
_CLAIM: Final = f"""
UPDATE "{jobs.name}" SET state = 'processing', attempts = attempts + 1, worker_id = 'worker',
    claimed_at = :now, claim_expires_at = :now + visibility_timeout_s
WHERE id = (
    SELECT id FROM "{jobs.name}"
    WHERE state = 'ready' AND queue = '{BENCH}' AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY priority DESC, run_at, id LIMIT 1)
RETURNING *
"""  # noqa: S608 - as above
_DELETE: Final = f'DELETE FROM "{jobs.name}" WHERE id = ?'  # noqa: S608 - as above
_PUBLISH: Final = f"""
INSERT INTO "{events.name}" (stream, payload, created_at) VALUES ('{BENCH}', :payload, :now)
"""  # noqa: S608 - as above
_READ: Final = f"""
SELECT "offset", stream, "key", payload, headers, created_at FROM "{events.name}"
WHERE stream = '{BENCH}' AND "offset" > ? ORDER BY "offset" LIMIT {BENCH_PAGE}
"""  # noqa: S608 - as above
_PAYLOAD: Final = json.dumps(BENCH_PAYLOAD, separators=(",", ":")).encode()


class RawRows:
    """One connection in autocommit. Each method does so many operations and says how many."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def runs(self) -> dict[RawWorkload, Callable[[int], int]]:
        """Every workload; several tasks would only take turns on the connection."""
        return {
            "enqueue": self.enqueue,
            "enqueue-50": self.enqueue,
            "enqueue-many": self.enqueue_many,
            "drain-1": self.drain,
            "drain-4": self.drain,
            "publish": self.publish,
            "read": self.read,
            "transaction": self.enqueue_and_publish,
        }

    def enqueue(self, count: int) -> int:
        """Insert jobs, each in its commit."""
        return sum(self._execute(_ENQUEUE, _row()).rowcount for _ in range(count))

    def enqueue_many(self, count: int) -> int:
        """Insert jobs, a page of them in each commit."""
        done = 0
        for _ in range(count // BENCH_PAGE):
            self._execute("BEGIN")
            done += self._connection.executemany(_ENQUEUE, [_row()] * BENCH_PAGE).rowcount
            self._execute("COMMIT")
        return done

    def drain(self, count: int) -> int:
        """Claim a job, delete it."""
        done = 0
        for _ in range(count):
            for claimed in self._execute(_CLAIM, {"now": int(time.time())}).fetchall():
                done += self._execute(_DELETE, claimed[:1]).rowcount
        return done

    def publish(self, count: int) -> int:
        """Insert events, each in its commit."""
        return sum(self._execute(_PUBLISH, _row()).rowcount for _ in range(count))

    def read(self, count: int) -> int:
        """Select events, page by page, again and again."""
        done = after = 0
        while done < count:
            found: list[tuple[Any, ...]] = self._execute(_READ, (after,)).fetchall()
            if not found and not after:
                break
            done += len(found)
            after = found[-1][0] if len(found) == BENCH_PAGE else 0
        return done

    def enqueue_and_publish(self, count: int) -> int:
        """Insert a job and an event in each commit."""
        for _ in range(count):
            self._execute("BEGIN")
            self._execute(_ENQUEUE, _row())
            self._execute(_PUBLISH, _row())
            self._execute("COMMIT")
        return count


def _row() -> dict[str, Any]:
    return {"payload": _PAYLOAD, "now": int(time.time())}
