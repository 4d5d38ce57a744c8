"""Walk a page as its reader does: its files, its programs and its commands, in their order.

A mark on the line before a block says what it is:

* `<!-- file: NAME -->`: the block is saved as this file;
* `<!-- excerpt: FILE -->`: a part of a file that is there; not run;
* `<!-- fails -->`: a command that has to fail;
* `<!-- prints -->`: lines that the command before it printed, among others.

Commands run in one shell. A `python` block without a mark is a program of its own.
"""

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig

from test_examples import RUNNER, fences

from wheelhouse import LOCK, ROOT, build, pins

COMPILED = ROOT / ".tox/compiled"
LANGUAGES = ("bash", "html", "python", "text", "toml")
MARK = re.compile(r"^<!-- (.*) -->$")

# Whatever the page has started and left running ends with it.
PROLOGUE = "set -e\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT"


def blocks(page):
    """Return the page's blocks in order: line, language, mark before it, and text."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found = []
    for language in LANGUAGES:
        for line, _, body in fences(page, language):
            # The fence is the line before the body, a mark the one before that.
            marked = MARK.match(lines[line - 3])
            found.append((line, language, marked[1] if marked else "", body))
    return sorted(found)


def script(page, home):
    """Write the page's commands and programs as one shell script; their output goes to files."""
    parts = [PROLOGUE]
    for line, language, mark, body in blocks(page):
        if mark.startswith("file: "):
            saved = home / f"{line}.saved"
            saved.write_text(body + "\n", encoding="utf-8")
            name = shlex.quote(mark.removeprefix("file: "))
            command = f'mkdir -p "$(dirname {name})" && cp {saved} {name}'
        elif language == "python" and not mark.startswith("excerpt: "):
            program = home / f"{line}.json"
            program.write_text(json.dumps({"page": page.name, "blocks": [(line, body)]}))
            command = f"python {shlex.quote(str(RUNNER))} < {program}"
        elif language == "bash":
            command = f"if {body}; then exit 99; fi" if mark == "fails" else body
        else:
            continue
        parts.append(f"echo line {line} >&2\n{{\n{command}\n}} > {home / f'{line}.out'}")
    return "\n".join(parts)


def surroundings(home):
    """Return variables under which the running Python and its packages' commands are found.

    What is in `home / "bin"` comes before other commands.
    """
    commands = home / "bin"
    commands.mkdir()
    for name in ("python", "python3"):
        # No link: an interpreter that is called by another name does not find its environment.
        command(home, name, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    # pytest-xdist sets the width of a terminal that is none.
    ours = {"COLUMNS", "PYTHONPATH", "VIRTUAL_ENV"}
    given = {k: v for k, v in os.environ.items() if k not in ours}
    path = [str(commands), sysconfig.get_path("scripts"), given["PATH"]]
    given["PATH"] = os.pathsep.join(path)
    if given.pop("PYTHONDONTWRITEBYTECODE", None):
        # Tox says so, and then each command would compile all that it imports.
        given["PYTHONPYCACHEPREFIX"] = str(COMPILED)
    return given


def installing(home):
    """Return `surroundings` in which pip finds our wheels, and what the lock pins."""
    constraints = home / "constraints.txt"
    constraints.write_text("".join(e.split(" \\")[0] + "\n" for _, e in pins(LOCK.read_text())))
    given = surroundings(home)
    if "UV_DEFAULT_INDEX" in given:
        given.setdefault("PIP_INDEX_URL", given["UV_DEFAULT_INDEX"])
    return given | {
        "PIP_CONSTRAINT": str(constraints),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": f"{build()} {given.get('PIP_FIND_LINKS', '')}",
        "PIP_QUIET": "1",
    }


def command(home, name, text):
    """Make a command that comes before others of its name."""
    made = home / "bin" / name
    made.write_text(text)
    made.chmod(made.stat().st_mode | stat.S_IXUSR)


def walk(page, home, here, environment, *, patience):
    """Walk a page in the directory `here`, and see that it prints what it shows."""
    walking = subprocess.Popen(
        [shutil.which("bash"), "-c", script(page, home)],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = walking.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(walking.pid, signal.SIGKILL)
        errors = f"{walking.communicate()[1]}\nnot at its end after {patience} s"
    outputs = {int(f.stem): f.read_text() for f in home.glob("*.out")}
    assert walking.returncode == 0, f"{errors}\n{outputs[max(outputs)] if outputs else ''}"
    for line, _, mark, body in blocks(page):
        if mark == "prints":
            printed = " ".join(outputs[max(n for n in outputs if n < line)].split())
            for expected in body.splitlines():
                assert " ".join(expected.split()) in printed, f"line {line}: {printed}"
    return errors
