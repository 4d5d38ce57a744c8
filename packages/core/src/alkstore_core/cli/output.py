"""Where data goes: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

if TYPE_CHECKING:
    from typing import NoReturn

    from rich.console import RenderableType

WIDE: Final = 500
"""Columns where stdout is no terminal: a file or a pipe has no edge to fit into."""


class _Paper(Console):
    def on_broken_pipe(self) -> NoReturn:
        # Rich would end the process with a status of its own.
        raise BrokenPipeError


def paper(*, err: bool = False) -> Console:
    """Where tables are drawn, as wide as the terminal; what looks like markup stays text."""
    file = sys.stderr if err else sys.stdout
    wide = None if file.isatty() or "COLUMNS" in os.environ else WIDE
    return _Paper(file=file, width=wide, markup=False, highlight=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Draw for people."""
    paper().print(*parts)


def emit(value: dict[str, Any]) -> None:
    """One line of JSON for scripts, at once; ASCII alone, so that it speaks to no terminal."""
    click.echo(json.dumps(value, separators=(",", ":")))
