"""Calls while the server goes away and comes back."""

import asyncio

import pytest

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresStore

pytestmark = pytest.mark.once


async def test_calls_fail_as_promised_and_work_again(own_server):
    """While a server shuts down, is away and starts, calls and transactions give `DatabaseError`
    and nothing else; afterwards they work without anybody's help.
    """

    async def transaction(store):
        async with store.transaction() as tx:
            await tx.enqueue_tx("q", 1)

    calls = {
        "read": lambda store: store.queue("q").stats(),
        "write": lambda store: store.queue("q").enqueue(1),
        "transaction": transaction,
    }
    told = {name: set() for name in calls}
    worked = dict.fromkeys(calls, 0)
    over = asyncio.Event()

    async def keep_calling(store, name):
        while not over.is_set():
            try:
                await calls[name](store)
            except DatabaseError as error:
                told[name].add(str(error))
            else:
                worked[name] += 1
            await asyncio.sleep(0.002)

    async with PostgresStore(own_server.url) as store:
        async with asyncio.TaskGroup() as group:
            for name in calls:
                group.create_task(keep_calling(store, name))
            for _ in range(2):
                await asyncio.to_thread(own_server.stop)
                await asyncio.sleep(0.2)
                await asyncio.to_thread(own_server.start)
                before = dict(worked)
                async with asyncio.timeout(60):
                    while any(worked[name] == before[name] for name in calls):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            over.set()
        assert all(told.values())
        assert 1 <= await store.queue("q").enqueue(1)
