"""Measure other queues on SQLite beside this one, in one run: `peers.py [--jobs N] [--rounds N]`.

Needs `alkstore-sqlite huey litequeue persist-queue` in its environment. Each puts jobs into a
queue one by one, then takes and finishes them one by one, on a file of its own, in one process
without concurrency. Rounds alternate, and a rate is the median of its rounds.

They do not do the same, so read the columns on the right first: whether a commit waits for the
disk (`synchronous` 2 is FULL, 1 NORMAL), and whether a job that was taken survives its taker.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alkstore_sqlite import SqliteOpts, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAYLOAD = '{"to":"ada@example.org","template":"welcome"}'


class Queue(NamedTuple):
    """Puts so many jobs, takes so many, and tells how it synchronises."""

    put: Callable[[int], None]
    take: Callable[[int], None]
    synchronous: int | str


def repeated(call: Callable[[], object]) -> Callable[[int], None]:
    """Call it so many times."""

    def times(jobs: int) -> None:
        for _ in range(jobs):
            call()

    return times


def pragma(connection: Any) -> int:
    """What `PRAGMA synchronous` is on a connection."""
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


@contextlib.contextmanager
def ours(path: Path, synchronous: Any) -> Iterator[Queue]:
    """This library: one awaited call after the other."""
    with asyncio.Runner() as runner:
        store = SqliteStore(path, opts=SqliteOpts(synchronous=synchronous))
        queue = store.queue("jobs")

        async def put(jobs: int) -> None:
            for _ in range(jobs):
                await queue.enqueue(PAYLOAD)

        async def take(jobs: int) -> None:
            for _ in range(jobs):
                handle = await queue.claim_one("bench")
                assert handle is not None
                await handle.ack()

        runner.run(store.open())
        try:
            yield Queue(
                lambda jobs: runner.run(put(jobs)), lambda jobs: runner.run(take(jobs)), synchronous
            )
        finally:
            runner.run(store.close())


@contextlib.contextmanager
def huey(path: Path) -> Iterator[Queue]:
    """Its storage alone, without what makes a call a task."""
    from huey.storage import SqliteStorage  # noqa: PLC0415

    storage = SqliteStorage("jobs", str(path))
    put = partial(storage.enqueue, PAYLOAD.encode())
    yield Queue(repeated(put), repeated(storage.dequeue), pragma(storage.conn))
    storage.close()


@contextlib.contextmanager
def litequeue(path: Path) -> Iterator[Queue]:
    """Its `put`, `pop` and `done`."""
    from litequeue import LiteQueue  # noqa: PLC0415

    queue = LiteQueue(str(path))
    yield Queue(
        repeated(lambda: queue.put(PAYLOAD)),
        repeated(lambda: queue.done(queue.pop().message_id)),
        pragma(queue.conn),
    )
    queue.conn.close()


@contextlib.contextmanager
def persist_queue(path: Path) -> Iterator[Queue]:
    """Its queue with acknowledgements."""
    from persistqueue import SQLiteAckQueue  # noqa: PLC0415

    queue = SQLiteAckQueue(str(path), auto_commit=True)
    yield Queue(
        repeated(lambda: queue.put(PAYLOAD)),
        repeated(lambda: queue.ack(queue.get(block=False))),
        pragma(queue._putter),  # noqa: SLF001 - It shows its connection nowhere else.
    )
    queue.close()


class Subject(NamedTuple):
    """A row of the table."""

    distribution: str
    opened: Callable[[Path], contextlib.AbstractContextManager[Queue]]
    survives: str


SUBJECTS = (
    Subject("alkstore-sqlite", partial(ours, synchronous="FULL"), "yes, comes back"),
    Subject("alkstore-sqlite", partial(ours, synchronous="NORMAL"), "yes, comes back"),
    Subject("huey", huey, "no"),
    Subject("litequeue", litequeue, "yes, stays locked"),
    Subject("persist-queue", persist_queue, "yes, when reopened"),
)


def rates(queue: Queue, jobs: int) -> tuple[float, float]:
    """Jobs a second that went in, and that came out."""
    began = time.perf_counter()
    queue.put(jobs)
    put = time.perf_counter()
    queue.take(jobs)
    return jobs / (put - began), jobs / (time.perf_counter() - put)


def installed() -> list[Subject]:
    """Those that are here; says which are not."""
    found = []
    for subject in SUBJECTS:
        try:
            version(subject.distribution)
        except PackageNotFoundError:
            print(f"{subject.distribution} is not installed and left out")
        else:
            found.append(subject)
    return found


def main() -> None:
    """Measure, and print a table with ratios to our first row."""
    parser = argparse.ArgumentParser(prog="peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000, help="of each subject in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=Path(), help="a directory on a real disk")
    options = parser.parse_args()
    subjects = installed()
    samples: dict[Subject, list[tuple[float, float]]] = {subject: [] for subject in subjects}
    synchronous: dict[Subject, int | str] = {}
    for _ in range(options.rounds):
        for subject in subjects:
            with (
                tempfile.TemporaryDirectory(dir=options.dir) as home,
                subject.opened(Path(home) / "queue.db") as queue,
            ):
                synchronous[subject] = queue.synchronous
                samples[subject].append(rates(queue, options.jobs))
    medians = {s: [*map(statistics.median, zip(*samples[s], strict=True))] for s in subjects}
    base = medians[subjects[0]]
    print(f"{'':24}{'put/s':>8}{'×':>7}{'take/s':>9}{'×':>7}  synchronous  taken job survives")
    for subject, (put, take) in medians.items():
        name = f"{subject.distribution} {version(subject.distribution)}"
        print(
            f"{name:24}{put:8.0f}{put / base[0]:7.2f}{take:9.0f}{take / base[1]:7.2f}"
            f"  {synchronous[subject]!s:11}  {subject.survives}"
        )


if __name__ == "__main__":
    main()
