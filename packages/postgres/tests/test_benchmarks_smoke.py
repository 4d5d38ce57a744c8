"""The benchmarks have to run, whatever they say: on a server that is given, and on their own."""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from server import GIVEN_SERVER

pytestmark = pytest.mark.once

BENCH = Path(__file__).parents[3] / "benchmarks" / "bench.py"
TINY = ("--scale", "0.01", "--rounds", "1")


def bench(*arguments, server=None):
    """Run the command, on a server or, without one, on its own."""
    environment = {name: value for name, value in os.environ.items() if name != GIVEN_SERVER}
    if server is not None:
        environment[GIVEN_SERVER] = server
    command = [sys.executable, BENCH, "postgres", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_every_workload_is_measured_and_printed(server_url, tmp_path):
    """The command ends well, prints each row, and each number is finite."""
    names = bench("--list").stdout.splitlines()
    written = tmp_path / "bench.json"

    done = bench(*TINY, "--json", str(written), server=server_url)

    assert done.returncode == 0, done.stderr
    found = json.loads(written.read_text())
    assert names
    assert names == [line["name"] for line in found["lines"]]
    for line in found["lines"]:
        assert line["name"] in done.stdout
        assert math.isfinite(line["measure"])
        assert math.isfinite(line["ours"])
        assert line["reference"] is None or line["reference"] > 0
    assert found["where"]["fsync"] == found["where"]["synchronous_commit"] == "on"


@pytest.mark.timeout(300)
def test_without_a_server_it_starts_one(tmp_path):
    """As durable as servers are by default, and nothing of it is left."""
    written = tmp_path / "bench.json"

    with tempfile.TemporaryDirectory() as directory:
        # Whoever runs the server has to get there.
        Path(directory).chmod(0o755)
        done = bench(*TINY, "--only", "awaited", "--dir", directory, "--json", str(written))
        left = list(Path(directory).iterdir())

    assert done.returncode == 0, done.stderr
    assert not left
    where = json.loads(written.read_text())["where"]
    assert where["fsync"] == where["synchronous_commit"] == "on"


def test_unknown_name_is_told():
    """A name that selects nothing is an error, not an empty table."""
    done = bench("--only", "no such workload")

    assert done.returncode == 2
    assert "no such workload" in done.stderr
