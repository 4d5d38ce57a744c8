"""Tables that become lists where the terminal is too narrow for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alkstore_core.cli.escaping import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

GAP: Final = 2
LEAST: Final = 16
"""The narrowest a column of long texts may become beside others."""


@frozen
class Column:
    """A column; one that is `long` takes the room that is left, and its texts are cut to it.

    One that is `whole` too continues on the next line instead: names are not cut.
    """

    title: str
    right: bool = False
    long: bool = False
    whole: bool = False


class Sheet:
    """Rows under titles. Cells that are plain strings are escaped.

    Where the columns do not fit beside each other, each row becomes a paragraph that begins with
    its first cell.
    """

    def __init__(
        self, title: str, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]
    ) -> None:
        self._title = title
        self._columns = columns
        self._rows = [
            [cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row] for row in rows
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._title:
            yield Text(self._title, style="bold cyan")
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._table(widths)
            return
        for row in self._rows:
            yield row[0] if row[0].style else Text.assemble(row[0], style="bold")
            yield Padding(
                self._paragraph(row, options.max_width - GAP), (0, 0, 0, GAP), expand=False
            )

    def _widths(self, room: int) -> list[int] | None:
        natural = [
            max([len(column.title), *(row[place].cell_len for row in self._rows)])
            for place, column in enumerate(self._columns)
        ]
        rest = room - GAP * (len(natural) - 1)
        rest -= sum(w for w, c in zip(natural, self._columns, strict=True) if not c.long)
        long = [place for place, column in enumerate(self._columns) if column.long]
        # The shortest first: what one does not need is the others'.
        for left, place in enumerate(sorted(long, key=natural.__getitem__)):
            share = rest // (len(long) - left)
            if share < min(LEAST, natural[place]):
                return None
            natural[place] = min(natural[place], share)
            rest -= natural[place]
        return None if rest < 0 else natural

    def _table(self, widths: list[int]) -> Table:
        table = Table(
            box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim", expand=False
        )
        for column, width in zip(self._columns, widths, strict=True):
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=not column.whole,
                overflow="fold" if column.whole else "ellipsis",
                width=width,
            )
        for row in self._rows:
            table.add_row(*row)
        return table

    def _paragraph(self, row: list[Text], room: int) -> Text:
        lines = [Text()]
        for column, cell in zip(self._columns[1:], row[1:], strict=True):
            pair = Text.assemble((f"{column.title} ", "dim"), cell)
            if column.long and not column.whole:
                pair.truncate(room, overflow="ellipsis")
            if column.long or lines[-1].cell_len + GAP + pair.cell_len > room:
                lines.append(pair)
            elif lines[-1].cell_len:
                lines[-1].append_text(Text(" " * GAP)).append_text(pair)
            else:
                lines[-1].append_text(pair)
            if column.long:
                lines.append(Text())
        return Text("\n").join(line for line in lines if line.cell_len)
