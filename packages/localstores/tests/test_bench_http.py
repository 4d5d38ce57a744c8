"""The benchmark of the owner runs, and prints a line for each of its rates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "benchmarks" / "bench_http.py"


@pytest.mark.once
def test_the_benchmark_runs(tmp_path, driver):
    """A short run measures something of everything on a driver."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [
            *(sys.executable, BENCH, "--rounds", "1", "--seconds", "0.2"),
            *("--driver", driver, "--json", report),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(report.read_text())["lines"]
    assert len(lines) == len(done.stdout.splitlines()) == 4
    assert all(line["rate"] > 0 for line in lines)
