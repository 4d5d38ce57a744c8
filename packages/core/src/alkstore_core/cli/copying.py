"""`copy`: everything of one database to another one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from alkstore_core import Closed, DatabaseError, copy_store
from alkstore_core.cli.amounts import count
from alkstore_core.cli.mapfile import whole_file
from alkstore_core.cli.opening import file_of, opened, run
from alkstore_core.cli.output import emit, paper, show
from alkstore_core.cli.params import Integer, json_option
from alkstore_core.cli.sheets import Column, Sheet
from alkstore_core.cli.statuses import NotWritten, say
from alkstore_core.copying.checks import KINDS, check_two_files

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from rich.progress import TaskID

    from alkstore_core import CopyProgress, CopyReport

_WIDE: Final = 60
"""Columns from which on a bar says something."""


@click.command(name="copy", short_help="Copy all that is in a store to another database.")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "map_file",
    "--map",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the old and new number of each job and event, as lines of JSON.",
)
@click.option(
    "--batch",
    type=Integer(1, 100_000),
    default=1000,
    show_default=True,
    help="Rows of one transaction.",
)
@json_option
def copy(source: str, target: str, map_file: Path | None, batch: int, *, as_json: bool) -> None:
    """Copy all jobs, events, consumers and schedules from SRC to DST, and read them back.

    Both are URLs, or @NAME for one that the environment holds, where no list of processes shows
    its password. DST is empty, or an unfinished copy of SRC. Stop everybody who works on either
    first. When it is interrupted or killed, run the same command again: it goes on. What would
    spoil the copy is refused with status 1.
    """
    report = run(_copy(_url(source), _url(target), map_file, batch))
    if as_json:
        emit({**attrs.asdict(report), "digests": dict(report.digests)})
    else:
        _show(report)


def _url(given: str) -> str:
    if not given.startswith("@"):
        return given
    url = os.environ.get(given[1:])
    if not url:
        raise click.UsageError(f"the environment has no {given[1:]!r} with a URL in it")
    return url


async def _copy(source: str, target: str, map_file: Path | None, batch: int) -> CopyReport:
    # Before either is opened: that alone may write.
    check_two_files(*(str(file_of(url) or "") for url in (source, target)))
    report = None
    try:
        # The map is begun before a target is made.
        with whole_file(map_file, (source, target)) as file:
            async with opened(source) as old, opened(target, create=True) as new:
                with _progress() as tell:
                    report = await _hinting(
                        copy_store(old, new, map_to=file, progress=tell, batch=batch)
                    )
    except NotWritten:
        if report is not None:
            say("the copy is whole, but its map is not; run the same command again")
        raise
    return report


async def _hinting(copying: Coroutine[Any, Any, CopyReport]) -> CopyReport:
    try:
        return await copying
    except (asyncio.CancelledError, Closed, DatabaseError, NotWritten):
        say("the copy is not whole; run the same command again, and it goes on")
        raise


@contextlib.contextmanager
def _progress() -> Generator[Callable[[CopyProgress], object] | None]:
    console = paper(err=True)
    if not console.is_terminal:
        yield None
        return
    # On a narrow terminal the numbers alone.
    wide = console.width >= _WIDE
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), MofNCompleteColumn()]
    columns += [BarColumn(bar_width=None), TimeElapsedColumn()] if wide else []
    with Progress(*columns, console=console, expand=wide) as bars:
        tasks: dict[tuple[str, str], TaskID] = {}

        def end_reading() -> None:
            for task in bars.tasks:
                if task.total is None:
                    bars.update(task.id, total=task.completed)

        def tell(at: CopyProgress) -> None:
            key = (at.step, at.kind)
            if key not in tasks:
                end_reading()
                name = f"{at.step} {at.kind.replace('_', ' ')}"
                tasks[key] = bars.add_task(name, total=at.total)
            bars.update(tasks[key], completed=at.done, total=at.total)

        yield tell
        end_reading()


def _show(report: CopyReport) -> None:
    columns = [Column("kind"), Column("copied", right=True), Column("sha256", long=True)]
    rows = [
        (kind.replace("_", " "), count(getattr(report, kind)), report.digests.get(kind, "-"))
        for kind in KINDS
    ]
    show(Sheet("", columns, rows))
    how = " (begun by an earlier run)" if report.resumed else ""
    show(Text(f"The target is whole: both sides were read back and hold the same.{how}"))
