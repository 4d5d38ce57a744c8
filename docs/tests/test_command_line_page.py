"""The page of the command line: what it shows works as it stands, and nothing is left out."""

import re

from click import Group
from walks import command, surroundings, walk

from alkstore_core.cli.root import root
from wheelhouse import ROOT

PAGE = ROOT / "docs/guides/command-line.md"


def test_walk(tmp_path):
    """Whoever follows the page in one shell sees what it prints."""
    here = tmp_path / "newcomer"
    here.mkdir()
    # Without compiled modules, which tox forbids, each command spends seconds on its imports.
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path / "pyc"), "PYTHONDONTWRITEBYTECODE": ""}
    environment = surroundings(tmp_path) | compiled
    # What it installs is here already.
    command(tmp_path, "pip", "#!/bin/sh\n")
    errors = walk(PAGE, tmp_path, here, environment, patience=110)
    assert "Traceback" not in errors


def test_every_command_is_on_it():
    """With its parts."""
    table = PAGE.read_text().partition("| Command | Does |\n")[2].partition("\n\n")[0]
    for part in root.commands.values():
        (row,) = [row for row in table.splitlines() if re.match(rf"\| `{part.name}[ `]", row)]
        if isinstance(part, Group):
            assert all(name in row for name in part.commands)
