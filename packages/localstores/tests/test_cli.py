"""The command line: tables for people, JSON for scripts, and its exit status."""

import argparse
import contextlib
import io
import json
import sqlite3
import subprocess
import sys

import pytest

from alkstore_localstores import cli


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run a command in this process; returns its status, its output and its complaints."""

    def command(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        status = cli.main([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, complaints = capfdbinary.readouterr()
        return status, out, complaints.decode()

    return command


def parsers(parser, name=""):
    """Yield a parser's name and itself, and those of its commands."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                yield from parsers(below, f"{name} {command}".strip())


def test_help_explains_every_argument():
    """Whoever asks a command for help is told what each of its arguments is."""
    found = dict(parsers(cli.parser()))
    assert {"serve", "kv put", "inspect", "migrate-legacy"} <= {*found}
    bare = [
        (name, action.dest)
        for name, parser in found.items()
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert bare == []


def test_put_get_and_scan(run, tmp_path, driver):
    """What is put is printed, byte for byte or in base64."""
    where = ("--data-dir", tmp_path, "--driver", driver)
    assert run("kv", "put", *where, "k:1", "tea")[0] == 0
    assert run("kv", "put", *where, "k:2", "-", given=b"\x00\xff\n")[0] == 0
    assert run("kv", "get", *where, "k:1") == (0, b"tea", "")
    assert run("kv", "get", *where, "k:2") == (0, b"\x00\xff\n", "")
    _, out, _ = run("kv", "scan", *where, "k:")
    assert out.decode().splitlines() == [
        "key  bytes  value",
        "k:1  3      tea",
        "k:2  3      \\x00\\xff\\n",
    ]
    _, out, _ = run("kv", "scan", *where, "--json", "--limit", 1, "k:")
    (entry,) = json.loads(out)
    assert (entry["key"], entry["valueBase64"]) == ("k:1", "dGVh")
    changed = run("kv", "put", *where, "--if-version", entry["version"], "--json", "k:1", "milk")
    assert changed == (0, b'{"applied": true}\n', "")


def test_what_is_not_there_and_what_was_not_written(run, tmp_path):
    """Status 1, with a word on the error stream."""
    where = ("--data-dir", tmp_path)
    status, out, complaint = run("kv", "get", *where, "k")
    assert (status, out) == (1, b"")
    assert "'k'" in complaint
    assert run("kv", "get", *where, "--json", "k")[:2] == (1, b"null\n")
    run("kv", "put", *where, "--ttl", 1000, "k", "v")
    status, _, complaint = run("kv", "put", *where, "--if-absent", "k", "w")
    assert status == 1
    assert "condition" in complaint


def test_errors(run, tmp_path):
    """The error's text, or its envelope for scripts."""
    status, _, complaint = run("kv", "get", "--data-dir", tmp_path, "a/b")
    assert status == 1
    assert complaint.startswith("error: INVALID_INPUT: ")
    status, _, complaint = run("kv", "get", "--data-dir", tmp_path, "--json", "a/b")
    assert (status, json.loads(complaint)["code"]) == (1, "INVALID_INPUT")


def test_inspect(run, tmp_path):
    """Its counts, format and log; a damaged store is status 1."""
    path = tmp_path / "localkv.sqlite"
    run("kv", "put", "--data-dir", tmp_path, "k", "v")
    status, out, _ = run("inspect", path)
    assert status == 0
    assert ["format", "localkv.v2"] in [line.split() for line in out.decode().splitlines()]
    assert ["live", "1"] in [line.split() for line in out.decode().splitlines()]
    status, out, _ = run("inspect", "--json", path)
    assert (status, json.loads(out)["counts"]["live"]) == (0, 1)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE lost (a)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'lost'")
        connection.commit()
    assert run("inspect", path)[0] == 1


def test_migrate_legacy_refuses_what_is_not_there(run, tmp_path):
    """The command is the function, with its errors."""
    status, _, complaint = run("migrate-legacy", "--state-dir", tmp_path, "jobs")
    assert status == 1
    assert "no queue to move" in complaint


def test_the_module_is_the_command(tmp_path):
    """`python -m alkstore_localstores.cli` does the same."""
    done = subprocess.run(
        [sys.executable, "-m", "alkstore_localstores.cli", "inspect", tmp_path / "no"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: BINDING_SETUP_FAILED")
