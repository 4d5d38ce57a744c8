"""An engine by a stranger: the guide is walked from `pip install` to a published report."""

import json
import shlex
import subprocess
import tomllib

import pytest
from test_examples import WALK
from walks import blocks, command, installing, walk

from wheelhouse import ROOT

EXAMPLE = ROOT / "docs/examples/custom-engine"

# The tree that is tested answers in place of the repository that the reader clones.
CLONE = """#!/bin/sh
mkdir -p alkstore/docs/examples
cp -R {example} alkstore/docs/examples/
"""

SQL_MODULES = """
import pkgutil, sys
import alkstore_contract, dictstore
for found in pkgutil.iter_modules(dictstore.__path__, "dictstore."):
    __import__(found.name)
print([m for m in sys.modules if m.partition(".")[0] in {"sqlalchemy", "greenlet", "sqlite3"}])
print("alkstore_core.sql" in sys.modules)
"""


def words(text):
    """Return the lines of a text without blank ones and indentation."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def excerpts():
    """Return each excerpt of the example that the page shows."""
    return [
        pytest.param(mark.removeprefix("excerpt: "), body, id=f"{line}")
        for line, _, mark, body in blocks(WALK)
        if mark.startswith("excerpt: ")
    ]


@pytest.mark.timeout(600)
def test_walk(tmp_path):
    """Whoever follows the guide has an engine that conforms, and a wheel with a proof of it."""
    here = tmp_path / "newcomer"
    here.mkdir()
    environment = installing(tmp_path)
    command(tmp_path, "git", CLONE.format(example=shlex.quote(str(EXAMPLE))))
    walk(WALK, tmp_path, here, environment, patience=540)

    report = json.loads((here / "dictstore/src/dictstore/contract-report.json").read_text())
    assert report["canonical"]["verdict"] == "conforms"
    assert report["canonical"]["engine"]["name"] == "dictstore"

    python = here / ".venv/bin/python"
    told = subprocess.run(
        [python, "-I", "-c", SQL_MODULES], check=True, capture_output=True, text=True
    )
    assert told.stdout.split("\n") == ["[]", "False", ""]


@pytest.mark.parametrize(("path", "body"), excerpts())
def test_excerpt(path, body):
    """What the guide shows of the example is in it, however it is indented there."""
    shown, source = words(body), words((EXAMPLE / path).read_text(encoding="utf-8"))
    assert any(shown == source[at : at + len(shown)] for at in range(len(source)))


def test_outside_the_workspace():
    """The example is a distribution of its own and no member of the workspace."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    members = {path for pattern in workspace["members"] for path in ROOT.glob(pattern)}
    assert ROOT / "packages/core" in members
    assert EXAMPLE not in members
