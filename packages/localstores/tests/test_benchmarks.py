"""The benchmarks run, and print a line for each of their workloads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.once
@pytest.mark.parametrize(
    ("script", "options", "count", "measure"),
    [
        ("bench.py", ("--seconds", "0.05", "--keys", "200"), 9, "measure"),
        ("bench_http.py", ("--seconds", "0.2"), 4, "rate"),
    ],
    ids=["stores", "owner"],
)
def test_a_benchmark_runs(tmp_path, driver, script, options, count, measure):
    """A short run measures something of everything on a driver."""
    report = tmp_path / "report.json"
    command = [sys.executable, BENCHMARKS / script, "--rounds", "1", *options]
    done = subprocess.run(
        [*command, "--driver", driver, "--json", report],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(report.read_text())["lines"]
    assert len(lines) == len(done.stdout.splitlines()) == count
    assert all(line[measure] > 0 for line in lines)
