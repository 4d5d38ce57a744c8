"""`alkstore` on Postgres: what it shows, and a copy that is killed and goes on."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from alkstore_core.cli.root import root
from alkstore_postgres import PostgresStore
from alkstore_sqlite import SqliteStore

JOBS = 2_000


@pytest.fixture
def do(postgres_url):
    """Do something with the open store."""

    def do(work):
        async def within():
            async with PostgresStore(postgres_url) as store:
                return await work(store)

        return asyncio.run(within())

    return do


@pytest.fixture
def alkstore(postgres_url):
    """Run the command in this process."""

    def run(*arguments):
        environment = {"ALKSTORE_URL": postgres_url, "COLUMNS": "80"}
        return CliRunner().invoke(root, arguments, env=environment, prog_name="alkstore")

    return run


def test_status_and_doctor(do, alkstore):
    """They show what is there, and that all is well: the clock is the server's, wakes come."""
    do(lambda store: store.queue("mail").enqueue({"to": "ada"}))

    status, doctor = alkstore("status", "--json"), alkstore("doctor", "--json", "--strict")

    (mail,) = json.loads(status.stdout)["queues"]
    assert ("mail", 1) == (mail["name"], mail["ready"])
    assert 0 == doctor.exit_code, doctor.output
    findings = json.loads(doctor.stdout)["findings"]
    assert {"open", "clock", "notify"} <= {f["code"] for f in findings}
    assert {"ok"} == {f["severity"] for f in findings}
    assert [] == do(lambda store: store.locks())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_page_of_a_server_that_says_nothing(number):
    """What is not served yet ends as what is: in order, and at the first signal."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"postgresql://me:hunter2@127.0.0.1:{silent.getsockname()[1]}/x"
        process = subprocess.Popen(
            [sys.executable, "-c", "from alkstore_core.cli import main; main()", "web"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "ALKSTORE_URL": url},
        )
        with process:
            try:
                connection, _ = silent.accept()
                process.send_signal(number)
                out, err = process.communicate(timeout=20)
                connection.close()
            finally:
                process.kill()

    assert (0, "", "") == (process.returncode, out, err)


def test_what_cannot_be_reached_is_told_without_its_password():
    """With the status of a database that is not there."""
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    for arguments in (["status"], ["doctor"], ["copy", url, url]):
        target = [] if arguments[0] == "copy" else ["--url", url]
        done = CliRunner().invoke(root, [*arguments, *target], prog_name="alkstore")

        assert 3 == done.exit_code
        assert "127.0.0.1" in done.output
        assert "hunter2" not in done.output


def test_a_copy_that_was_killed_goes_on(postgres_url, do, alkstore, tmp_path):
    """Until it is whole `doctor` says so; the same command finishes it, and the map is whole."""
    source, numbers = f"sqlite:///{tmp_path / 'app.db'}", tmp_path / "numbers.jsonl"

    async def prepare():
        async with SqliteStore(tmp_path / "app.db") as store:
            await store.queue("mail").enqueue_many(range(JOBS))

    async def until_some(store):
        while not (await store.queue("mail").stats()).ready:
            assert process.poll() is None, process.stderr.read()
            await asyncio.sleep(0.01)
        process.kill()

    asyncio.run(prepare())
    # The schema is there before two processes want to make it.
    do(lambda store: store.queues())
    command = ["copy", source, postgres_url, "--map", str(numbers)]
    program = "from alkstore_core.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *command, "--batch", "1"],
        stderr=subprocess.PIPE,
        env={**os.environ},
        text=True,
    ) as process:
        do(until_some)

    broken = alkstore("doctor", "--json")
    assert 1 == broken.exit_code
    assert "copy.unfinished" in {f["code"] for f in json.loads(broken.stdout)["findings"]}
    assert not numbers.exists()

    resumed = alkstore(*command, "--json")

    assert 0 == resumed.exit_code, resumed.output
    report = json.loads(resumed.stdout)
    assert (JOBS, True) == (report["jobs"], report["resumed"])
    assert JOBS == len(numbers.read_text().splitlines())
    assert 0 == alkstore("doctor").exit_code
    jobs = do(lambda store: store.queue("mail").jobs(limit=JOBS))
    assert list(range(JOBS)) == [json.loads(job.payload) for job in jobs]
