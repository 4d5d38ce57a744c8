"""The kit's harness: processes that try properties side by side do not hear of each other."""

import asyncio

import pytest

from alkstore_core.names import RECONNECTED
from alkstore_postgres.contract import SERVER, PostgresHarness


@pytest.fixture
def harnesses(postgres_url, monkeypatch):
    """Two, as two processes have them."""
    monkeypatch.setenv(SERVER, postgres_url)
    return PostgresHarness(), PostgresHarness()


async def test_two_processes_have_two_databases(harnesses):
    """What one notifies wakes nobody of the other, and what one cuts off is its own."""
    mine, other = harnesses
    async with (
        mine.home() as here,
        other.home() as there,
        mine.store(here, None) as store,
        other.store(there, None) as neighbour,
        store.listen("news") as receiver,
        neighbour.listen("news") as quiet,
        neighbour.listen("later") as later,
    ):
        await store.notify("news", 1)
        async with asyncio.timeout(20):
            assert "news" == (await receiver.recv()).channel
            await mine.sever(here)
            while (await receiver.recv()).channel != RECONNECTED:
                pass
            # On one connection notifications come in the order of their commits.
            await neighbour.notify("later", 1)
            assert "later" == (await later.recv()).channel
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(quiet.recv(), 0.1)


async def test_homes_of_one_process_are_in_one_database(harnesses):
    """Making a database takes long, so each process makes one, and finds it again."""
    async with harnesses[0].home() as one, harnesses[0].home() as two:
        assert one != two
        assert one.partition("/")[0] == two.partition("/")[0]
