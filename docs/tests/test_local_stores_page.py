"""The shell commands of the local stores' pages are commands, and the binding shown is one."""

import re
import shlex

import pytest

from alkstore_localstores.bindings import queue_binding
from alkstore_localstores.cli import parser
from wheelhouse import ROOT

GUIDE = ROOT / "docs/guides/local-stores.md"
PAGES = (GUIDE, ROOT / "docs/formats/localkv.md", ROOT / "docs/formats/localqueue.md")


def commands():
    """Return each line of a page that calls the command line."""
    return [
        pytest.param(line, id=f"{page.stem}:{line}")
        for page in PAGES
        for line in re.findall(r"^alkstore-localstores (.+)$", page.read_text(), re.MULTILINE)
    ]


@pytest.mark.parametrize("line", commands())
def test_command(line):
    """The command line understands it."""
    assert parser().parse_args(shlex.split(line, comments=True)).run


def test_binding():
    """What the guide exports by hand is read as the binding of the queue `jobs`."""
    (shown,) = re.findall(r"^export (\w+_BINDING=.+)$", GUIDE.read_text(), re.MULTILINE)
    (assignment,) = shlex.split(shown)
    name, _, value = assignment.partition("=")
    binding = queue_binding("jobs", {name: value})
    assert binding.endpoint == "http://127.0.0.1:8071/queues/jobs"
