"""What is built holds what it should, and each wheel works alone."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser

import pytest
from test_workspace import PROJECTS

from wheelhouse import LOCK, ROOT, build, uv, wheel

MEMBERS = {project["name"]: project for project in PROJECTS.values()}
TRIED = [name for name, of in MEMBERS.items() if "alkstore.harnesses" in of.get("entry-points", {})]
each_distribution = pytest.mark.parametrize("name", MEMBERS)

# What an installation brings, so that nothing of another database slips in.
BRINGS = {
    "alkstore-contract": {
        *("alkstore-contract", "alkstore-core", "attrs", "cattrs", "hypothesis", "iniconfig"),
        *("markdown-it-py", "mdurl", "packaging", "pluggy", "pygments", "pytest", "rich"),
        *("sortedcontainers", "typing-extensions"),
    },
    "alkstore-core": {"alkstore-core", "attrs", "cattrs", "typing-extensions"},
    "alkstore-localstores": {
        *("alkstore-core", "alkstore-localstores", "attrs", "cattrs"),
        *("greenlet", "sqlalchemy", "typing-extensions"),
    },
    "alkstore-mem": {
        *("alkstore-core", "alkstore-mem", "attrs", "cattrs"),
        *("greenlet", "sqlalchemy", "typing-extensions"),
    },
    "alkstore-postgres": {
        *("alembic", "alkstore-core", "alkstore-postgres", "asyncpg", "attrs", "cattrs"),
        *("greenlet", "mako", "markupsafe", "sqlalchemy", "typing-extensions"),
    },
    "alkstore-sqlite": {
        *("aiosqlite", "alkstore-core", "alkstore-sqlite", "attrs", "cattrs"),
        *("greenlet", "sqlalchemy", "typing-extensions"),
    },
}

IMPORT_ALL_BUT_SQL = """
import importlib, pkgutil, sys, alkstore_core
extras = {f"alkstore_core.{name}" for name in ("cli", "otel", "prometheus", "sql", "web")}
def import_all(package):  # walk_packages would import alkstore_core.sql to look into it
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name not in extras:
            module = importlib.import_module(found.name)
            if found.ispkg:
                import_all(module)
import_all(alkstore_core)
print(any(m.partition(".")[0] in {"sqlalchemy", "greenlet"} for m in sys.modules))
"""

LOAD_ENGINES = """
from importlib.metadata import entry_points
for point in entry_points(group="alkstore.engines"):
    assert callable(point.load())
    print(point.name)
"""


@pytest.fixture(scope="module")
def house():
    """Return the directory of built distributions."""
    return build()


@pytest.fixture(scope="module")
def alone(house, tmp_path_factory):
    """Return a function that gives the Python of an environment with one wheel installed."""
    made = {}

    def install(name):
        if name not in made:
            home = tmp_path_factory.mktemp(name)
            # The others come only if the wheel asks for them, and then from the same build.
            constraints = home / "constraints.txt"
            siblings = [f"{n} @ {wheel(house, n).as_uri()}\n" for n in MEMBERS if n != name]
            constraints.write_text("".join(siblings) + LOCK.read_text())
            uv("venv", "--quiet", "--python", sys.executable, home / "venv")
            (python,) = [p for p in (home / "venv").glob("*/python*") if p.stem == "python"]
            uv(
                *("pip", "install", "--quiet", "--python", python),
                *("--constraints", constraints, wheel(house, name)),
            )
            made[name] = python
        return made[name]

    return install


def run(python, code):
    """Return what a snippet prints in a Python that sees its own environment alone."""
    command = [python, "-I", "-W", "error", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@each_distribution
def test_wheel(house, name):
    """A wheel holds its import package with py.typed, its licence, and no tests."""
    package = name.replace("-", "_")
    with zipfile.ZipFile(wheel(house, name)) as archive:
        names = archive.namelist()
        info = f"{package}-{MEMBERS[name]['version']}.dist-info"
        metadata = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
    assert {package, info} == {n.split("/")[0] for n in names}
    assert f"{package}/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    assert not [n for n in names if re.search(r"(^|/)(tests?|test_.*|conftest\.py)(/|$)", n)]
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"


@each_distribution
def test_wheel_is_whole(house, name):
    """A wheel holds all that its package is made of: templates and style sheets too."""
    source = ROOT / next(m for m, p in PROJECTS.items() if p["name"] == name) / "src"
    files = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    with zipfile.ZipFile(wheel(house, name)) as archive:
        assert not {f for f in files if "__pycache__" not in f} - set(archive.namelist())


@pytest.mark.parametrize("name", TRIED)
def test_report(house, name):
    """An engine that can be tried carries a report on itself, and it says that it conforms."""
    with zipfile.ZipFile(wheel(house, name)) as archive:
        report = json.loads(archive.read(f"{name.replace('-', '_')}/contract-report.json"))
    engine = report["canonical"]["engine"]
    assert (name, MEMBERS[name]["version"]) == (engine["name"], engine["version"])
    assert "conforms" == report["canonical"]["verdict"]


@each_distribution
def test_sdist(house, name):
    """A source distribution holds sources, tests, licence and changelog, and no bytecode."""
    root = f"{name.replace('-', '_')}-{MEMBERS[name]['version']}"
    with tarfile.open(house / f"{root}.tar.gz") as archive:
        names = archive.getnames()
    for expected in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"):
        assert f"{root}/{expected}" in names
    assert any(n.startswith(f"{root}/tests/") for n in names)
    assert any(n.startswith(f"{root}/src/") for n in names)
    assert not [n for n in names if n.endswith(".pyc")]


@each_distribution
def test_alone(alone, name):
    """A wheel installs alone, brings exactly what it declares, and imports without a warning."""
    python = alone(name)
    uv("pip", "check", "--quiet", "--python", python)
    listing = "from importlib.metadata import distributions as d\nfor x in d(): print(x.name)"
    brought = {n.lower().replace("_", "-") for n in run(python, listing)}
    assert BRINGS[name] == brought
    run(python, f"import {name.replace('-', '_')}")


@each_distribution
def test_core_without_sqlalchemy(alone, name):
    """Core imports no SQLAlchemy outside `alkstore_core.sql`, whether it is installed or not."""
    assert run(alone(name), IMPORT_ALL_BUT_SQL) == ["False"]


@each_distribution
def test_engines(alone, name):
    """The entry points that a wheel declares can be loaded."""
    declared = MEMBERS[name].get("entry-points", {}).get("alkstore.engines", {})
    assert sorted(declared) == sorted(run(alone(name), LOAD_ENGINES))


def test_command_without_its_extra(alone):
    """The script of core is there without the extra, and says what to install."""
    script = alone("alkstore-core").with_name("alkstore")
    done = subprocess.run([script, "status"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "alkstore needs the extra `cli`: pip install 'alkstore-core[cli]'\n"
