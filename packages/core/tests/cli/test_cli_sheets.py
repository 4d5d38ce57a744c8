"""Tables fit the terminal, whatever its width, and hide nothing but the ends of long texts."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from alkstore_core.cli.sheets import Column, Sheet

NAMES = ["mail", "a queue with a long name", "漢字"]


def drawn(sheet, width):
    """The lines of a sheet on a terminal of some width."""
    file = io.StringIO()
    Console(file=file, width=width, markup=False, highlight=False).print(sheet)
    return file.getvalue().splitlines()


@pytest.fixture
def sheet():
    """A sheet with a name, two numbers and a long text."""
    columns = [
        Column("name", long=True, whole=True),
        Column("ready", right=True),
        Column("oldest", right=True),
        Column("error", long=True),
    ]
    return Sheet("Queues", columns, [(name, "1,000", "5m", "x" * 300) for name in NAMES])


@pytest.mark.parametrize("width", [12, 20, 40, 50, 80, 200])
def test_no_line_is_wider_than_the_terminal(sheet, width):
    """Every number and every name is there at any width, and nothing sticks out."""
    lines = drawn(sheet, width)

    assert width >= max(map(cell_len, lines))
    text = "".join("".join(lines).split())
    assert len(NAMES) == text.count("1,000") == text.count("5m")
    assert all("".join(name.split()) in text for name in NAMES[::2])


def test_a_wide_terminal_shows_a_table(sheet):
    """One line for the titles, and one for each row, whose long text is cut to the room left."""
    lines = drawn(sheet, 100)

    assert ["Queues", "name"] == [lines[0].strip(), lines[1].split()[0]]
    assert 5 == len(lines)
    assert lines[2].rstrip().endswith("…")


def test_a_narrow_terminal_shows_paragraphs(sheet):
    """Each row begins with its name, and numbers carry their titles."""
    lines = [line.rstrip() for line in drawn(sheet, 30)]

    assert ["mail", "  ready 1,000  oldest 5m"] == lines[1:3]
    assert lines[3].startswith("  error xxx")


def test_cells_are_escaped_and_markup_stays_text():
    """Neither an escape sequence nor what Rich takes for markup does anything."""
    (_, line) = drawn(Sheet("", [Column("name")], [("\x1b[2J[bold]x[/bold]",)]), 80)

    assert r"\x1b[2J[bold]x[/bold]" == line.strip()
