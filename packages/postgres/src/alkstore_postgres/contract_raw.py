"""Plain asyncpg that does the same row work: what our rates are divided by.

The strictest opponent there is: our own tables and indexes, nothing checked, nobody woken,
statements prepared, rows left as the driver gives them, as few round trips as a program that
knew nothing else would make. Needs no extra.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from alkstore_core.sql.tables import events, jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

POOL: Final = 10
"""Connections that concurrent producers share."""

PRODUCERS: Final = 50
WORKERS: Final = 4

_JOB: Final = (
    "queue, payload, state, priority, run_at, created_at, attempts, max_attempts, "
    "visibility_timeout_s, backoff_base_s"
)
_ENQUEUE: Final = f"""
INSERT INTO {{}}."{jobs.name}" ({_JOB}) VALUES ('bench', $1, 'ready', 0, $2, $2, 0, 3, 300, 5)
RETURNING id
"""  # noqa: S608 - our own names
_ENQUEUE_MANY: Final = f"""
INSERT INTO {{}}."{jobs.name}" ({_JOB})
SELECT 'bench', payload, 'ready', 0, $2, $2, 0, 3, 300, 5 FROM unnest($1::bytea[]) AS payload
RETURNING id
"""  # noqa: S608 - as above
_CLAIM: Final = f"""
WITH best AS MATERIALIZED (
    SELECT id FROM {{0}}."{jobs.name}"
    WHERE state = 'ready' AND queue = 'bench' AND (expires_at IS NULL OR expires_at > $1)
    ORDER BY priority DESC, run_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
UPDATE {{0}}."{jobs.name}" SET state = 'processing', attempts = attempts + 1,
    worker_id = 'worker', claimed_at = $1, claim_expires_at = $1 + visibility_timeout_s
WHERE id = ANY (ARRAY(SELECT id FROM best)) RETURNING *
"""  # noqa: S608 - as above
_DELETE: Final = f'DELETE FROM {{}}."{jobs.name}" WHERE id = ANY ($1::bigint[])'  # noqa: S608 - as above
_PUBLISH: Final = f"""
INSERT INTO {{}}."{events.name}" (stream, payload, created_at) VALUES ('bench', $1, $2)
RETURNING "offset"
"""  # noqa: S608 - as above
_READ: Final = f"""
SELECT "offset", stream, "key", payload, headers, created_at FROM {{}}."{events.name}"
WHERE stream = 'bench' AND "offset" > $1 ORDER BY "offset" LIMIT $2
"""  # noqa: S608 - as above


class RawRows:
    """One connection in autocommit; what is not said to be one commit is one commit per row."""

    def __init__(
        self,
        connection: asyncpg.Connection,
        payload: bytes,
        prepared: Mapping[str, asyncpg.prepared_stmt.PreparedStatement],
    ) -> None:
        """Use `on` instead."""
        self._connection = connection
        self._payload = payload
        self._prepared = prepared

    @classmethod
    async def on(cls, connection: asyncpg.Connection, schema: str, payload: bytes) -> RawRows:
        """Prepare every statement for the tables of a schema."""
        # As for the engine's own connections: a plan of a table that is empty yet would stay.
        await connection.execute("SET enable_seqscan = off; SET jit = off")
        statements = (_ENQUEUE, _ENQUEUE_MANY, _CLAIM, _DELETE, _PUBLISH, _READ)
        quoted = _quoted(schema)
        prepared = {text: await connection.prepare(text.format(quoted)) for text in statements}
        return cls(connection, payload, prepared)

    async def enqueue(self) -> int:
        """Insert one job; its id."""
        id_: int = await self._prepared[_ENQUEUE].fetchval(self._payload, _now())
        return id_

    async def enqueue_many(self, count: int) -> int:
        """Insert so many jobs in one statement and one commit; how many there were."""
        return len(await self._prepared[_ENQUEUE_MANY].fetch([self._payload] * count, _now()))

    async def publish(self) -> int:
        """Insert one event; its offset."""
        offset: int = await self._prepared[_PUBLISH].fetchval(self._payload, _now())
        return offset

    async def enqueue_and_publish(self) -> None:
        """Insert a job and an event in one commit."""
        await self._connection.execute("BEGIN")
        await self.enqueue()
        await self.publish()
        await self._connection.execute("COMMIT")

    async def claim(self, limit: int) -> Sequence[asyncpg.Record]:
        """Claim jobs in one statement and one commit."""
        found: list[asyncpg.Record] = await self._prepared[_CLAIM].fetch(_now(), limit)
        return found

    async def delete(self, claimed: Sequence[asyncpg.Record]) -> None:
        """Delete claimed jobs in one statement and one commit."""
        await self._prepared[_DELETE].fetch([row[0] for row in claimed])

    async def claim_and_delete(self) -> int:
        """Claim a job in one commit, delete it in the next; how many there were."""
        claimed = await self.claim(1)
        if claimed:
            await self.delete(claimed)
        return len(claimed)

    async def read(self, after: int, limit: int) -> Sequence[asyncpg.Record]:
        """Select a page of events."""
        found: list[asyncpg.Record] = await self._prepared[_READ].fetch(after, limit)
        return found


class RawPool:
    """asyncpg's own pool, whose connections prepare a statement the first time they meet it."""

    def __init__(self, pool: asyncpg.Pool, schema: str, payload: bytes) -> None:
        self._pool = pool
        self._enqueue = _ENQUEUE.format(_quoted(schema))
        self._payload = payload

    async def enqueue(self) -> int:
        """Insert one job on whichever connection is free; its id."""
        id_: int = await self._pool.fetchval(self._enqueue, self._payload, _now())
        return id_


@contextlib.asynccontextmanager
async def raw_rows(
    dsn: str, schema: str, payload: bytes, count: int = 1
) -> AsyncIterator[list[RawRows]]:
    """So many connections for the block."""
    async with contextlib.AsyncExitStack() as stack:
        rows = []
        for _ in range(count):
            connection = await asyncpg.connect(dsn)
            stack.push_async_callback(connection.close)
            rows.append(await RawRows.on(connection, schema, payload))
        yield rows


@contextlib.asynccontextmanager
async def raw_pool(dsn: str, schema: str, payload: bytes) -> AsyncIterator[RawPool]:
    """A pool for the block, all of it connected."""
    async with asyncpg.create_pool(dsn, min_size=POOL, max_size=POOL) as pool:
        yield RawPool(pool, schema, payload)


@contextlib.asynccontextmanager
async def raw_run(
    workload: str, dsn: str, schema: str, payload: bytes, page: int
) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
    """For the block: what does so many operations of a workload of the kit's bench."""
    if workload == "enqueue-50":
        async with raw_pool(dsn, schema, payload) as pool:
            yield _each(PRODUCERS * [pool.enqueue])
        return
    async with raw_rows(dsn, schema, payload, WORKERS if workload == "drain-4" else 1) as rows:
        yield _runs(rows, page)[workload]


def _runs(rows: Sequence[RawRows], page: int) -> dict[str, Callable[[int], Awaitable[int]]]:
    one = rows[0]

    async def enqueue_many(count: int) -> int:
        return sum([await one.enqueue_many(page) for _ in range(count // page)])

    async def read(count: int) -> int:
        done = after = 0
        while done < count:
            found = await one.read(after, page)
            if not found and not after:
                break
            done += len(found)
            after = found[-1][0] if len(found) == page else 0
        return done

    return {
        "enqueue": _each([one.enqueue]),
        "enqueue-many": enqueue_many,
        "drain-1": _sum([one.claim_and_delete]),
        "drain-4": _sum([each.claim_and_delete for each in rows]),
        "publish": _each([one.publish]),
        "read": read,
        "transaction": _each([one.enqueue_and_publish]),
    }


def _each(steps: Sequence[Callable[[], Awaitable[Any]]]) -> Callable[[int], Awaitable[int]]:
    """Take so many steps, in as many tasks at once as are given."""

    async def counted(step: Callable[[], Awaitable[Any]]) -> int:
        await step()
        return 1

    return _sum([functools.partial(counted, step) for step in steps])


def _sum(steps: Sequence[Callable[[], Awaitable[int]]]) -> Callable[[int], Awaitable[int]]:
    """Take so many steps, in as many tasks at once as are given; the sum of what they say."""

    async def run(count: int) -> int:
        turns = itertools.repeat(None, count)

        async def task(step: Callable[[], Awaitable[int]]) -> int:
            return sum([await step() for _ in turns])

        return sum(await asyncio.gather(*map(task, steps)))

    return run


def _now() -> int:
    return int(time.time())


def _quoted(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '"'
