"""A database in memory, and two clients of it."""

import pytest

from alkstore_core import ManualClock
from alkstore_mem import MemDatabase, MemStore


@pytest.fixture
def clock():
    """Time that moves by hand, from 1,000."""
    return ManualClock(start=1_000)


@pytest.fixture
def database():
    """A database that stores share."""
    return MemDatabase()


@pytest.fixture
async def store(database, clock):
    """An open store on the shared database."""
    async with MemStore(clock=clock, database=database) as opened:
        yield opened


@pytest.fixture
async def other(database, clock):
    """Another client."""
    async with MemStore(clock=clock, database=database) as opened:
        yield opened


@pytest.fixture
def statements(store, database):
    """Every statement that the connection executes, as text, from now on."""
    seen = []
    database.connection.set_trace_callback(seen.append)
    yield seen
    database.connection.set_trace_callback(None)


@pytest.fixture
def impatient(monkeypatch):
    """Writers that wait for another store's transaction give up after a moment."""
    monkeypatch.setattr("alkstore_mem.database.BUSY_TIMEOUT", 0.05)
