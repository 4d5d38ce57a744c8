"""`dead`: the jobs that failed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alkstore_core.cli.amounts import some, stamp
from alkstore_core.cli.asking import ask, mention_absence
from alkstore_core.cli.jobs import show_one, show_page
from alkstore_core.cli.opening import opened, run, source_of
from alkstore_core.cli.output import emit
from alkstore_core.cli.params import (
    I64,
    LIMIT,
    OFFSET,
    Past,
    PastMoment,
    json_option,
    outbox_option,
    url_option,
    yes_option,
)
from alkstore_core.cli.statuses import Refused, say

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alkstore_core import JobSource

_PAGE = 1000


@click.group()
def dead() -> None:
    """List, show, redrive and purge the jobs that failed for good."""


@dead.command(name="list")
@click.argument("queue")
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="Jobs at most.")
@click.option("--after", type=OFFSET, default=0, metavar="ID", help="Begin above this id.")
@outbox_option
@json_option
@url_option
def list_(
    queue: str, url: str | None, limit: int, after: int, *, outbox: bool, as_json: bool
) -> None:
    """List the dead jobs of QUEUE by id, with their last errors."""
    run(show_page(url, queue, "dead", limit, after, outbox=outbox, as_json=as_json))


@dead.command(name="show")
@click.argument("queue")
@click.argument("number", type=I64, metavar="ID")
@outbox_option
@json_option
@url_option
def show_(queue: str, number: int, url: str | None, *, outbox: bool, as_json: bool) -> None:
    """Show all about one dead job."""
    run(show_one(url, queue, number, outbox=outbox, as_json=as_json, dead=True))


@dead.command(short_help="Replace dead jobs by fresh ones, ready now.")
@click.argument("queue")
@click.argument("numbers", type=I64, nargs=-1, metavar="[ID]...")
@click.option("every", "--all", is_flag=True, help="All that are dead now.")
@outbox_option
@json_option
@url_option
def redrive(
    queue: str,
    numbers: Sequence[int],
    url: str | None,
    *,
    every: bool,
    outbox: bool,
    as_json: bool,
) -> None:
    """Replace dead jobs by fresh ones, ready now; they get new ids, which are printed.

    Each is a transaction of its own: what was redriven before an interruption stays so.
    """
    if every == bool(numbers):
        raise click.UsageError("say which: ids, or --all")
    run(_redrive(url, queue, numbers, outbox=outbox, as_json=as_json))


@dead.command()
@click.argument("queue")
@click.option(
    "--before",
    type=PastMoment(),
    metavar="TIME",
    help="Only what died before; 7d is so long ago.",
)
@outbox_option
@yes_option
@json_option
@url_option
def purge(
    queue: str, url: str | None, before: Past | None, *, outbox: bool, yes: bool, as_json: bool
) -> None:
    """Delete dead jobs for good."""
    run(_purge(url, queue, before, outbox=outbox, yes=yes, as_json=as_json))


async def _redrive(
    url: str | None, name: str, numbers: Sequence[int], *, outbox: bool, as_json: bool
) -> None:
    missing = []
    done = 0
    async with opened(url) as store:
        source = source_of(store, name, outbox=outbox)
        async for number, new in redriven(source, numbers):
            if new is None:
                # Of --all somebody else was faster; of a list the person is mistaken.
                missing += [number] if numbers else []
                continue
            done += 1
            if as_json:
                emit({"id": number, "new_id": new})
            else:
                click.echo(f"{number} → {new}")
        if not done:
            await mention_absence(store, "outbox" if outbox else "queue", name)
    if missing:
        raise Refused(f"{name!r} has no dead job {', '.join(map(str, missing))}")
    if not done:
        say(f"{name!r} has no dead job")


async def redriven(
    source: JobSource, numbers: Sequence[int]
) -> AsyncGenerator[tuple[int, int | None]]:
    """Redrive these dead jobs, or all that there are; their ids, and the new ones.

    What dies again meanwhile is left alone: a worker that fails at once would never let it end.
    """
    if numbers:
        for number in numbers:
            yield number, await source.redrive(number)
        return
    last, end = 0, None
    while page := await source.dead_jobs(_PAGE, last):
        for job in page:
            if end is not None and job.id >= end:
                return
            new = await source.redrive(job.id)
            end = new if end is None else end
            yield job.id, new
        last = page[-1].id


async def _purge(
    url: str | None, name: str, horizon: Past | None, *, outbox: bool, yes: bool, as_json: bool
) -> None:
    async with opened(url) as store:
        now = await store.now()
        before = None if horizon is None else horizon.at(now)
        if before is not None and before > now:
            raise click.UsageError(f"--before {stamp(before)} lies in the future")
        source = source_of(store, name, outbox=outbox)
        dead_now = (await source.stats()).dead
        purged = 0
        if dead_now:
            ask(_question(name, dead_now, before), yes=yes)
            purged = await source.purge_dead(before)
        else:
            await mention_absence(store, "outbox" if outbox else "queue", name)
    if as_json:
        emit({"purged": purged})
    else:
        click.echo(f"{some(purged, 'dead job')} deleted")


def _question(name: str, number: int, before: int | None) -> str:
    if before is not None:
        which = f"those of the {some(number, 'dead job')} of {name!r} that died before"
        return f"Delete {which} {stamp(before)} for good?"
    return (
        f"Delete {'all ' if number > 1 else 'the '}{some(number, 'dead job')} of {name!r} for good?"
    )
