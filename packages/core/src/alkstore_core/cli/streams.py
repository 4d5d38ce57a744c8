"""`stream`: read, trim, and who reads."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from alkstore_core.cli.amounts import count, some, until
from alkstore_core.cli.asking import ask, mention_absence
from alkstore_core.cli.ending import run_until_told
from alkstore_core.cli.escaping import payload_line, shown
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit, show
from alkstore_core.cli.params import (
    OFFSET,
    Integer,
    json_option,
    url_option,
    yes_option,
)
from alkstore_core.cli.shapes import event_fields
from alkstore_core.cli.sheets import Column, Sheet
from alkstore_core.overview import stream_overview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core import Store, StreamEvent

PAGE: Final = 100
LOOK_AGAIN_S: Final = 0.25
"""How soon `--follow` reads again at the end; a read that finds nothing costs next to nothing."""


@click.group()
def stream() -> None:
    """Read and trim streams, and see who reads them."""


@stream.command(short_help="Print the events of a stream.")
@click.argument("name", metavar="STREAM")
@click.option("first", "--from", type=OFFSET, metavar="OFFSET", help="The first offset to show.")
@click.option("--consumer", metavar="NAME", help="What this consumer has not passed yet.")
@click.option("--limit", type=Integer(1), metavar="N", help="Events at most.  [default: 100]")
@click.option("--follow", "-f", is_flag=True, help="Go on with new events, until ctrl-C.")
@json_option
@url_option
def read(
    name: str,
    url: str | None,
    first: int | None,
    consumer: str | None,
    limit: int | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Print events of STREAM in their order, from its beginning unless it is said.

    Nobody's offset is moved. With --json each event is a line.
    """
    if first is not None and consumer is not None:
        raise click.UsageError("say where to begin: --from, or --consumer")
    if limit is None and not follow:
        limit = PAGE
    reading = functools.partial(
        _read, url, name, first, consumer, limit, follow=follow, as_json=as_json
    )
    if follow:
        run_until_told(lambda _: reading())
    else:
        run(reading())


@stream.command()
@click.argument("name", metavar="STREAM")
@click.option("--to", "horizon", type=OFFSET, metavar="OFFSET", help="The last offset to delete.")
@click.option("--consumed", is_flag=True, help="All that every consumer has passed.")
@yes_option
@json_option
@url_option
def trim(
    name: str,
    url: str | None,
    horizon: int | None,
    *,
    consumed: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the oldest events of STREAM for good."""
    if consumed == (horizon is not None):
        raise click.UsageError("say how far: --to OFFSET, or --consumed")
    run(_trim(url, name, horizon, yes=yes, as_json=as_json))


@stream.command()
@click.argument("name", metavar="STREAM", required=False)
@json_option
@url_option
def consumers(name: str | None, url: str | None, *, as_json: bool) -> None:
    """Show where consumers stand, and how much lies before them."""
    run(_consumers(url, name, as_json=as_json))


async def _read(
    url: str | None,
    name: str,
    first: int | None,
    consumer: str | None,
    limit: int | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    async with opened(url) as store:
        handle = store.stream(name)
        position = max((first or 0) - 1, 0)
        if consumer is not None:
            position = await handle.get_offset(consumer)
        if not (await handle.bounds()).count:
            await mention_absence(store, "stream", name)
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await handle.read_since(position, size)
            await _print(store, page, as_json=as_json, by_line=follow)
            if page:
                position = page[-1].offset
                left = None if left is None else left - len(page)
            if len(page) < size:
                if not follow:
                    return
                await asyncio.sleep(LOOK_AGAIN_S)


async def _print(
    store: Store, page: Sequence[StreamEvent], *, as_json: bool, by_line: bool
) -> None:
    if as_json:
        for event in page:
            emit(event_fields(event))
    elif by_line:
        for event in page:
            key = "" if event.key is None else f"{shown(event.key)}  "
            click.echo(f"{event.offset}  {key}{payload_line(event.payload)}")
    elif page:
        show(_sheet(page, await store.now()))


def _sheet(page: Sequence[StreamEvent], now: int) -> Sheet:
    rows = [
        (
            str(event.offset),
            until(event.created_at, now),
            event.key or "-",
            payload_line(event.payload),
        )
        for event in page
    ]
    columns = [
        Column("offset", right=True),
        Column("published"),
        Column("key", long=True),
        Column("payload", long=True),
    ]
    return Sheet("", columns, rows)


async def _trim(
    url: str | None, name: str, horizon: int | None, *, yes: bool, as_json: bool
) -> None:
    async with opened(url) as store:
        handle = store.stream(name)
        positions = await handle.consumers()
        bounds = await handle.bounds()
        if not bounds.count:
            await mention_absence(store, "stream", name)
        if horizon is None:
            if not positions:
                raise click.UsageError(f"stream {name!r} has no consumer; say --to OFFSET")
            horizon = min(position.offset for position in positions)
        trimmed = 0
        if bounds.count and horizon >= bounds.first:
            unread = [p.consumer for p in positions if p.offset < min(horizon, bounds.last)]
            ask(_question(name, horizon, unread), yes=yes)
            trimmed = await handle.trim_to(horizon)
    if as_json:
        emit({"stream": name, "horizon": horizon, "trimmed": trimmed})
    else:
        click.echo(f"{some(trimmed, 'event')} deleted")


def _question(name: str, horizon: int, unread: Sequence[str]) -> str:
    loss = ""
    if unread:
        loss = f" {', '.join(map(repr, unread))} may not have read all of them."
    return shown(f"Delete all events of stream {name!r} up to offset {horizon} for good?{loss}")


async def _consumers(url: str | None, name: str | None, *, as_json: bool) -> None:
    async with opened(url) as store:
        names = await store.streams() if name is None else [name]
        streams = [await stream_overview(store, each) for each in names]
        places = [(found, consumer) for found in streams for consumer in found.consumers]
        absent = name and not places and await mention_absence(store, "stream", name)
    if as_json:
        rows = [
            {"stream": s.name, "name": c.name, "offset": c.offset, "lag": c.lag} for s, c in places
        ]
        emit({"consumers": rows})
    elif places:
        columns = [
            Column("stream", long=True, whole=True),
            Column("consumer", long=True, whole=True),
            Column("offset", right=True),
            Column("lag", right=True),
        ]
        show(
            Sheet(
                "",
                columns,
                [(s.name, c.name, Text(str(c.offset)), count(c.lag, "yellow")) for s, c in places],
            )
        )
    elif not absent:
        click.echo("no consumer has saved an offset", err=True)
