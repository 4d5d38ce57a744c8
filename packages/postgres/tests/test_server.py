"""The servers that the tests start: durable, restarted on their port, and clean."""

import psycopg
import pytest

pytestmark = pytest.mark.once


def one(url, statement):
    """The only value of a statement's result."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchone()[0]


def test_databases_are_empty_and_durable(postgres_url):
    """A test gets a database without tables, on a server that really writes to its disk."""
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert 0 == one(postgres_url, tables)
    assert "on" == one(postgres_url, "SHOW fsync")
    assert "on" == one(postgres_url, "SHOW synchronous_commit")
    assert "UTF8" == one(postgres_url, "SHOW server_encoding")


def test_own_servers_survive_a_restart(own_server):
    """What was committed before a server was restarted is there afterwards, at the same URL."""
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    own_server.restart()
    assert 7 == one(own_server.url, "SELECT value FROM kept")
