"""How the command ends: its exit statuses, and errors in one sentence on stderr."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from alkstore_core import (
    AlkstoreError,
    Closed,
    CodecError,
    DatabaseError,
    InvalidName,
    InvalidSpec,
    PayloadTooLarge,
    ReservedName,
)
from alkstore_core.cli.escaping import safe

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
DATABASE: Final = 3
NOT_WRITTEN: Final = 74
"""`EX_IOERR` of sysexits.h."""
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

WRITTEN_WRONG: Final = (CodecError, InvalidName, InvalidSpec, PayloadTooLarge, ReservedName)
"""Errors in what was asked for, of which nothing was done."""


class Refused(click.ClickException):
    """It was not done, or something was found, and the sentence says what."""

    exit_code = REFUSED


class NoDatabase(click.ClickException):
    """There is no database where the URL says there is one."""

    exit_code = DATABASE


class NotWritten(click.ClickException):
    """What it was to write, its output or a file, was not taken, and the sentence says why."""

    exit_code = NOT_WRITTEN


class NotInstalled(click.ClickException):
    """What it takes was not installed, and the sentence says how that is done."""

    exit_code = USAGE


def say(text: str) -> None:
    """Tell the person something, beside the data; who cannot be told is not."""
    try:
        click.echo(safe(text), err=True)
    except OSError:
        silence(sys.stderr)


def status_of(call: Callable[[], object]) -> int:
    """The exit status of a call, whose error is told."""
    try:
        result = call()
    except click.ClickException as error:
        told = io.StringIO()
        error.show(told)
        say(told.getvalue().rstrip("\n"))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AlkstoreError as error:
        say(f"Error: {error}")
        return _status_of_error(error)
    # Click gives the status of a command that ended early, and what it returned of others.
    return result if isinstance(result, int) else OK


def silence(stream: TextIO) -> None:
    """Let the interpreter flush what nobody takes any more into nothing."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


def _status_of_error(error: AlkstoreError) -> int:
    if isinstance(error, (DatabaseError, Closed)):
        return DATABASE
    return USAGE if isinstance(error, WRITTEN_WRONG) else REFUSED
