"""`doctor`: is the database well, and does what it needs run?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from alkstore_core import DatabaseError, __version__
from alkstore_core.cli.escaping import safe
from alkstore_core.cli.examination import Bounds, Result, examine
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit, show
from alkstore_core.cli.params import OFFSET, Seconds, json_option, url_option
from alkstore_core.cli.statuses import DATABASE, OK, REFUSED, NoDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

_STYLES = {"ok": "green", "info": "cyan", "warning": "yellow", "error": "bold red"}


@click.command()
@click.option(
    "--max-age",
    type=Seconds(),
    default=300,
    show_default=True,
    help="Warn of jobs that have been ready for longer.",
)
@click.option(
    "--max-lag",
    type=OFFSET,
    default=1000,
    show_default=True,
    help="Warn of consumers with more events before them.",
)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@json_option
@url_option
@click.pass_context
def doctor(
    ctx: click.Context,
    url: str | None,
    max_age: int,
    max_lag: int,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """Try the database, and look for what nobody serves.

    It opens the store, which fails where the schema is not one of this release; reads the
    clock that stamps jobs; sends itself a notification; asks the engine what it knows; and looks
    at queues, streams and schedules. Status 1 when there is an error.
    """
    results = run(_examine(url, Bounds(max_age=max_age, max_lag=max_lag)))
    if as_json:
        findings = [
            {"code": r.code, "severity": r.severity, "message": safe(r.message)} for r in results
        ]
        emit({"version": __version__, "findings": findings})
    else:
        _show(results)
    if results[0].severity == "error":
        ctx.exit(DATABASE)
    bad = {"error", "warning"} if strict else {"error"}
    ctx.exit(REFUSED if any(r.severity in bad for r in results) else OK)


async def _examine(url: str | None, bounds: Bounds) -> Sequence[Result]:
    results: list[Result] = []
    began = time.perf_counter()
    try:
        async with opened(url) as store:
            took = (time.perf_counter() - began) * 1000
            results.append(
                Result("open", "ok", f"opened within {took:.0f} ms by alkstore {__version__}")
            )
            results += [result async for result in examine(store, bounds)]
    except (DatabaseError, NoDatabase) as error:
        if results:
            raise
        results.append(Result("open", "error", str(error)))
    return results


def _show(results: Sequence[Result]) -> None:
    lines = Table.grid(padding=(0, 2, 0, 0))
    for result in results:
        message = Text.assemble((f"{result.code}: ", "dim"), safe(result.message))
        lines.add_row(Text(result.severity, style=_STYLES[result.severity]), message)
    show(lines)
