"""`jobs` and `sweep`, and how jobs are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from rich.table import Table
from rich.text import Text

from alkstore_core import JobState
from alkstore_core.cli.amounts import stamp, until
from alkstore_core.cli.asking import absence, mention_absence
from alkstore_core.cli.escaping import lines, payload_line, payload_text, shown
from alkstore_core.cli.looks import live
from alkstore_core.cli.opening import opened, run, source_of
from alkstore_core.cli.output import emit, show
from alkstore_core.cli.params import (
    I64,
    LIMIT,
    OFFSET,
    json_option,
    outbox_option,
    url_option,
)
from alkstore_core.cli.shapes import job_fields
from alkstore_core.cli.sheets import Column, Sheet
from alkstore_core.cli.statuses import Refused, say
from alkstore_core.showing import since

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alkstore_core import Job, Store

_STYLES: Final = {"dead": "red", "lapsed": "yellow", "expired": "yellow"}
_WORDS: Final = {"dead": "died", "delayed": "due", "processing": "lapses"}
"""What happens or happened when; others are as they stand."""


@click.command(short_help="List the jobs of a queue, or show one.")
@click.argument("queue")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in JobState]),
    help="Without it: all that are not dead.",
)
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="Jobs at most.")
@click.option("--after", type=OFFSET, default=0, metavar="ID", help="Begin above this id.")
@click.option("--id", "number", type=I64, metavar="ID", help="All about one job, live or dead.")
@outbox_option
@json_option
@url_option
def jobs(
    queue: str,
    url: str | None,
    state: str | None,
    limit: int,
    after: int,
    number: int | None,
    *,
    outbox: bool,
    as_json: bool,
) -> None:
    """List the jobs of QUEUE by id, or with --id show one."""
    if number is not None:
        run(show_one(url, queue, number, outbox=outbox, as_json=as_json, dead=False))
    else:
        run(show_page(url, queue, state, limit, after, outbox=outbox, as_json=as_json))


@click.command(short_help="Bury expired jobs, and delete dead ones past retention.")
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option("--outbox", "outboxes", multiple=True, metavar="NAME", help="Repeatable.")
@json_option
@url_option
def sweep(
    queues: Sequence[str], url: str | None, outboxes: Sequence[str], *, as_json: bool
) -> None:
    """Bury jobs past their expiry, and delete dead ones past their retention.

    Without names: in all queues and outboxes.
    """
    run(_sweep(url, queues, outboxes, as_json=as_json))


async def show_page(
    url: str | None,
    name: str,
    state: str | None,
    limit: int,
    after: int,
    *,
    outbox: bool,
    as_json: bool,
) -> None:
    """A page of a queue's jobs, and where the next one begins."""
    async with opened(url) as store:
        source = source_of(store, name, outbox=outbox)
        page = await source.jobs(state, limit + 1, after)
        if not page and not await mention_absence(store, "outbox" if outbox else "queue", name):
            stats = await source.stats()
            above = f" above id {after}" if after else ""
            counts = f"{live(stats)} live and {stats.dead} dead in all"
            say(f"no job of {name!r}{above} is {state or 'live'}; {counts}")
        now = await store.now()
    following = page[limit - 1].id if len(page) > limit else None
    page = page[:limit]
    if as_json:
        found = [job_fields(job, now, name, outbox=outbox) for job in page]
        kind = "outbox" if outbox else "queue"
        emit({"queue": name, "kind": kind, "jobs": found, "next_after": following})
    elif page:
        show(_sheet(page, now))
    if following is not None:
        say(f"there are more: --after {following}")


