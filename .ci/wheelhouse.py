"""Build every workspace member and install the built wheels into the running environment.

    python .ci/wheelhouse.py build
    python .ci/wheelhouse.py install --group test alkstore-core[sql] alkstore-sqlite
    python .ci/wheelhouse.py install --lowest --group test alkstore-sqlite

The wheels land in `.tox/wheelhouse/<fingerprint of the sources>/`, so they are built once for all
legs of one run and never served stale.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HOUSES = ROOT / ".tox" / "wheelhouse"
IGNORED = {"__pycache__", "changelog.d", "dist"}


def uv(*arguments: str | Path) -> None:
    """Run uv: the one on PATH, else the one that `make` put into `.venv`."""
    found = shutil.which("uv", path=f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        sys.exit("uv is needed: run `make` once, or install uv")
    subprocess.run([found, *map(str, arguments)], check=True, cwd=ROOT)


def members() -> list[Path]:
    """Return the directories of the workspace's distributions."""
    return sorted(
        p.parent
        for p in [
            *ROOT.glob("packages/*/pyproject.toml"),
            *ROOT.glob("contract-suite/pyproject.toml"),
        ]
    )


def fingerprint() -> str:
    """Digest all that a wheel or an sdist is made of."""
    digest = hashlib.sha256()
    files = [p for m in members() for p in m.rglob("*") if p.is_file()]
    for path in sorted([*files, LOCK]):
        if not IGNORED.intersection(path.parts):
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def build() -> Path:
    """Return the directory with the sdist and the wheel of every member, built from the sdist."""
    house = HOUSES / fingerprint()
    if not house.exists():
        HOUSES.mkdir(parents=True, exist_ok=True)
        # Legs may run at once: each builds aside, the first rename wins.
        with tempfile.TemporaryDirectory(dir=HOUSES) as aside:
            out = Path(aside) / "out"
            # Relative to ROOT, as uv splits this option at spaces.
            constraints = ("--build-constraints", LOCK.name)
            uv("build", "--quiet", "--all-packages", *constraints, "--out-dir", out)
            (out / ".gitignore").unlink(missing_ok=True)
            try:
                out.rename(house)
            except OSError:
                if not house.exists():
                    raise
    return house


def wheel(house: Path, distribution: str) -> Path:
    """Return the one wheel of a distribution."""
    (found,) = house.glob(f"{distribution.replace('-', '_')}-*.whl")
    return found


def pins(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the whole entry (hashes included) of each pin of a requirements file."""
    for entry in re.findall(r"^[^\s#].*(?:\n[ \t]+.*)*", text, flags=re.MULTILINE):
        yield re.split(r"[\s=\[;]", entry, maxsplit=1)[0], entry


def lowest() -> str:
    """Return pins of the lowest releases that the members declare, beside the locked tools."""
    out = HOUSES / "lowest.txt"
    uv(
        "pip",
        "compile",
        "--quiet",
        "--resolution",
        "lowest-direct",
        "--universal",
        "--python-version",
        "3.11",
        "--no-header",
        "--no-annotate",
        "--all-extras",
        *(f"--no-emit-package={m}" for m in distributions()),
        *(m / "pyproject.toml" for m in members()),
        # Each release of OpenTelemetry's SDK asks for the API of just that release.
        "--group",
        "pyproject.toml:telemetry",
        "--output-file",
        out,
    )
    low = dict(pins(out.read_text()))
    print("lowest:", *low.values(), sep="\n  ")
    return "\n".join([*low.values(), *(e for n, e in pins(LOCK.read_text()) if n not in low)])


def distributions() -> list[str]:
    """Return the names of the workspace's distributions."""
    return sorted(p.name.split("-")[0].replace("_", "-") for p in build().glob("*.whl"))


def install(requirements: list[str], groups: list[str], *, at_lowest: bool) -> None:
    """Install the named wheels, with the named dependency groups, pinned by the lock."""
    house = build()
    wanted = [f"{r} @ {wheel(house, r.split('[')[0]).as_uri()}" for r in requirements]
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text(lowest() if at_lowest else LOCK.read_text())
        uv(
            "pip",
            "install",
            "--quiet",
            "--python",
            sys.executable,
            "--constraints",
            constraints,
            *(f"--group={ROOT / 'pyproject.toml'}:{g}" for g in groups),
            *wanted,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    installing = commands.add_parser("install")
    installing.add_argument("--group", action="append", default=[])
    installing.add_argument("--lowest", action="store_true")
    installing.add_argument("requirement", nargs="*", help="distribution, or `all`")
    options = parser.parse_args()
    if options.command == "build":
        print(build())
        return
    named = options.requirement
    if named == ["all"]:
        extras = {
            "alkstore-core": "[cli,otel,prometheus,sql,web]",
            "alkstore-localstores": "[http,turso]",
        }
        named = [d + extras.get(d, "") for d in distributions()]
    install(named, options.group, at_lowest=options.lowest)


if __name__ == "__main__":
    main()
