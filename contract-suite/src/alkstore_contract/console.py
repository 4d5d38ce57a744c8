"""What a command prints, where it writes, and what becomes of it when that cannot be done."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

from rich import console

if TYPE_CHECKING:
    from pathlib import Path


class UsageError(Exception):
    """A command cannot do what it was asked to; the message says why."""


def complain(what: str) -> None:
    """Say on standard error what is wrong."""
    print(f"alkstore-contract: {what}", file=sys.stderr)  # noqa: T201 - a command's error


def drop_output() -> None:
    """Print to nowhere from here on."""
    # Not least what is still buffered: the interpreter would try it once more when it ends.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


class Console(console.Console):
    """Once it cannot write it is silent: what was begun goes on, and its exit status counts."""

    def __init__(self, **options: Any) -> None:
        # An engine's error may hold what the terminal's encoding cannot carry.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        super().__init__(**options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; an error of the output is told once."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            complain(f"what is printed is lost from here on: {error}")
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Drop this and whatever follows."""
        self.quiet = True
        drop_output()


def clear(path: Path) -> None:
    """Make a file's place free and known to be writable.

    Whatever becomes of this run, what an older one wrote must not be taken for its own; and
    nobody wants to hear after an hour that there was no place for it.

    Raises:
        UsageError: it cannot be written to.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch()
        path.unlink()
    except OSError as error:
        raise UsageError(f"nothing can be written to {str(path)!r}: {error}") from error
