"""Databases, servers and proxies for the tests of the Postgres engine."""

import contextlib
import os

import pytest
import pytest_asyncio
from proxy import Proxy
from server import GIVEN_SERVER, Cluster, Databases


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
    server.stop()


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
    server.stop()


@pytest_asyncio.fixture
async def proxy_to():
    """Start a proxy in front of a URL's server."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(url) -> Proxy:
            return await stack.enter_async_context(Proxy(url))

        yield start
