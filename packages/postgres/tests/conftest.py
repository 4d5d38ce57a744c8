"""Databases, servers and proxies for the tests of the Postgres engine."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import asyncpg
import pytest
from proxy import Proxy
from server import GIVEN_SERVER, Cluster, Databases

from alkstore_postgres import PostgresStore
from alkstore_postgres.signals import PostgresSignals

PROCS = Path(__file__).parent / "procs"


@pytest.fixture(scope="session")
def cluster():
    """A data directory from which servers are started in a moment."""
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def server_url(request):
    """A server for all tests that restart none: the one that is given, or one of our own."""
    given = os.environ.get(GIVEN_SERVER)
    if given:
        yield given
        return
    server = request.getfixturevalue("cluster").server()
    yield server.url
    server.stop(signal.SIGQUIT)  # Nobody needs its checkpoint.


@pytest.fixture(scope="session")
def databases(server_url):
    """Makes empty databases."""
    databases = Databases(server_url)
    yield databases
    databases.close()


@pytest.fixture
def postgres_url(databases):
    """The URL of a database that is this test's alone, and empty."""
    with databases.empty() as url:
        yield url


@pytest.fixture
def own_server(cluster):
    """A server that a test may stop, crash and restart."""
    server = cluster.server()
    yield server
    server.stop(signal.SIGQUIT)  # Nobody needs its checkpoint.


@pytest.fixture
async def proxy_to():
    """Start a proxy in front of a URL's server."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(url) -> Proxy:
            return await stack.enter_async_context(Proxy(url))

        yield start


@pytest.fixture
async def sql(postgres_url):
    """A plain connection to the test's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def store(postgres_url):
    """An open store on the test's database."""
    async with PostgresStore(postgres_url) as store:
        yield store


@pytest.fixture
async def signals_on():
    """Make `Signals` that listen where a URL leads; `bounds` are the listener's."""
    made = []

    def make(url, schema="alkstore", **bounds) -> PostgresSignals:
        signals = PostgresSignals(
            schema, lambda: asyncpg.connect(url), describe="test database", **bounds
        )
        made.append(signals)
        return signals

    yield make
    for signals in made:
        await signals.end()


@pytest.fixture
async def spawn():
    """Start a script of `procs/` and wait for its first line; none outlives the test."""
    children = []

    async def start(script, *arguments) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable, PROCS / script, *arguments, stdout=asyncio.subprocess.PIPE
        )
        children.append(child)
        async with asyncio.timeout(60):
            assert await child.stdout.readline(), f"{script} ended before it said anything"
        return child

    yield start
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
