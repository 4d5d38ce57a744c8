"""Make `requirements.lock`, or with `--check` tell whether it is in step.

The lock names no index and no path (decision 001). Pins that still fit are kept; to move them,
delete the file, or pass uv's own `--upgrade` or `--upgrade-package NAME`.
"""

import difflib
import re
import shutil
import sys
import tempfile
from pathlib import Path

from wheelhouse import LOCK, ROOT, members, uv


def compile_to(out: Path, *options: str) -> None:
    """Resolve all members with all extras, and the development tools, for every platform."""
    names = [
        re.search(r'^name = "(.+)"', (m / "pyproject.toml").read_text(), re.MULTILINE)[1]
        for m in members()
    ]
    uv(
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--all-extras",
        *(f"--no-emit-package={n}" for n in names),
        *options,
        *(m.relative_to(ROOT) / "pyproject.toml" for m in members()),
        "--group",
        "pyproject.toml:dev",
        "--output-file",
        out,
    )


def without_hashes(path: Path) -> list[str]:
    """Return the pins alone: a release may gain files, and so hashes, after it was locked."""
    return [
        line.removesuffix(" \\") for line in path.read_text().splitlines() if "--hash" not in line
    ]


def main() -> int:
    """Write or compare."""
    if "--check" not in sys.argv:
        compile_to(LOCK, *sys.argv[1:])
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / LOCK.name
        shutil.copy(LOCK, fresh)
        compile_to(fresh)
        difference = list(
            difflib.unified_diff(
                without_hashes(LOCK), without_hashes(fresh), "committed", "resolved", lineterm=""
            )
        )
    if difference:
        print(*difference, "requirements.lock is out of step: run `make lock`", sep="\n")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
