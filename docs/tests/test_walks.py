"""Tutorial and pages of the frameworks: whoever follows one gets what it shows."""

import re
import shutil
import socket
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from walks import blocks, command, installing, surroundings, walk

from wheelhouse import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"
FRAMEWORKS = sorted((ROOT / "docs/frameworks").glob("*.md"))

CURL = Path(__file__).with_name("curl.py")

# Says nothing and does nothing: what the pages install is here already, which a test checks.
PIP = "#!/bin/sh\n"


def postgres(page, environment, request):
    """Add an empty database, if the page asks for one."""
    if "DATABASE_URL" in page.read_text(encoding="utf-8"):
        url = request.getfixturevalue("postgres_url").replace(":", "+asyncpg:", 1)
        return environment | {"DATABASE_URL": url}
    return environment


def free_port():
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@pytest.mark.timeout(600)
def test_tutorial(tmp_path, request):
    """From `pip install` on, in an empty directory and an environment of its own."""
    here = tmp_path / "newcomer"
    here.mkdir()
    environment = postgres(TUTORIAL, installing(tmp_path), request)
    walk(TUTORIAL, tmp_path, here, environment, patience=540)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", FRAMEWORKS, ids=lambda page: page.stem)
def test_framework(page, tmp_path, request):
    """A page's application is built, served, tested and worked for, as it stands."""
    here = tmp_path / "newcomer"
    here.mkdir()
    environment = postgres(page, surroundings(tmp_path), request) | {
        "PORT": free_port(),
        # The pages use none, and those of the workspace take long to load.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command(tmp_path, "pip", PIP)
    if shutil.which("curl") is None:
        command(tmp_path, "curl", f'#!/bin/sh\nexec python {CURL} "$@"\n')
    errors = walk(page, tmp_path, here, environment, patience=240)
    assert "Traceback" not in errors


def test_a_walk_that_does_not_begin_says_why(tmp_path):
    """What the shell said is told, also where no block has printed anything."""
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```bash\nif true\n```\n")
    with pytest.raises(AssertionError, match="syntax error"):
        walk(page, tmp_path, tmp_path, surroundings(tmp_path), patience=60)


@pytest.mark.parametrize("page", FRAMEWORKS, ids=lambda page: page.stem)
def test_framework_installs(page):
    """What a page installs is what its walk runs on."""
    lines = [
        line
        for _, language, _, body in blocks(page)
        if language == "bash"
        for line in re.findall(r"^pip install (.+)$", body, flags=re.MULTILINE)
    ]
    assert lines
    for name in " ".join(lines).replace("'", "").split():
        assert distribution(Requirement(name).name)
