"""What the Postgres guide shows in other languages than Python holds as well."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import asyncpg
import attrs
import pytest
from test_examples import fences

from alkstore_postgres import PostgresOpts, PostgresStore
from wheelhouse import ROOT

PAGE = ROOT / "docs/guides/postgres.md"
ENGINE_TESTS = ROOT / "packages/postgres/tests"
ROLES, *QUERIES = [body for _, _, body in fences(PAGE, "sql")]


def test_roles():
    """The grants that the page shows are those with which the engine's tests use everything."""
    assert (ENGINE_TESTS / "roles.sql").read_text().strip() == ROLES.strip()


@pytest.mark.parametrize("query", QUERIES, ids=range(1, len(QUERIES) + 1))
async def test_query(postgres_url, query):
    """A monitoring query runs on the tables that are there."""
    async with PostgresStore(postgres_url) as store:
        await store.queue("emails").enqueue({})
    connection = await asyncpg.connect(postgres_url)
    for statement in query.split(";\n"):
        await connection.fetch(statement)
    await connection.close()


async def test_query_names_who_holds_a_stream_back(postgres_url):
    """The query for open publishers shows the session, and nothing once it has ended."""
    (query,) = [query for query in QUERIES if "pg_locks" in query]
    connection = await asyncpg.connect(postgres_url)
    async with PostgresStore(postgres_url) as store:
        async with store.transaction() as tx:
            await tx.publish_tx("orders", {})
            pid = (await tx.connection.exec_driver_sql("SELECT pg_backend_pid()")).scalar_one()
            assert [pid] == [row["pid"] for row in await connection.fetch(query)]
        assert [] == await connection.fetch(query)
    await connection.close()


async def test_query_shows_sessions(postgres_url):
    """The library's sessions bear its name: those of the pool, and the one that listens."""
    (query,) = [query for query in QUERIES if "'alkstore%'" in query]
    connection = await asyncpg.connect(postgres_url)
    async with PostgresStore(postgres_url) as store, store.listen("prices"):
        rows = await connection.fetch(query.split(";")[0])
    await connection.close()
    assert {"alkstore", "alkstore listener"} == {row["application_name"] for row in rows}


def test_commands(postgres_url):
    """Each `alkstore-postgres` command of the page runs, and ends as it should."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ALKSTORE_POSTGRES_URL": postgres_url,
    }
    text = "\n".join(body for _, _, body in fences(PAGE, "bash"))
    commands = re.findall(r"^alkstore-postgres .*$", text, flags=re.MULTILINE)
    assert 4 == len(commands)
    for command in commands:
        done = subprocess.run(
            shlex.split(command), env=environment, capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stderr


def test_pgbouncer():
    """PgBouncer is tried with the mode that the page shows."""
    (body,) = [body for _, _, body in fences(PAGE, "ini")]
    shown = configparser.ConfigParser()
    shown.read_string(body)
    source = (ENGINE_TESTS / "pgbouncer.py").read_text()
    mode = shown["pgbouncer"]["pool_mode"]
    assert f'"pool_mode": "{mode}"' in source
    assert {"pool_mode", "max_client_conn", "default_pool_size"} == set(shown["pgbouncer"])


def test_options():
    """The table of options names each of them, with its default."""
    table = PAGE.read_text().split("## Options", 1)[1]
    (_, _), *rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", table, flags=re.MULTILINE)
    shown = {name: default.strip("`").removesuffix(" s") for name, default in rows}
    defaults = {field.name: field.default for field in attrs.fields(PostgresOpts)}
    written = {None: "none", "alkstore": '"alkstore"'}
    assert {name: written.get(value, str(value)) for name, value in defaults.items()} == shown
