"""How the command ends, and what it says then."""

import re
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from alkstore_core import (
    Closed,
    CodecError,
    CopyRefused,
    DatabaseError,
    InvalidName,
    InvalidSpec,
    __version__,
)
from alkstore_core.cli.opening import name_of
from alkstore_core.cli.root import PARTS, root
from alkstore_core.cli.statuses import Refused, status_of
from alkstore_core.worker import PoisonedEvent

HOST = "postgresql://me:hunter2@host/db"


def run(*arguments, **environment):
    """Run the command in this process."""
    environment = {"ALKSTORE_URL": None, **environment}
    return CliRunner().invoke(root, arguments, env=environment, prog_name="alkstore")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_extra_it_says_what_to_install(missing):
    """One sentence on stderr, and the status of a wrong call."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from alkstore_core.cli import main; main()"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert "alkstore needs the extra `cli`: pip install 'alkstore-core[cli]'\n" == done.stderr


@pytest.mark.parametrize("missing", ["jinja2", "starlette", "uvicorn"])
def test_without_the_extra_of_the_status_page_it_says_what_to_install(missing):
    """The rest of the command is there, and says so before it asks for a database."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['web']; "
        "from alkstore_core.cli import main; main()"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert (
        "Error: alkstore web needs the extra `web`: pip install 'alkstore-core[cli,web]'\n"
        == done.stderr
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("no"), 1),
        (CopyRefused("no"), 1),
        (PoisonedEvent("s", "c", 1), 1),
        (click.UsageError("no"), 2),
        (CodecError("no"), 2),
        (InvalidName("queue", "", "is empty"), 2),
        (InvalidSpec("x"), 2),
        (DatabaseError("no"), 3),
        (Closed("no"), 3),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_statuses(error, status, capsys):
    """Each kind of end has the status of the documented table, and no traceback."""

    def call():
        raise error

    assert status == status_of(call)
    assert "Traceback" not in capsys.readouterr().err


def test_errors_tell_no_password_and_no_escape_sequence(capsys):
    """Whatever an error holds."""

    def call():
        raise DatabaseError(f"{HOST} said \x1b[31m")

    status_of(call)

    assert "Error: postgresql://me:***@host/db said \\x1b[31m\n" == capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(HOST,), ("status", HOST), ("status", f"--{HOST}")])
def test_usage_errors_tell_no_password(arguments):
    """Also where the URL stands in the wrong place."""
    done = run(*arguments)

    assert 2 == done.exit_code
    assert "hunter2" not in done.output


@pytest.mark.parametrize("arguments", [("status",), ("locks",), ("jobs", "q"), ("doctor",)])
def test_without_a_url_it_says_how_to_give_one(arguments):
    """Neither an empty one is one."""
    assert "--url" in run(*arguments).stderr
    assert 2 == run(*arguments, ALKSTORE_URL="").exit_code


def test_a_database_in_memory_makes_no_sense():
    """It says why, instead of showing an empty one."""
    done = run("status", "--url", "mem:")

    assert 2 == done.exit_code
    assert "ends with its process" in done.stderr


@pytest.mark.parametrize("group", [(), ("dead",), ("schedules",), ("stream",)])
def test_no_summary_of_a_command_is_cut(group):
    """Each fits beside the command's name on a terminal of 80 columns."""
    listed = run(*group, "--help", COLUMNS="80").stdout.partition("Commands:")[2]

    assert listed.count("\n") > 3
    assert "..." not in listed
    assert all(re.match(r"  \w", line) for line in listed.splitlines()[1:])


def test_no_help_shows_a_range_of_numbers():
    """A number is an INTEGER, and what it may be is said where it is wrong."""
    for arguments in (["jobs"], ["enqueue"], ["dead", "show"], ["doctor"], ["web"]):
        text = run(*arguments, "--help").stdout
        assert "INTEGER" in text or "ID" in text
    for part in PARTS:
        assert "<=x" not in run(part.name, "--help").stdout


@pytest.mark.parametrize("path", ["shop.db", "/var/lib/shop.db"])
def test_a_path_is_no_url(path):
    """What would be one is said."""
    done = run("status", "--url", path)

    assert 2 == done.exit_code
    assert f"{path!r} is no URL: for a file of SQLite write sqlite:///{path}\n" in done.stderr


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:////var/lib/shop.db", "shop.db"),
        ("postgresql://host/my%20shop", "my shop"),
        ("postgresql+asyncpg://me:hunter2@host:5432/shop?sslmode=require", "shop"),
        ("postgresql://host/shop?password=hunter2/x", "shop"),
        ("postgresql://me:hunt/er2@host", "alkstore"),
        ("postgresql://me:hunt?er/2@host/shop", "shop"),
        ("postgresql://me:hunter2@host", "alkstore"),
        ("postgresql://host:5432", "alkstore"),
        ("postgresql:///", "alkstore"),
    ],
)
def test_the_name_of_a_database_has_no_password(url, name):
    """Not even where it was not encoded."""
    assert name == name_of(url)


def test_an_engine_that_is_not_there_is_no_database():
    """What to do is said by the registry."""
    done = run("status", "--url", "oracle://host")

    assert (3, "") == (done.exit_code, done.stdout)
    assert "no engine knows this URL's scheme" in done.stderr


def test_version():
    """That of the package."""
    assert f"alkstore, version {__version__}\n" == run("--version").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    """A script for each shell that asks this very command."""
    assert "_ALKSTORE_COMPLETE" in run("completion", shell).stdout


def test_what_a_shell_completes():
    """The script's question is answered with the parts of the command."""
    done = run(_ALKSTORE_COMPLETE="bash_complete", COMP_WORDS="alkstore d", COMP_CWORD="1")

    assert {"plain,dead", "plain,doctor"} == set(done.stdout.split())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_has_its_help(part):
    """With a sentence of its own for each option but --help."""
    commands = part.commands.values() if isinstance(part, click.Group) else [part]

    assert part.help
    assert 0 == run(part.name, "-h").exit_code
    for command in commands:
        assert command.help
        for option in command.params:
            assert isinstance(option, click.Argument) or option.help, (command.name, option.name)


HANGING = """
import asyncio, sys
from alkstore_core.cli.ending import run_until_told
from alkstore_core.cli.statuses import status_of

async def work(stop):
    try:
        print("running", flush=True)
        await asyncio.Event().wait()
    finally:
        print("closing", flush=True)
        await asyncio.Event().wait()

sys.exit(status_of(lambda: run_until_told(work)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_close_that_hangs(number):
    """Nobody has to kill a command whose database does not answer."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        for line in ("running\n", "closing\n"):
            assert line == process.stdout.readline()
            process.send_signal(number)
        try:
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()

    assert (130, "") == (process.returncode, err)
