"""What is shown: lines that stay, a live bar below them, and a table at the end."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

REDRAW_S = 0.05
PLAIN_LINE_S = 2.5
GREEN, RED, DIM, BOLD, PLAIN = "\033[32m", "\033[31m", "\033[2m", "\033[1m", "\033[0m"
BOXES = ((("╭╮", "├┤", "╰╯"), "─", "│"), (("++", "++", "++"), "-", "|"))
TICKS = (("✓", "✗"), ("ok", "NO"))
EIGHTHS = " ▏▎▍▌▋▊▉█"
SEPARATOR = " · "  # between the parts of a note
NARROWEST = 20  # columns for a table's values, however narrow the terminal


class Row(NamedTuple):
    """A line of a table; `good` is `None` where there is nothing to judge."""

    good: bool | None
    name: str
    value: str


def draw_bar(done: int, total: int, width: int, *, ascii_only: bool = False) -> str:
    """A bar of `width` columns, in steps of an eighth of a column where the font allows it."""
    share = min(max(done / total, 0.0), 1.0) if total else 1.0
    if ascii_only:
        return ("#" * int(share * width)).ljust(width, "-")
    whole, eighth = divmod(int(share * width * 8), 8)
    bar = "█" * whole + (EIGHTHS[eighth] if eighth else "")
    return bar.ljust(width, "░")


class Screen:
    """On a terminal the bar moves; elsewhere it is a line now and then."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self._live and "NO_COLOR" not in os.environ
        self._ascii = not _can_encode(out)
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="replace")  # rather a "?" than a crash
        self._bar: tuple[int, int, str] | None = None
        self._drawn_at = -PLAIN_LINE_S

    def line(self, text: str = "", colour: str = "") -> None:
        """A line that stays, above the bar."""
        self._write(f"{self.paint(text, colour)}\n")
        self._draw()

    def step(self, good: bool, text: str) -> None:
        """A line about something that was done."""
        self.line(f"  {self.mark(good)} {text}")

    def incident(self, text: str) -> None:
        """A line about something that went wrong on purpose."""
        self.line(f"  {'x' if self._ascii else self.paint('☠', RED)} {text}")

    def advance(self, done: int, total: int, note: str) -> None:
        """Move the bar; seen on a terminal only, and not more often than the eye follows."""
        self._bar = (done, total, note)
        if done == total or time.monotonic() - self._drawn_at > REDRAW_S:
            self._draw()

    def heartbeat(self, done: int, total: int, note: str) -> None:
        """Move the bar and see to it that it is seen; where there is none, not too often."""
        self._bar = (done, total, note)
        if self._live:
            self._draw()
        elif time.monotonic() - self._drawn_at > PLAIN_LINE_S:
            self._drawn_at = time.monotonic()
            self._write(f"    {done:>5,}/{total:,}  {note}\n")

    def clear(self) -> None:
        """No bar any more."""
        self._bar = None
        self._write("")

    def table(self, *sections: tuple[str, Sequence[Row]]) -> None:
        """One box, with a titled part for each section."""
        rows = [row for _, part in sections for row in part]
        left = max(len(row.name) for row in rows)
        blank = " " * len(TICKS[self._ascii][0])
        frame = left + len(blank) + 7
        room = max(self._columns() - frame, NARROWEST)
        right = min(max(len(row.value) for row in rows), room)
        inner = frame + right - 2
        corners, flat, wall = BOXES[self._ascii]
        for n, (title, part) in enumerate(sections):
            corner = corners[min(n, 1)]
            rest = flat * (inner - len(title) - 3)
            self.line(f"{corner[0]}{flat} {self.paint(title, BOLD)} {rest}{corner[1]}")
            for row in part:
                mark = blank if row.good is None else self.mark(row.good)
                name = row.name
                for value in textwrap.wrap(row.value, right, break_on_hyphens=False) or [""]:
                    self.line(f"{wall} {mark} {name:<{left}}  {value:<{right}} {wall}")
                    mark, name = blank, ""
        self.line(f"{corners[2][0]}{flat * inner}{corners[2][1]}")

    def mark(self, good: bool) -> str:
        """A tick or a cross."""
        return self.paint(TICKS[self._ascii][not good], GREEN if good else RED)

    def paint(self, text: str, colour: str) -> str:
        """Colour a text where colours are seen."""
        return f"{colour}{text}{PLAIN}" if self._colour and colour else text

    def _draw(self) -> None:
        if not self._live or self._bar is None:
            return
        done, total, note = self._bar
        columns = self._columns()
        text = f" {done:,}/{total:,}  {note}"
        bar = draw_bar(done, total, min(30, max(10, columns // 5)), ascii_only=self._ascii)
        room = columns - len(bar) - 5
        while len(text) > room and SEPARATOR in text:
            text = text.rpartition(SEPARATOR)[0]  # whole parts go, no number is cut in two
        self._drawn_at = time.monotonic()
        self._write(f"    {self.paint(bar, GREEN)}{text[:room]}")

    def _columns(self) -> int:
        """How wide a line may be; a pipe takes any."""
        return shutil.get_terminal_size().columns if self._out.isatty() else sys.maxsize

    def _write(self, text: str) -> None:
        if self._ascii:
            text = text.replace(SEPARATOR, " - ")
        # On a terminal the cursor rests at the end of the bar; what comes replaces it.
        self._out.write(f"\r\033[K{text}" if self._live else text)
        self._out.flush()


def _can_encode(out: TextIO) -> bool:
    try:
        "█░✓╭".encode(out.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