async def show_one(
    url: str | None, name: str, number: int, *, outbox: bool, as_json: bool, dead: bool
) -> None:
    """All about one job.

    Raises:
        Refused: there is none of this id.

    """
    async with opened(url) as store:
        job = await source_of(store, name, outbox=outbox).get_job(number)
        if job is None or (dead and job.state is not JobState.DEAD):
            await mention_absence(store, "outbox" if outbox else "queue", name)
            what = "dead job" if dead else "job"
            raise Refused(f"{name!r} has no {what} {number}")
        now = await store.now()
    if as_json:
        emit(job_fields(job, now, name, outbox=outbox))
        return
    fields = Table.grid(padding=(0, 2, 0, 0))
    for title, text in _fields(job, now):
        fields.add_row(Text(title, style="dim"), Text(text))
    show(fields, Text("payload", style="dim"))
    text, cut = payload_text(job.payload)
    show(Text(text))
    if cut:
        say("cut; --json has all of it")


async def _sweep(
    url: str | None, queues: Sequence[str], outboxes: Sequence[str], *, as_json: bool
) -> None:
    async with opened(url) as store:
        known = {"queue": await store.queues(), "outbox": await store.outboxes()}
        chosen = [("queue", name) for name in queues] + [("outbox", name) for name in outboxes]
        if not chosen:
            chosen = [(kind, name) for kind, names in known.items() for name in names]
        swept = [
            {"name": name, "kind": kind, "expired": await _sweep_one(store, kind, name)}
            for kind, name in chosen
        ]
    for kind, name in chosen:
        if name not in known[kind]:
            say(absence(kind, name, known[kind]))
    if as_json:
        emit({"swept": swept})
    elif swept:
        columns = [Column("name", long=True, whole=True), Column("kind")]
        columns.append(Column("expired", right=True))
        rows = [(str(s["name"]), str(s["kind"]), str(s["expired"])) for s in swept]
        show(Sheet("", columns, rows))
    else:
        say("there is no queue and no outbox to sweep")


async def _sweep_one(store: Store, kind: str, name: str) -> int:
    return await source_of(store, name, outbox=kind == "outbox").sweep_expired()


def _sheet(page: Iterable[Job], now: int) -> Sheet:
    rows = [
        (
            str(job.id),
            Text(standing := job.standing(now), style=_STYLES.get(standing, "")),
            str(job.priority),
            f"{job.attempts}/{job.max_attempts}",
            _when(job, standing, now),
            payload_line(job.payload),
            job.last_error or "-",
        )
        for job in page
    ]
    columns = [
        Column("id", right=True),
        Column("state"),
        Column("prio", right=True),
        Column("tries", right=True),
        Column("when"),
        Column("payload", long=True),
        Column("last error", long=True),
    ]
    return Sheet("", columns, rows)


def _when(job: Job, standing: str, now: int) -> str:
    moment, word = since(job, standing), _WORDS.get(standing, standing)
    return word if moment is None else f"{word} {until(moment, now)}"


def _fields(job: Job, now: int) -> Iterable[tuple[str, str]]:
    def moment(time: int | None) -> str:
        return "-" if time is None else f"{stamp(time)}  ({until(time, now)})"

    yield "id", str(job.id)
    standing = job.standing(now)
    yield "state", standing if standing == job.state else f"{job.state}, {standing}"
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    yield "priority", str(job.priority)
    yield "created", moment(job.created_at)
    yield "ready", moment(job.run_at)
    yield "expires", moment(job.expires_at)
    yield "worker", "-" if job.worker_id is None else shown(job.worker_id)
    yield "claimed", moment(job.claimed_at)
    if job.state is JobState.DEAD:
        yield "died", moment(job.died_at)
    else:
        yield "claim ends", moment(job.claim_expires_at)
    options = (
        f"visibility timeout {job.visibility_timeout_s} s, backoff from {job.backoff_base_s} s"
    )
    kept = job.dead_letter_retention_s
    yield "options", f"{options}, kept {'for ever' if kept is None else f'{kept} s'} once dead"
    for name, value in (job.headers or {}).items():
        yield "header", shown(f"{name}={value}")
    yield "last error", lines(job.last_error or "-")
