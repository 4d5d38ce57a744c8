"""Where Postgres is measured: in schemas of a database that is ours alone."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from alkstore_core.sql.tables import events, jobs
from alkstore_postgres import PostgresOpts, PostgresStore
from alkstore_postgres.contract_raw import raw_pool, raw_rows
from calling import ENCODED
from frame import Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alkstore_postgres.contract_raw import RawPool, RawRows

FILL = f"""
INSERT INTO {{}}."{jobs.name}" (queue, payload, state, priority, run_at, created_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s)
SELECT 'bench', $2, $3, $4, now + $5, now, 0, 3, 300, 5
FROM generate_series(1, $1::int), extract(epoch FROM clock_timestamp()) AS now
"""
FILL_STREAM = f"""
INSERT INTO {{}}."{events.name}" (stream, payload, created_at)
SELECT 'bench', $2, extract(epoch FROM clock_timestamp()) FROM generate_series(1, $1::int)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Plain asyncpg: connections of its own, and its own pool."""

    rows: list[RawRows]
    pool: RawPool

    @property
    def one(self) -> RawRows:
        """One connection."""
        return self.rows[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScene(Scene):
    """A database."""

    url: str

    @asynccontextmanager
    async def schema(self) -> AsyncIterator[str]:
        """A schema with tables, made the way every program does: by opening a store."""
        name = f"bench_{secrets.token_hex(4)}"
        async with self.store(name):
            pass
        try:
            yield name
        finally:
            await self.run(f"DROP SCHEMA {name} CASCADE")

    def store(self, schema: str) -> PostgresStore:
        """A store with the default options."""
        return PostgresStore(self.url, opts=PostgresOpts(schema=schema))

    @asynccontextmanager
    async def raw(self, schema: str, connections: int = 1) -> AsyncIterator[Raw]:
        """Plain asyncpg on a schema's tables."""
        async with AsyncExitStack() as stack:
            rows = await stack.enter_async_context(raw_rows(self.url, schema, ENCODED, connections))
            pool = await stack.enter_async_context(raw_pool(self.url, schema, ENCODED))
            yield Raw(rows=rows, pool=pool)

    async def fill(self, schema: str, count: int, *, delay: int = 0, priority: int = 0) -> None:
        """Put many jobs into the table at once."""
        state = "delayed" if delay else "ready"
        await self.run(FILL.format(schema), count, ENCODED, state, priority, delay)

    async def fill_stream(self, schema: str, count: int) -> None:
        """Put many events into the table at once."""
        await self.run(FILL_STREAM.format(schema), count, ENCODED)

    async def settle(self) -> None:
        """Do now what the server would do in the middle of what is measured."""
        await self.run("VACUUM (ANALYZE)")
        with suppress(asyncpg.InsufficientPrivilegeError):
            await self.run("CHECKPOINT")

    async def run(self, sql: str, *arguments: object) -> None:
        """Run a statement on a connection of its own."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(sql, *arguments)
        finally:
            await connection.close()
