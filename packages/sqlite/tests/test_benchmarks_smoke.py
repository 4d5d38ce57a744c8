"""The benchmarks are a promise of the README: they have to run, whatever they say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once


BENCH = Path(__file__).parents[3] / "benchmarks" / "bench.py"


def _bench(*arguments):
    return subprocess.run(
        [sys.executable, BENCH, "sqlite", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_every_workload_is_measured_and_printed(tmp_path):
    """The command ends well, prints each row, and each number is finite."""
    names = _bench("--list").stdout.splitlines()
    written = tmp_path / "bench.json"

    done = _bench("--quick", "--scale", "0.01", "--rounds", "1", "--json", str(written))

    assert done.returncode == 0, done.stderr
    lines = json.loads(written.read_text())["lines"]
    assert names
    assert names == [line["name"] for line in lines]
    for line in lines:
        assert line["name"] in done.stdout
        assert math.isfinite(line["measure"])
        assert math.isfinite(line["ours"])
        assert line["reference"] is None or line["reference"] > 0


def test_unknown_name_is_told():
    """A name that selects nothing is an error, not an empty table."""
    done = _bench("--only", "no such workload")

    assert done.returncode == 2
    assert "no such workload" in done.stderr
