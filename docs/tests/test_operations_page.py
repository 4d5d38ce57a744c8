"""The commands of pages that are not walked are commands, with these options."""

import re
import shlex

import click
import pytest
from test_examples import PAGES, WALKED, fences

from alkstore_core.cli.root import root
from wheelhouse import ROOT

COMMANDS = [
    pytest.param(line, id=f"{page.relative_to(ROOT).as_posix()}:{line}")
    for page in PAGES
    if page not in WALKED
    for _, _, body in fences(page, "bash")
    for line in re.findall(r"^alkstore (.+)$", body, flags=re.MULTILINE)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_command(line):
    """The command line understands it."""
    rest = shlex.split(line, comments=True)
    command, context = root, None
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(
            context or click.Context(command, info_name="alkstore"), rest
        )
        context = click.Context(found, info_name=name)
        command = found
    command.parse_args(context, rest)
