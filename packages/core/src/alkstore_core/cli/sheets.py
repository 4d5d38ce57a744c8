"""Tables that become lists where the terminal is too narrow for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen
from rich.padding import Padding
from rich.text import Text

from alkstore_core.cli.escaping import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
            titles = [Text(column.title, style="dim") for column in self._columns]
            for row in (titles, *self._rows):
                yield from self._lines(row, widths, console)
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

    def _lines(self, row: list[Text], widths: list[int], console: Console) -> Iterator[Text]:
        """Not by a table of rich's: what it makes of widths differs from release to release."""
        cells: list[list[Text]] = []
        for column, cell, width in zip(self._columns, row, widths, strict=True):
            pieces = (
                [*cell.wrap(console, width, overflow="fold")] if column.whole else [cell.copy()]
            )
            for piece in pieces:
                piece.truncate(width, overflow="ellipsis")
                piece.align("right" if column.right else "left", width)
            cells.append(pieces)
        for place in range(max(map(len, cells))):
            line = Text(" " * GAP).join(
                pieces[place] if place < len(pieces) else Text(" " * width)
                for pieces, width in zip(cells, widths, strict=True)
            )
            line.rstrip()
            yield line

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
