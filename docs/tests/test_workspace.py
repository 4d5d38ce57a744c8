"""The distributions, their pins and the lock fit each other."""

import configparser
import itertools
import json
import re
import tomllib

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import total
from wheelhouse import LOCK, ROOT, members, pins

PYTHONS = ("3.11", "3.12", "3.13")
# Has a version train of its own: it follows another contract.
OWN_TRAIN = {"alkstore-localstores"}

ROOT_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECTS = {m: tomllib.loads((m / "pyproject.toml").read_text())["project"] for m in members()}
NAMES = {project["name"] for project in PROJECTS.values()}
each_member = pytest.mark.parametrize("member", PROJECTS, ids=lambda m: m.name)
each_python = pytest.mark.parametrize("python", PYTHONS)


def declared():
    """Return every requirement that a member or a dependency group declares."""
    found = []
    for project in PROJECTS.values():
        found += project.get("dependencies", [])
        for extra in project.get("optional-dependencies", {}).values():
            found += extra
    for group in ROOT_PROJECT["dependency-groups"].values():
        found += [r for r in group if isinstance(r, str)]
    return [r for r in map(Requirement, found) if r.name not in NAMES]


def locked(python):
    """Return the pinned version of each distribution under one Python."""
    environment = default_environment() | {
        "python_version": python,
        "python_full_version": f"{python}.9",
    }
    found = {}
    for _, entry in pins(LOCK.read_text()):
        requirement = Requirement(entry.split(" \\")[0])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (pin,) = requirement.specifier
            found[canonicalize_name(requirement.name)] = Version(pin.version)
    return found


def test_lockstep():
    """All distributions of the contract carry one version."""
    versions = {p["name"]: p["version"] for p in PROJECTS.values() if p["name"] not in OWN_TRAIN}
    assert len(set(versions.values())) == 1, versions


@each_member
def test_pins(member):
    """Whoever needs another distribution of the workspace pins the minor of its contract."""
    core = Version(PROJECTS[ROOT / "packages/core"]["version"])
    minor = SpecifierSet(f">={core.major}.{core.minor}.0,<{core.major}.{core.minor + 1}")
    project = PROJECTS[member]
    extras = project.get("optional-dependencies", {}).values()
    needed = map(Requirement, itertools.chain(project.get("dependencies", []), *extras))
    ours = [r for r in needed if r.name in NAMES - OWN_TRAIN]
    assert [minor] * len(ours) == [r.specifier for r in ours]


@each_member
def test_needs_core(member):
    """Every distribution but core itself requires core."""
    project = PROJECTS[member]
    needed = {Requirement(r).name for r in project.get("dependencies", [])}
    core = {"alkstore-core"}
    assert core - {project["name"]} <= needed or project["name"] in OWN_TRAIN


@each_member
def test_anatomy(member):
    """A distribution has its papers, and one import package named after it."""
    project = PROJECTS[member]
    package = member / "src" / project["name"].replace("-", "_")
    assert [package] == [p for p in (member / "src").iterdir() if p.suffix != ".egg-info"]
    for name in ("__init__.py", "py.typed"):
        assert (package / name).is_file(), name
    for name in ("README.md", "CHANGELOG.md", "changelog.d", "tests"):
        assert (member / name).exists(), name
    assert (ROOT / "LICENSE").read_text() == (member / "LICENSE").read_text()
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "MIT"
    for python in PYTHONS:
        assert f"Programming Language :: Python :: {python}" in project["classifiers"]


@each_member
def test_fragments(member):
    """A changelog fragment is named after its issue and one of the known kinds of change."""
    kinds = "|".join(t["directory"] for t in ROOT_PROJECT["tool"]["towncrier"]["type"])
    for fragment in (member / "changelog.d").iterdir():
        assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({kinds})(\.\d+)?\.md", fragment.name)


@each_member
def test_known_to_tools(member):
    """uv, mypy, import-linter, coverage and tox know every member."""
    name = PROJECTS[member]["name"]
    package = name.replace("-", "_")
    tools = ROOT_PROJECT["tool"]
    assert tools["uv"]["sources"][name] == {"workspace": True}
    assert f"{member.relative_to(ROOT)}/src" in tools["mypy"]["mypy_path"]
    assert package in tools["importlinter"]["root_packages"]
    assert package in tools["coverage"]["run"]["source_pkgs"]
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    assert f"testenv:{member.name}-py{{311, 312, 313}}" in tox.sections()


@each_python
def test_lock_covers(python):
    """Each declared requirement is locked, at a version that it admits."""
    versions = locked(python)
    for requirement in declared():
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), (
            str(requirement),
            version,
        )


def test_lock_names_no_index():
    """The lock holds names, versions, markers and hashes alone, and a hash for each pin."""
    text = LOCK.read_text()
    assert "/" not in text
    assert "@" not in text
    for name, entry in pins(text):
        assert "--hash=sha256:" in entry, name
        assert name not in NAMES


def test_a_leg_that_failed_without_a_test_fails_the_total(tmp_path, monkeypatch, capsys):
    """Whoever looks at the exit status alone hears of a lint that failed."""
    leg, result = tmp_path / "core.xml", tmp_path / "result.json"
    leg.write_text('<testsuites><testsuite tests="3" failures="0" errors="0"/></testsuites>')
    monkeypatch.setattr(total, "JUNIT", tmp_path)
    monkeypatch.setattr(total, "RESULT", result)
    assert 0 == total.main()
    failed = {"result": {"success": False}, "test": [{"retcode": 1, "output": "bad", "err": ""}]}
    result.write_text(json.dumps({"testenvs": {"lint": failed}}))
    assert 1 == total.main()
    assert "3 passed, 0 failed" == capsys.readouterr().out.splitlines()[-1]
