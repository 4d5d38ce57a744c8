"""`top`: the status, live."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from alkstore_core import DatabaseError
from alkstore_core.cli.amounts import stamp
from alkstore_core.cli.board import board
from alkstore_core.cli.ending import run_until_told
from alkstore_core.cli.escaping import safe
from alkstore_core.cli.looks import Look, Rates, look
from alkstore_core.cli.opening import opened
from alkstore_core.cli.output import paper
from alkstore_core.cli.params import Number, url_option

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from alkstore_core import StopToken, Store

SHARE: Final = 10
"""Counting reads all rows: a look that takes long is followed by a pause of so many times that."""


@click.command(short_help="Show the status live.")
@click.option(
    "--interval",
    "-n",
    type=Number(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="From look to look; longer where a look itself takes long.",
)
@url_option
def top(url: str | None, interval: float) -> None:
    """Show the status live, with what changes per second, until q or ctrl-C."""
    console = paper()
    if not console.is_terminal:
        raise click.UsageError("top needs a terminal; status prints the same once")
    run_until_told(lambda stop: _top(url, interval, console, stop))


async def _top(url: str | None, interval: float, console: Console, stop: StopToken) -> None:
    async with opened(url) as store:
        with _keys(stop), Live(console=console, screen=True, auto_refresh=False) as live:
            before: Look | None = None
            while True:
                before, screen = await _next(store, before, safe(url or ""))
                live.update(Screen(screen), refresh=True)
                took = 0.0 if before is None else before.took
                await asyncio.sleep(max(interval, took * SHARE))


async def _next(
    store: Store, before: Look | None, where: str
) -> tuple[Look | None, RenderableType]:
    """Another look; while the database does not answer, the last one and what it says."""
    try:
        now = await look(store)
    except DatabaseError as error:
        trouble = Text(f"no answer, trying again: {safe(str(error))}", style="bold red")
        old = [] if before is None else [*board(before, None)]
        return before, Group(trouble, *old)
    rates = None if before is None else Rates(before, now)
    when = stamp(now.seen.at)
    head = Text.assemble(
        (where, "bold"), "  ", (when, "dim"), "  ", ("q quits", "dim"), overflow="ellipsis"
    )
    head.no_wrap = True
    sheets = [*board(now, rates)]
    return now, Group(head, *sheets) if sheets else Group(head, Text("nothing in it"))


class Screen:
    """As much as the terminal holds, and a word about the rest."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.height or console.size.height
        unbound = options.update(height=None)
        lines = console.render_lines(self._content, unbound, pad=False)
        fits = len(lines) <= room
        for place, line in enumerate(lines if fits else lines[: room - 1]):
            if place:
                yield Text("\n", end="")
            yield from line
        if not fits:
            rest = len(lines) - room + 1
            yield Text(f"\n{rest} more lines: make it taller", style="dim", end="")


@contextlib.contextmanager
def _keys(stop: StopToken) -> Generator[None]:
    """While it lasts, q stops, and no key is echoed."""
    # Where there is no such module, ctrl-C is left.
    termios, tty = _module("termios"), _module("tty")
    if termios is None or tty is None or not sys.stdin.isatty():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def pressed() -> None:
        # Not by way of Python's buffer, whose rest no selector sees.
        if _key(number) in {b"", b"q", b"Q"}:
            stop.stop()

    loop = asyncio.get_running_loop()
    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield
    finally:
        loop.remove_reader(number)
        # One that is gone needs no settings.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSADRAIN, before)


def _key(number: int) -> bytes:
    """What was pressed; nothing where the terminal is gone."""
    try:
        return os.read(number, 64)
    except OSError:
        return b""


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
