"""`serve`, `create-queue`, `delete-queue` and `stats` on the command line."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import alkstore_localstores
from alkstore_localstores import LocalHttpQueue
from alkstore_localstores.cli import main

COMMAND = [sys.executable, "-m", "alkstore_localstores.cli"]


def run(capsys, *arguments):
    """The exit status, and what was printed to both ends."""
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


@contextlib.contextmanager
def served(state, *options):
    """An owner in a process of its own; gives it and its address."""
    command = [*COMMAND, "serve", "--state-dir", state, "--port", "0", "--json", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, json.loads(process.stdout.readline())["address"]
        finally:
            process.kill()


async def send(endpoint, token) -> None:
    """One message, over HTTP."""
    async with LocalHttpQueue(endpoint, token) as queue:
        await queue.send({"n": 1})


def test_queues_are_made_counted_and_deleted_without_an_owner(tmp_path, capsys):
    """The command is the owner for a moment; tables for people, JSON for scripts."""
    status, out, _ = run(capsys, "create-queue", "jobs", "--state-dir", tmp_path, "--json")
    made = json.loads(out)
    assert (0, "jobs", None) == (status, made["resource"], made["endpoint"])
    status, out, _ = run(capsys, "create-queue", "jobs", "--state-dir", tmp_path)
    assert ["token", made["token"]] == out.splitlines()[2].split()
    status, out, _ = run(capsys, "stats", "--state-dir", tmp_path)
    head, row = (line.split() for line in out.splitlines())
    assert ["resource", "total", "visible", "in_flight", "delayed"] == head
    assert ["jobs", "0", "0", "0", "0"] == row
    status, out, _ = run(capsys, "stats", "jobs", "--state-dir", tmp_path, "--json")
    zero = {"total": 0, "visible": 0, "in_flight": 0, "delayed": 0}
    assert [{"resource": "jobs", **zero}] == json.loads(out)
    status, out, _ = run(capsys, "delete-queue", "jobs", "--state-dir", tmp_path)
    assert (0, "deleted jobs\n") == (status, out)
    status, out, _ = run(capsys, "stats", "--state-dir", tmp_path, "--json")
    assert (0, []) == (status, json.loads(out))


@pytest.mark.parametrize("command", ["delete-queue", "stats"])
def test_a_queue_that_is_not_there_is_an_error(tmp_path, capsys, command):
    """Told to standard error, with a status that scripts see."""
    status, out, err = run(capsys, command, "jobs", "--state-dir", tmp_path, "--json")
    assert (1, "") == (status, out)
    assert "INVALID_INPUT" == json.loads(err)["code"]


def test_a_queue_that_cannot_be_opened_is_counted_out(tmp_path, capsys):
    """The others are counted, and the status tells."""
    for resource in ("good", "bad"):
        run(capsys, "create-queue", resource, "--state-dir", tmp_path)
    (tmp_path / "queue" / "bad").mkdir(parents=True)
    status, out, err = run(capsys, "stats", "--state-dir", tmp_path)
    assert 1 == status
    assert "good" in out
    assert "migrate" in err or str(tmp_path / "queue" / "bad") in err


def test_a_served_queue_is_used_and_outlives_its_owner(tmp_path, capsys, driver):
    """SIGTERM ends it in good order; what it has taken is there afterwards."""
    with served(tmp_path, "--driver", driver) as (process, address):
        _, out, _ = run(capsys, "create-queue", "jobs", "--state-dir", tmp_path, "--json")
        made = json.loads(out)
        assert f"{address}/queues/jobs" == made["endpoint"]
        asyncio.run(send(made["endpoint"], made["token"]))
        _, out, _ = run(capsys, "stats", "jobs", "--state-dir", tmp_path, "--json")
        assert 1 == json.loads(out)[0]["visible"]
        second = subprocess.run(
            [*COMMAND, "serve", "--state-dir", tmp_path, "--port", "0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert 1 == second.returncode
        assert f"process {process.pid}" in second.stderr
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        assert 0 == process.wait(30)
    assert made["token"] not in log
    assert not (tmp_path / "owner.sock").exists()
    # Nothing of a log or a lock is left beside the file.
    left = {path.name for path in (tmp_path / "queue-owned" / "jobs").iterdir()}
    assert "localqueue.sqlite" in left
    assert not any(name.endswith("-tshm") for name in left)
    _, out, _ = run(capsys, "stats", "jobs", "--state-dir", tmp_path, "--json")
    assert 1 == json.loads(out)[0]["visible"]


def test_a_client_without_the_extra_names_it(monkeypatch):
    """Which one to install, and which module is missing."""
    monkeypatch.delitem(sys.modules, "alkstore_localstores.client", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"alkstore-localstores\[http\].*aiohttp"
    ) as caught:
        alkstore_localstores.LocalHttpQueue  # noqa: B018 - looked up, and so imported
    assert "aiohttp" == caught.value.name


def test_serving_without_the_extra_names_it(tmp_path, capsys, monkeypatch):
    """Which one to install."""
    monkeypatch.setitem(sys.modules, "alkstore_localstores.owner.server", None)
    status, _, err = run(capsys, "serve", "--state-dir", tmp_path / "state", "--port", "0")
    assert 1 == status
    assert "alkstore-localstores[http]" in err
    assert not Path(tmp_path / "state").exists()
