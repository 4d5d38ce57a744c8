"""Where data goes: tables for people, JSON for scripts."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from alkstore_core.cli.statuses import NotWritten, silence

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import NoReturn

    from rich.console import RenderableType

WIDE: Final = 500
"""Columns where stdout is no terminal: a file or a pipe has no edge to fit into."""


@contextlib.contextmanager
def written(what: str) -> Generator[None]:
    """While it lasts, what is not taken is told of `what`; a reader that leaves is no such error.

    Raises:
        NotWritten: the file or device has refused.

    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWritten(f"{what} cannot be written: {error.strerror or error}") from error


class Told:
    """A text or binary file whose errors in writing are `NotWritten`."""

    def __init__(self, file: Any, what: str) -> None:
        self._file = file
        self._what = what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @property
    def buffer(self) -> Told:
        """What is below it, for whoever brings an encoding of their own."""
        return Told(self._file.buffer, self._what)

    def write(self, data: Any) -> int:
        """As the file's own."""
        with written(self._what):
            return int(self._file.write(data))

    def flush(self) -> None:
        """As the file's own."""
        with written(self._what):
            self._file.flush()


@contextlib.contextmanager
def telling() -> Generator[None]:
    """While it lasts, stdout tells its errors as `NotWritten`, and a stderr that is closed none."""
    with contextlib.ExitStack() as stack:
        if sys.stderr is None:
            nothing = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stderr(nothing))
        if sys.stdout is not None:
            told: Any = Told(sys.stdout, "what was done is done, but the output")
            stack.enter_context(contextlib.redirect_stdout(told))
        try:
            yield
            if sys.stdout is not None:
                sys.stdout.flush()
        except NotWritten:
            if sys.stdout is not None:
                silence(sys.stdout)
            raise


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
