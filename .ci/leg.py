"""Run one package's tests in two passes: side by side, then those that need the machine alone.

Tests marked `once` run in the legs of Python 3.11 only, not in those of other interpreters or of
the lowest releases.

    python .ci/leg.py NAME TESTS [pytest options]

Each pass leaves a JUnit file under `.tox/junit/`, from which `.ci/total.py` counts.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NONE_SELECTED = 5


def run(name: str, tests: str, *options: str) -> int:
    """Run pytest with the workspace's configuration, from wherever we stand."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--rootdir={ROOT}",
            f"--junitxml={ROOT / '.tox/junit' / name}.xml",
            tests,
            *options,
        ],
        check=False,
    ).returncode


def main() -> int:
    """Run both passes even if the first fails; an empty second pass is no failure."""
    name, tests, *options = sys.argv[1:]
    chosen = " and not once" if name.endswith(("-py312", "-py313")) or "lowest" in name else ""
    beside = run(name, tests, "-n2", "-m", f"not alone{chosen}", *options)
    alone = run(f"{name}-alone", tests, "-m", f"alone{chosen}", *options)
    return beside or (0 if alone == NONE_SELECTED else alone)


if __name__ == "__main__":
    sys.exit(main())
