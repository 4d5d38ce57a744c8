"""An engine by a stranger: the guide is walked from `pip install` to a published report."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib

import pytest
from test_examples import RUNNER, WALK, fences

from wheelhouse import LOCK, ROOT, build, pins

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


def blocks():
    """Return the page's blocks in order: line, language, mark before it, and text."""
    mark = re.compile(r"^<!-- (.*) -->$")
    lines = WALK.read_text(encoding="utf-8").splitlines()
    found = []
    for language in ("bash", "python", "text", "toml"):
        for line, _, body in fences(WALK, language):
            # The fence is the line before the body, a mark the one before that.
            marked = mark.match(lines[line - 3])
            found.append((line, language, marked[1] if marked else "", body))
    return sorted(found)


def words(text):
    """Return the lines of a text without blank ones and indentation."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def excerpts():
    """Return each excerpt of the example that the page shows."""
    return [
        pytest.param(mark.removeprefix("excerpt: "), body, id=f"{line}")
        for line, _, mark, body in blocks()
        if mark.startswith("excerpt: ")
    ]


def script(home):
    """Write the page's commands and programs as one shell script; their output goes to files."""
    parts = ["set -e"]
    for line, language, mark, body in blocks():
        if language == "python" and not mark.startswith("excerpt: "):
            program = home / f"{line}.json"
            program.write_text(json.dumps({"page": WALK.name, "blocks": [(line, body)]}))
            command = f"python {shlex.quote(str(RUNNER))} < {program}"
        elif language == "bash":
            command = f"if {body}; then exit 99; fi" if mark == "fails" else body
        else:
            continue
        parts.append(f"echo line {line} >&2\n{{\n{command}\n}} > {home / f'{line}.out'}")
    return "\n".join(parts)


def environment(home):
    """Return the variables under which pip finds our wheels, and what the lock pins."""
    constraints = home / "constraints.txt"
    constraints.write_text("".join(e.split(" \\")[0] + "\n" for _, e in pins(LOCK.read_text())))
    commands = home / "bin"
    commands.mkdir()
    clone = commands / "git"
    clone.write_text(CLONE.format(example=shlex.quote(str(EXAMPLE))))
    clone.chmod(clone.stat().st_mode | stat.S_IXUSR)
    (commands / "python").symlink_to(sys.executable)
    given = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    if "UV_DEFAULT_INDEX" in given:
        given.setdefault("PIP_INDEX_URL", given["UV_DEFAULT_INDEX"])
    return given | {
        "PATH": f"{commands}{os.pathsep}{given['PATH']}",
        "PIP_CONSTRAINT": str(constraints),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": f"{build()} {given.get('PIP_FIND_LINKS', '')}",
        "PIP_QUIET": "1",
    }


@pytest.mark.timeout(600)
def test_walk(tmp_path):
    """Whoever follows the guide has an engine that conforms, and a wheel with a proof of it."""
    here = tmp_path / "newcomer"
    here.mkdir()
    done = subprocess.run(
        [shutil.which("bash"), "-c", script(tmp_path)],
        check=False,
        cwd=here,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    outputs = {int(f.stem): f.read_text() for f in tmp_path.glob("*.out")}
    assert done.returncode == 0, f"{done.stderr}\n{outputs[max(outputs)]}"
    for line, _, mark, body in blocks():
        if mark == "prints":
            printed = " ".join(outputs[max(n for n in outputs if n < line)].split())
            for expected in body.splitlines():
                assert expected in printed

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
