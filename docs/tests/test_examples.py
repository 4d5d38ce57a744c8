"""Every fenced example of the documentation runs.

Each ``python`` block is a program of its own, run in an empty directory. A block after the line
``<!-- example: continues -->`` goes on in the namespace of the block before it. An example that
asks the environment for ``DATABASE_URL`` gets an empty Postgres database.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wheelhouse import ROOT

RUNNER = Path(__file__).with_name("run_example.py")
FENCE = re.compile(
    r"^(?P<continues><!-- example: continues -->\s*\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)
# Printed, without an exit status, by what should have been closed or awaited.
LEFT_BEHIND = re.compile(r"Exception ignored|never (awaited|retrieved)|was destroyed")

PAGES = sorted(
    p
    for p in [ROOT / "README.md", *ROOT.glob("*/*/README.md"), *ROOT.glob("docs/**/*.md")]
    if p.is_file() and "_build" not in p.parts and not p.is_relative_to(ROOT / ".tox")
)

# One walk through a shell of its own, in `test_custom_engine`.
WALK = ROOT / "docs/guides/writing-an-engine.md"
# Pages that have files to be saved are walked as well, in tests of their own.
WALKED = [p for p in PAGES if "\n<!-- file: " in p.read_text(encoding="utf-8")]


def fences(page, language):
    """Yield the first line's number, whether it continues, and the text of a page's blocks."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match["language"] == language:
            line = text.count("\n", 0, match.start("body")) + 1
            indent = len(match["indent"])
            body = "\n".join(row[indent:] for row in match["body"].splitlines())
            yield line, bool(match["continues"]), body


def examples():
    """Return each example as one parameter: its page and its chain of blocks."""
    found = []
    for page in [p for p in PAGES if p not in {WALK, *WALKED}]:
        name = page.relative_to(ROOT).as_posix()
        chains = []
        for line, continues, body in fences(page, "python"):
            if continues and chains:
                chains[-1].append((line, body))
            else:
                chains.append([(line, body)])
        found += [pytest.param(name, chain, id=f"{name}:{chain[0][0]}") for chain in chains]
    return found


def commands():
    """Return the target of every `make` command shown."""
    return [
        pytest.param(target, id=f"{page.relative_to(ROOT).as_posix()}:{line}:{target}")
        for page in PAGES
        for line, _, body in fences(page, "bash")
        for target in re.findall(r"^(?:\$ )?make ([a-z-]+)", body, flags=re.MULTILINE)
    ]


@pytest.mark.parametrize(("page", "blocks"), examples())
def test_example(page, blocks, tmp_path, request):
    """An example runs as it stands, warns of nothing and leaves nothing open."""
    environment = {**os.environ}
    if any("DATABASE_URL" in source for _, source in blocks):
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    done = subprocess.run(
        [sys.executable, "-W", "error", RUNNER],
        check=False,
        cwd=tmp_path,
        env=environment,
        input=json.dumps({"page": page, "blocks": blocks}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert LEFT_BEHIND.search(done.stderr) is None, done.stderr


@pytest.mark.parametrize("target", commands())
def test_make_target(target):
    """A `make` command of the documentation is a target of the Makefile."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
