"""`status`: what is in a store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from rich.text import Text

from alkstore_core.cli.board import board
from alkstore_core.cli.escaping import safe
from alkstore_core.cli.looks import Look, Rates, look
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit, show
from alkstore_core.cli.params import Number, json_option, url_option
from alkstore_core.cli.shapes import status_fields
from alkstore_core.cli.statuses import say

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(short_help="Show queues, streams, consumers, locks and schedules.")
@click.option(
    "--watch-for",
    type=Number(0.1, 86_400),
    metavar="SECONDS",
    help="Look twice, so long apart, and show what has changed per second.",
)
@json_option
@url_option
def status(url: str | None, watch_for: float | None, *, as_json: bool) -> None:
    """Show queues, outboxes, streams, consumers, locks and schedules.

    Queues are there while they hold a job, dead ones included, and streams while they hold an
    event or a consumer's offset. Counting reads all rows of a queue.

    With --watch-for, backlog/s is how the number of jobs that are not dead has changed per
    second, lag/s how a consumer's lag has, and events/s how many events were published. What
    came and went between the two looks is in none of them.
    """
    looks = run(_looks(url, watch_for))
    rates = Rates(*looks) if len(looks) > 1 else None
    if as_json:
        emit(status_fields(looks[-1], rates))
        return
    sheets = [*board(looks[-1], rates)]
    for place, sheet in enumerate(sheets):
        show(*([Text()] if place else []), sheet)
    if not sheets:
        say(f"{safe(url or '')} holds no job, event, consumer, lock or schedule")


async def _looks(url: str | None, watch_for: float | None) -> Sequence[Look]:
    async with opened(url) as store:
        looks = [await look(store)]
        if watch_for is not None:
            await asyncio.sleep(watch_for)
            looks.append(await look(store))
    return looks
