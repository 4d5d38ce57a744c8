"""What is there when all is over, read from the database, and what the parent saw on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from counting import Counts
from tables import (
    COUNTED,
    JOBS,
    PROGRESS,
    PROJECTOR,
    REPORT,
    Counted,
    FinalReport,
    Redelivery,
    Report,
    Result,
    SourceFile,
    Total,
)

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncEngine

    from alkstore_core import Store, StreamEvent
    from wake_latency import WakeLatency

PAGE = 1_000


@dataclass(slots=True)
class Story:
    """What happened on the way, as far as no table tells it."""

    killed: str | None = None  # the worker that got SIGKILL
    held: set[int] = field(default_factory=set)  # the jobs it held at that moment
    resumed_at: int | None = None  # the offset at which the second projector began
    progress_jobs: int = 0
    delivered: list[FinalReport] = field(default_factory=list)  # what the outbox handed out
    lock_was_held: bool = False  # whether a latecomer found the report's lock taken
    exits: dict[str, int | None] = field(default_factory=dict)  # of those not killed
    latency: WakeLatency | None = None
    seconds: float = 0.0  # from the first enqueue to the last result


@dataclass(slots=True)
class Evidence:
    """Everything a verdict is based on."""

    files: list[tuple[str, int]]  # path, job id
    results: list[tuple[str, int, Counts]]  # path, job id, counts
    events: list[tuple[str | None, Counts]]  # key, counts
    last_offset: int
    saved_offset: int
    totals: dict[str, tuple[int, Counts]]  # package: files, counts
    redeliveries: list[tuple[int, bool]]  # job id, whether its result was there already
    reports: list[tuple[str, int, int]]  # worker, lock token, files
    left: dict[str, int]  # queue: jobs in whatever state
    story: Story


async def gather(store: Store, engine: AsyncEngine, story: Story) -> Evidence:
    """Read it all back."""
    events = await read_all(store)
    async with engine.connect() as connection:
        files = await connection.execute(select(SourceFile.path, SourceFile.job_id))
        results = await connection.execute(select(Result.__table__))
        totals = await connection.execute(select(Total.__table__))
        again = await connection.execute(select(Redelivery.job_id, Redelivery.already_done))
        reports = await connection.execute(select(Report.worker, Report.lock_token, Report.files))
        return Evidence(
            files=[(path, job_id) for path, job_id in files],
            results=[(row.path, row.job_id, _counts_of(row)) for row in results],
            events=[(event.key, event.payload_as(Counted).counts) for event in events],
            last_offset=events[-1].offset if events else 0,
            saved_offset=await store.stream(COUNTED).get_offset(PROJECTOR),
            totals={row.package: (row.files, _counts_of(row)) for row in totals},
            redeliveries=[(job_id, done) for job_id, done in again],
            reports=[(worker, token, n) for worker, token, n in reports],
            left={name: await jobs_left(store, name) for name in (JOBS, PROGRESS, REPORT)},
            story=story,
        )


async def read_all(store: Store) -> list[StreamEvent]:
    """The whole stream, by pages."""
    stream = store.stream(COUNTED)
    events: list[StreamEvent] = []
    while page := await stream.read_since(events[-1].offset if events else 0, PAGE):
        events += page
    return events


async def jobs_left(store: Store, name: str) -> int:
    """Count a queue's jobs, waiting or not, alive or dead."""
    queue = store.outbox(name).backing if name == REPORT else store.queue(name)
    stats = await queue.stats()
    return (
        stats.ready + stats.delayed + stats.processing + stats.lapsed + stats.expired + stats.dead
    )


def _counts_of(row: Row[Any]) -> Counts:
    return Counts(row.lines, row.functions, row.classes, row.imports, row.unparsable)
