"""Let these tests use the workspace's own scripts, and the Postgres engine's servers."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))


@pytest.fixture(scope="session")
def databases():
    """Makes empty databases on a server: the one that is given, or one of our own."""
    # The legs that need no server have no driver to ask it either.
    sys.path.append(str(ROOT / "packages/postgres/tests"))
    from server import GIVEN_SERVER, Cluster, Databases  # noqa: PLC0415

    given = os.environ.get(GIVEN_SERVER)
    cluster = None if given else Cluster()
    server = None if cluster is None else cluster.server()
    databases = Databases(given or server.url)
    yield databases
    databases.close()
    if cluster is not None:
        server.stop()
        cluster.close()


@pytest.fixture
def postgres_url(databases):
    """The URL of a database that is this test's alone, and empty."""
    with databases.empty() as url:
        yield url
