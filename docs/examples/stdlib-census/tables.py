"""The application's own tables, and the names and messages its processes share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alkstore_sqlite import prepare_engine
from counting import Counts  # noqa: TC001  payload_as resolves the annotation at run time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JOBS = "census.jobs"  # queue: one job for each file
PROGRESS = "census.progress"  # queue: filled by a schedule
COUNTED = "census.counted"  # stream: one event for each result, keyed by path
PROJECTOR = "projector"  # consumer of that stream
SETTLED = "census.settled"  # channel: somebody ran out of work, look whether all is done
FINISH = "census.finish"  # channel: the census is complete
REPORT = "census.report"  # lock that guards the final report, and outbox that carries it


class Base(DeclarativeBase):
    """The tables of this application. Those of alkstore live beside them in the same file."""


class SourceFile(Base):
    """A file to count, and the job that was enqueued with this row."""

    __tablename__ = "files"
    path: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int]
    job_id: Mapped[int]


class Result(Base):
    """What a worker counted in a file. The key on `path` makes a second delivery harmless."""

    __tablename__ = "results"
    path: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    worker: Mapped[str]
    lines: Mapped[int]
    functions: Mapped[int]
    classes: Mapped[int]
    imports: Mapped[int]
    unparsable: Mapped[int]


class Redelivery(Base):
    """A job that was handed out again, because the claim before was never acked."""

    __tablename__ = "redeliveries"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    worker: Mapped[str]
    already_done: Mapped[bool]


class Total(Base):
    """The projection of the stream: sums for each package."""

    __tablename__ = "totals"
    package: Mapped[str] = mapped_column(primary_key=True)
    files: Mapped[int]
    lines: Mapped[int]
    functions: Mapped[int]
    classes: Mapped[int]
    imports: Mapped[int]
    unparsable: Mapped[int]


class Report(Base):
    """The final report, written by whoever held the lock."""

    __tablename__ = "reports"
    id: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[str]
    lock_token: Mapped[int]
    files: Mapped[int]


@dataclass(frozen=True, slots=True)
class Task:
    """The payload of a job."""

    path: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The payload of an event."""

    package: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class FinalReport:
    """The payload of the message that the outbox carries."""

    worker: str
    lock_token: int
    files: int
    counts: Counts


@asynccontextmanager
async def application_engine(database: Path) -> AsyncIterator[AsyncEngine]:
    """The application's own engine on the file that alkstore uses too."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    prepare_engine(engine)
    try:
        yield engine
    finally:
        await engine.dispose()
