"""An installed kit with four small properties, and an engine that behaves as a test wants.

The kit is a copy of ours with another suite; both stand in directories of their own, with the
papers that an installer leaves, so that everything runs as it does for somebody who installed
wheels. What each property does is up to the engine: `Engine.act` gets its id.
"""

import base64
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import distribution
from pathlib import Path

import alkstore_contract

SUITE = '''
"""Four properties that ask the engine."""

from alkstore_contract.expect import expect
from alkstore_contract.properties import prop


@prop("fake.first", decided="Names")
async def first(case):
    """The first holds."""
    await case.harness.act("fake.first")
    expect(True, "never")


@prop("fake.second", decided="Names", cases=(1, 2, 3), seconds=2)
async def second(case, number):
    """The second holds three times."""
    await case.harness.act("fake.second", number)


@prop("fake.third", decided="Names", group="process")
async def third(case):
    """The third holds."""
    await case.harness.act("fake.third")


@prop("other.last", decided="Names", group="model")
def last(harness):
    """The last holds."""
    harness.last()
'''

ENGINE = """
import contextlib

from alkstore_contract import Facts, Harness


class Engine(Harness):
    distribution = "fake-engine"
    facts = Facts(
        notify_limit=None,
        durability="volatile",
        reach="process",
        receiver_closes_on="close",
        single_writer=True,
        sql_join="none",
    )

    @contextlib.asynccontextmanager
    async def home(self):
        yield "nowhere"

    def store(self, address, clock):
        raise NotImplementedError

    async def act(self, id, number=0):
        pass

    def last(self):
        pass
"""

IDS = ["fake.first", "fake.second", "fake.third", "other.last"]
CORE = "alkstore-core>=0.1.0,<0.2"


def record(where, name, version, metadata=""):
    """Write the papers of what lies in `where`, as an installer does."""
    info = where / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{metadata}"
    )
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for path in sorted(p for p in where.rglob("*") if p.is_file() and p.name != "RECORD"):
        if "__pycache__" not in path.parts:
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
            hashed = f"sha256={digest.rstrip(b'=').decode()}"
            writer.writerow([path.relative_to(where).as_posix(), hashed, path.stat().st_size])
    writer.writerow([f"{info.name}/RECORD", "", ""])
    (info / "RECORD").write_text(rows.getvalue())
    return info


def install_kit(where, suite=SUITE):
    """Install the kit with another suite."""
    package = where / "alkstore_contract"
    ours = Path(alkstore_contract.__file__).parent
    shutil.copytree(ours, package, ignore=shutil.ignore_patterns("__pycache__", "suite"))
    (package / "suite").mkdir()
    (package / "suite/__init__.py").write_text("")
    (package / "suite/fake.py").write_text(suite)
    version = distribution("alkstore-contract").version
    info = where / f"alkstore_contract-{version}.dist-info"
    info.mkdir()
    points = "[pytest11]\nalkstore_contract = alkstore_contract.pytest_plugin\n"
    (info / "entry_points.txt").write_text(points)
    record(where, "alkstore-contract", version)
    return where


class Place:
    """A kit, an engine, and a directory to work in."""

    def __init__(self, kit, path):
        self.kit = kit
        self.path = path
        self.engine_home = path / "engine"
        self.work = path / "work"
        self.work.mkdir()
        self.engine()

    def engine(self, code="", version="1.0", core=CORE):
        """Install the engine anew; `code` follows its harness and may change it."""
        shutil.rmtree(self.engine_home, ignore_errors=True)
        package = self.engine_home / "fake_engine"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(ENGINE + textwrap.dedent(code))
        self.papers(version, core)

    def papers(self, version="1.0", core=CORE):
        """Record the engine as it lies there."""
        needed = f"Requires-Dist: {core}\n" if core else ""
        return record(self.engine_home, "fake-engine", version, needed)

    def write(self, name, text):
        """Write a file to work with."""
        (self.work / name).write_text(textwrap.dedent(text))

    def command(self, *arguments, options=(), check=None):
        """Run `python -m …` in the place; gives status and output."""
        paths = [self.kit, self.engine_home]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, *options, "-m", *map(str, arguments)],
            check=False,
            cwd=self.work,
            env=environment | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "COLUMNS": "120"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
        )
        assert check is None or done.returncode == check, done.stdout
        return done.returncode, done.stdout

    def cli(self, *arguments, check=None, options=()):
        """Run the command line."""
        return self.command("alkstore_contract.cli", *arguments, check=check, options=options)

    def run(self, *arguments, check=None, options=()):
        """Try the engine; gives status, output and the report, `None` when none was written."""
        file = self.work / "report.json"
        harness = "fake_engine:Engine"
        status, said = self.cli(
            *("run", harness, "--report", file, *arguments), check=check, options=options
        )
        return status, said, json.loads(file.read_text()) if file.exists() else None

    def pytest(self, *arguments, check=None, options=()):
        """Run pytest on the suite, which is `test_contract.py` unless the test wrote another."""
        if not (self.work / "test_contract.py").exists():
            self.write("test_contract.py", "from alkstore_contract.conformance import *")
        return self.command(
            *("pytest", "-p", "no:cacheprovider", "-W", "ignore", "-q"),
            *("-p", "no:asyncio", "-p", "no:hypothesispytest", "-p", "no:timeout"),
            *("-p", "no:schemathesis"),  # It loads Hypothesis, which the kit must not.
            *("--alkstore-harness", "fake_engine:Engine", *arguments),
            options=options,
            check=check,
        )
