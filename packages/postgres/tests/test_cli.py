"""`alkstore-postgres`, as the person sees it who may change schemas."""

import asyncio
import shlex
import subprocess
import sys

import asyncpg
import pytest
from proxy import Deaf

from alkstore_core import DatabaseError
from alkstore_postgres import PostgresOpts, PostgresStore, schema
from alkstore_postgres.cli import main


@pytest.fixture
def run(postgres_url):
    """Run the command on an empty database."""

    def run(*arguments, url=postgres_url):
        command = [
            sys.executable,
            "-c",
            "import sys; from alkstore_postgres.cli import main; sys.exit(main())",
            *arguments,
        ]
        environment = {"ALKSTORE_POSTGRES_URL": url} if url else {}
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=60
        )

    return run


def test_upgrade_current_check(run):
    """The schema is missing, is made, and is at the newest revision; exit statuses follow."""
    before = run("check")
    assert (1, "schema 'alkstore' is at no revision, the newest is 0001\n") == (
        before.returncode,
        before.stdout,
    )
    assert "schema 'alkstore' does not exist\n" == run("current").stdout
    assert "schema 'alkstore' went from nothing to revision 0001\n" == run("upgrade").stdout
    assert "schema 'alkstore' is at revision 0001\n" == run("upgrade").stdout
    assert "0001\n" == run("current").stdout
    after = run("check")
    assert (0, "schema 'alkstore' is at the newest revision, 0001\n") == (
        after.returncode,
        after.stdout,
    )


def test_other_schema(run):
    """`--schema` takes any name."""
    assert 0 == run("upgrade", "--schema", 'My "queues"').returncode
    assert 0 == run("check", "--schema", 'My "queues"').returncode
    assert 1 == run("check").returncode


async def test_refusal_names_the_command_that_helps(run, postgres_url):
    """What a store without its schema says to run makes just that schema."""
    store = PostgresStore(postgres_url, opts=PostgresOpts(schema="My queues", migrate=False))
    with pytest.raises(DatabaseError) as refused:
        await store.open()
    _, *arguments = shlex.split(str(refused.value).split("`")[1])

    assert 0 == run(*arguments).returncode
    async with store:
        assert [] == await store.queues()


async def test_a_silent_server_is_given_up(run, postgres_url):
    """A server that takes us in and then says nothing costs a command its time-out, and no more."""
    async with Deaf(postgres_url) as proxy:
        proxy.deaf_to = b"SELECT"
        ended = await asyncio.to_thread(run, "upgrade", "--timeout", "0.5", url=proxy.url)
        assert 2 == ended.returncode
        assert "no answer in time" in ended.stderr


async def test_a_migration_elsewhere_is_named(postgres_url, sql, capsys, monkeypatch):
    """Whoever holds the lock of a schema's migrations is waited for, and then told of."""
    monkeypatch.setattr(schema, "LOCK_PATIENCE", 0.1)
    await sql.execute("SELECT pg_advisory_lock($1)", schema._lock_key("alkstore"))
    assert 2 == await asyncio.to_thread(main, ["upgrade", "--url", postgres_url])
    said = capsys.readouterr().err
    assert f"backend {sql.get_server_pid()} " in said
    assert "has been migrating it for more than 0.1 s" in said


async def test_sql_is_the_upgrade(run, postgres_url):
    """What `sql` prints makes the schema when a person runs it, without a connection of ours."""
    printed = run("sql", "--schema", "Printed", url=None)
    assert 0 == printed.returncode, printed.stderr

    connection = await asyncpg.connect(postgres_url)
    await connection.execute(printed.stdout)
    await connection.close()

    assert 0 == run("check", "--schema", "Printed").returncode
    assert "BEGIN;\n\nCOMMIT;\n\n" == run("sql", "--since", "0001", url=None).stdout


@pytest.mark.parametrize(
    ("arguments", "url", "told"),
    [
        (["check"], None, "which database? Give --url, or set ALKSTORE_POSTGRES_URL"),
        (["check"], "mysql://me:secret@there/db", "mysql:// is not the scheme of a Postgres URL"),
        (["check"], "postgresql+psycopg://me:x@there/db", "of a Postgres URL (leave +psycopg out)"),
        (["check"], "postgres://me:secret@there/db", "a Postgres URL is postgresql://"),
        (["check"], "me:secret://there/db", "a Postgres URL is postgresql://"),
        (["check"], "postgresql://me:secret@127.0.0.1:1/db", "cannot look at schema 'alkstore'"),
        (["sql", "--since", "9999"], None, "there is no revision '9999'; there are 0001"),
        (["check", "--schema", ""], "postgresql://x/y", "it takes a name of 1 to 63 bytes"),
    ],
)
def test_refusals(run, arguments, url, told):
    """What cannot be done is one sentence, status 2, and no password."""
    result = run(*arguments, url=url)
    assert 2 == result.returncode
    assert told in result.stderr
    assert "secret" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
