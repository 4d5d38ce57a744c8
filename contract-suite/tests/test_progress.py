"""How far a run is, as its reader sees it."""

import io

import pytest
from rich.console import Console

from alkstore_contract.progress import Progress
from alkstore_contract.running import Outcome


def held(id_):
    """Return the outcome of a property that held."""
    return Outcome(id=id_, digest="d", cases=1, seconds=0.0, error=None)


def shown(*told, terminal=False, total=20):
    """Return what is shown after some properties have ended."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with Progress(console, total) as progress:
        for id_, what in told:
            progress.tell(id_, what)
    return file.getvalue()


def test_lines():
    """Without a terminal every tenth of the way is a line."""
    said = shown(*((f"a.p{n}", held(f"a.p{n}")) for n in range(20)))
    # Older releases of rich end with an empty line.
    lines = said.rstrip("\n").split("\n")
    assert [f"{n} of 20 tried, 0 did not hold" for n in range(2, 22, 2)] == lines


def test_bar():
    """On a terminal there is a bar with the count and the last property, and it goes away."""
    said = shown(("a.one", held("a.one")), terminal=True, total=2)
    assert "a.one" in said
    assert "1/2" in said
    assert "tried" not in said
    assert said.endswith("\x1b[2K")


def test_long_trouble():
    """What is told of a property is one line, which can be searched for."""
    why = " ".join(["because of this"] * 20)
    assert f"missing: a.one: {why}\n" in shown(("a.one", why))


@pytest.mark.parametrize("terminal", [True, False])
def test_trouble(terminal):
    """What fails or is lost is told at once, with its reason."""
    wrong = Outcome(id="a.one", digest="d", cases=0, seconds=0.0, error="T\nValueError: no\n")
    said = shown(("a.one", wrong), ("a.two", "its process ended: status 0"), terminal=terminal)
    assert "failed: a.one: ValueError: no" in said
    assert "missing: a.two: its process ended: status 0" in said
