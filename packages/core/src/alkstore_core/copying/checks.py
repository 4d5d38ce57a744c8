"""What must not go on around a copy."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alkstore_core.copying.mark import MARK, read_mark
from alkstore_core.errors import CopyRefused, DatabaseError
from alkstore_core.names import SCHEDULER_LOCK
from alkstore_core.opentx import begin

if TYPE_CHECKING:
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import RecordKind, Session

KINDS: Final[tuple[RecordKind, ...]] = ("jobs", "dead_jobs", "events", "consumers", "schedules")

PROBE_S: Final = 3600
"""Longer than clocks of one database differ; it is released at once."""


def check_two_files(source: str, target: str) -> None:
    """Refuse two names of one file; where there is none, the name is empty.

    Raises:
        CopyRefused: source and target are one file.

    """
    if source and target and same_file(Path(source), Path(target)):
        raise CopyRefused(f"source and target are one database, {source}; name another target")


def same_file(one: Path, other: Path) -> bool:
    """Whether these are names of one file, or would be of one that is not there yet."""
    try:
        return one.samefile(other)
    except OSError:
        # One is not there, or cannot be: who opens it says better why.
        return os.path.realpath(one) == os.path.realpath(other)


async def check_apart(source: Runtime, target: Runtime) -> None:
    """Refuse two stores on one database: a lock that is taken in one would be seen in the other.

    Hard links of one file are found by the file: SQLite takes them for two databases.

    Raises:
        CopyRefused: they are.

    """
    check_two_files(source.engine.path, target.engine.path)
    if target.slot.taken:
        await target.turn("copy_store")
    name = f"{MARK}:{uuid.uuid4().hex}"
    token = await target.session().acquire(name, name, PROBE_S)
    if token is None:
        raise CopyRefused("the target refused a lock that nobody can hold; its engine is broken")
    try:
        locks = await source.session().list_locks()
    finally:
        await target.finish(target.session().release_lock(name, token))
    if any(lock.name == name for lock in locks):
        raise CopyRefused("source and target are one database; name another target")


async def check_quiet(source: Runtime) -> None:
    """Refuse a source that somebody is at work on.

    Raises:
        CopyRefused: there is a transaction that keeps others from writing, a live claim, a
            leading scheduler, an open publish, or the mark of a copy that never became whole.

    """
    session = source.session()
    await _check_no_writer(source)
    await _check_no_leader(session, "source")
    for queue in await session.names("queue"):
        claimed = (await session.stats(queue)).processing
        if claimed:
            raise CopyRefused(
                f"the source's queue {queue!r} has {claimed} live claims: stop its workers, and "
                "wait until their claims were released or have lapsed"
            )
    for stream in await session.names("stream"):
        bounds = await session.bounds(stream)
        # A reader is not given the last event while one before it can still commit.
        if bounds.count and not await session.read(stream, bounds.last - 1, 1):
            raise CopyRefused(
                f"a transaction that publishes to the source's stream {stream!r} is still open: "
                "stop its publishers"
            )
    if await read_mark(session) is not None:
        raise CopyRefused(
            "the source is itself the target of a copy that is not whole; finish that one first"
        )


async def check_not_led(target: Runtime) -> None:
    """Refuse a target whose schedules would fire while they are copied.

    Raises:
        CopyRefused: somebody runs them.

    """
    await _check_no_leader(target.session(), "target")


async def _check_no_writer(source: Runtime) -> None:
    """Where one writes at a time, what is open now would be missed; elsewhere this says nothing."""
    try:
        await (await begin(source)).rollback()
    except DatabaseError as error:
        raise CopyRefused(
            f"somebody writes to the source ({error}): let open transactions end, and stop its "
            "writers"
        ) from error


async def _check_no_leader(session: Session, which: str) -> None:
    if any(lock.name == SCHEDULER_LOCK for lock in await session.list_locks()):
        raise CopyRefused(f"somebody runs the schedules of the {which}: stop run_schedules there")


async def is_empty(session: Session) -> bool:
    """Whether nothing is stored that a copy could meet."""
    for kind in KINDS:
        if await session.dump(kind, None, 1):
            return False
    return True
