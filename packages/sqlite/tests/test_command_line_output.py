"""What the command says of what it did when something fails: the person acts on it."""

import asyncio
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from alkstore_core.cli.root import root
from alkstore_sqlite import SqliteStore

COMMAND = [sys.executable, "-c", "from alkstore_core.cli import main; main()"]


@pytest.fixture
def enqueue(path):
    """Put lines into the queue `q`, two in each transaction."""

    def run(stdin, *options):
        arguments = ["enqueue", "q", "--lines", "--batch", "2", "--create", *options]
        url = {"ALKSTORE_URL": f"sqlite:///{path}"}
        return CliRunner().invoke(root, arguments, input=stdin, env=url)

    return run


def ready(path):
    """How many jobs there are in the queue `q`."""

    async def count():
        async with SqliteStore(path) as store:
            return (await store.queue("q").stats()).ready

    return asyncio.run(count())


@pytest.mark.parametrize("outbox", [[], ["--outbox"]])
def test_after_a_database_error_it_is_not_known_what_is_in(enqueue, sql, outbox):
    """Who believed that none of the rest is in would enqueue it twice."""
    assert 0 == enqueue("1\n", *outbox).exit_code
    sql(
        "CREATE TRIGGER no BEFORE INSERT ON __alkstore_jobs WHEN NEW.payload = CAST('6' AS BLOB) "
        "BEGIN SELECT RAISE(ABORT, 'no'); END"
    )

    done = enqueue("2\n3\n\n5\n6\n7\n", *outbox)

    assert 3 == done.exit_code
    look = f"alkstore jobs {'--outbox ' if outbox else ''}-- q"
    assert (
        "2 jobs are in, those up to line 2, the last one with id 3; whether the next 2 "
        f"(lines 4-5) got in is not known, see: {look}; the later ones are not in"
    ) == done.stderr.splitlines()[0]


def test_a_database_error_in_the_first_batch(enqueue, sql):
    """Nothing is said to be in, and nothing not to be."""
    enqueue("1\n")
    sql("CREATE TRIGGER no BEFORE INSERT ON __alkstore_jobs BEGIN SELECT RAISE(ABORT, 'no'); END")

    assert enqueue("2\n").stderr.startswith("whether the next 1 (lines 1-1) got in is not known")


@pytest.mark.parametrize("wrong", ["NaN", "1e999", r'"\ud800"', "[" * 600 + "]" * 600, "{"])
def test_what_cannot_be_stored_is_told_by_its_line(enqueue, path, wrong):
    """Also when it can be read, and with what is in."""
    done = enqueue(f"1\n2\n\n4\n{wrong}\n")

    assert 2 == done.exit_code
    assert "line 5: " in done.stderr
    assert "2 jobs are in, those up to line 2, the last one with id 2; the" in done.stderr
    assert 2 == ready(path)


@pytest.mark.parametrize("wrong", ["{", "1e999"])
def test_nothing_enqueued_is_said(enqueue, path, wrong):
    """When the first batch was refused."""
    assert enqueue(f"1\n{wrong}\n").stderr.startswith("nothing was enqueued\n")
    assert 0 == ready(path)


@pytest.fixture
def alkstore(path, compiled):
    """Run a shell's command line, in which `$A` is the command; its status and stderr."""
    environment = {**os.environ, **compiled, "ALKSTORE_URL": f"sqlite:///{path}"}

    def run(line, **streams):
        done = subprocess.run(
            ["sh", "-c", line.replace("$A", '"$@"'), "sh", *COMMAND],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **streams,
        )
        return done.returncode, done.stderr

    return run


FULL = "Error: what was done is done, but the output cannot be written: No space left on device\n"


def test_a_full_disk_is_told_with_what_was_done(alkstore, path):
    """The job is in although its id could not be printed; a traceback says nothing of that."""
    told = alkstore("$A enqueue q 1 --create > /dev/full")
    lines = alkstore("printf '1\n2\n' | $A enqueue q --lines --json > /dev/full")

    assert (74, f"1 job is in, with id 1\n{FULL}") == told
    in_ = "2 jobs are in, those up to line 2, the last one with id 3; the later ones are not in\n"
    assert (74, in_ + FULL) == lines
    assert 3 == ready(path)
    assert (74, FULL) == alkstore("$A status > /dev/full")


def test_a_reader_that_left_is_told_what_is_in(alkstore, path):
    """On stderr, with the status of a broken pipe."""
    ours, theirs = os.pipe()
    os.close(ours)

    told = alkstore("printf '1\n' | $A enqueue q --lines --create", stdout=theirs)

    os.close(theirs)
    in_ = "1 job is in, those up to line 1, the last one with id 1; the later ones are not in\n"
    assert (141, in_) == told
    assert 1 == ready(path)


def test_closed_streams_are_told_in_a_sentence(alkstore, path):
    """And nothing is done whose answer nobody would hear."""
    closed = "Error: standard output is closed, so nothing was done: give it a file\n"
    assert (74, closed) == alkstore("$A enqueue q 1 --create >&-")
    status, err = alkstore("$A enqueue q - --create <&-")

    assert (2, True) == (status, "standard input is closed" in err)
    assert "Traceback" not in err
    assert (1, "Error: standard input cannot be read: Bad file descriptor\n") == alkstore(
        "$A enqueue q - --create 0> /dev/null"
    )
    assert not path.exists()
