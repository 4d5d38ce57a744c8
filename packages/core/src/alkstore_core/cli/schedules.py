"""`locks` and `schedules`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alkstore_core import ScheduleOpts
from alkstore_core.cli.amounts import stamp
from alkstore_core.cli.board import locks_sheet, schedules_sheet
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit, show
from alkstore_core.cli.params import (
    I64,
    Seconds,
    header_option,
    json_option,
    typed_payload,
    url_option,
)
from alkstore_core.cli.shapes import lock_fields, schedule_fields
from alkstore_core.cli.statuses import Refused, say

if TYPE_CHECKING:
    from collections.abc import Sequence


class _ListUnlessSaid(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.command(short_help="List the leases that somebody holds.")
@json_option
@url_option
def locks(url: str | None, *, as_json: bool) -> None:
    """List the leases that somebody holds, the scheduler's among them."""
    run(_locks(url, as_json=as_json))


@click.group(cls=_ListUnlessSaid)
def schedules() -> None:
    """List, add and remove schedules; without a command: list."""


@schedules.command(name="list")
@json_option
@url_option
def list_(url: str | None, *, as_json: bool) -> None:
    """List schedules, and when each fires next."""
    run(_list(url, as_json=as_json))


@schedules.command(short_help="Add a schedule, or replace one.")
@click.argument("name")
@click.argument("spec")
@click.argument("queue")
@click.argument("payload", default="null")
@click.option("--priority", type=I64, default=0, show_default=True, help="Of its jobs.")
@click.option("--max-attempts", type=I64, metavar="N", help="Of its jobs.")
@click.option("--expires", type=Seconds(), help="Of its jobs, from when it fires.")
@header_option
@click.option("--create", is_flag=True, help="Make the database's file if there is none.")
@json_option
@url_option
def add(
    name: str,
    spec: str,
    queue: str,
    payload: str,
    url: str | None,
    headers: Sequence[tuple[str, str]],
    *,
    create: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Put a job with PAYLOAD, which is JSON, into QUEUE at each boundary of SPEC.

    SPEC is "@every 15m", with s, m, h or d, and no cron expression. A schedule of that name is
    replaced. Jobs come only while somebody runs schedules, as `alkstore worker` does.
    """
    value = typed_payload(payload.encode(errors="surrogateescape"))
    opts = ScheduleOpts(headers=dict(headers) or None, **options)
    run(_add(url, name, spec, queue, value, opts, create=create, as_json=as_json))


@schedules.command()
@click.argument("name")
@url_option
def remove(name: str, url: str | None) -> None:
    """Remove a schedule; jobs that it has enqueued stay."""
    run(_remove(url, name))


async def _locks(url: str | None, *, as_json: bool) -> None:
    async with opened(url) as store:
        held, now = await store.locks(), await store.now()
    if as_json:
        emit({"locks": [lock_fields(lock) for lock in held]})
    elif held:
        show(locks_sheet("", held, now))
    else:
        say("nobody holds a lock")


async def _list(url: str | None, *, as_json: bool) -> None:
    async with opened(url) as store:
        stored, now = await store.schedules(), await store.now()
    if as_json:
        emit({"schedules": [schedule_fields(schedule) for schedule in stored]})
    elif stored:
        show(schedules_sheet("", stored, now))
    else:
        say("there is no schedule")


async def _add(
    url: str | None,
    name: str,
    spec: str,
    queue: str,
    value: Any,
    opts: ScheduleOpts,
    *,
    create: bool,
    as_json: bool,
) -> None:
    async with opened(url, create=create) as store:
        stored = await store.schedule(name, spec, queue, value, opts)
    if as_json:
        emit(schedule_fields(stored))
    else:
        click.echo(f"fires next at {stamp(stored.next_fire_at)}")


async def _remove(url: str | None, name: str) -> None:
    async with opened(url) as store:
        if not await store.unschedule(name):
            known = ", ".join(repr(schedule.name) for schedule in await store.schedules())
            raise Refused(f"there is no schedule {name!r}; there are: {known or 'none'}")
    click.echo("removed")
