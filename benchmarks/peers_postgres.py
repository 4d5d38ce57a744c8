"""Measure other queues on Postgres beside this one: `peers_postgres.py [--url URL]`.

Needs `alkstore-postgres procrastinate pgqueuer psycopg[binary]` in its environment, and a database
that may be filled: of `--url`, else of `ALKSTORE_TEST_POSTGRES`. Each enqueues jobs one by one,
then its own worker does them, ten at a time, with a handler that does nothing. Rounds alternate,
and a rate is the median of its rounds.

Each is as its documentation has it, so they do not do the same: ours deletes what is done,
Procrastinate keeps it, PgQueuer moves it into a log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import procrastinate
from pgqueuer import PgQueuer
from pgqueuer.types import QueueExecutionMode

from alkstore_core import StopToken
from alkstore_core.worker import Worker
from alkstore_postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pgqueuer.models import Job

CONCURRENCY = 10


class Queue(NamedTuple):
    """Enqueues one job; works until so many are done."""

    enqueue: Callable[[], Awaitable[object]]
    work: Callable[[int], Awaitable[None]]


@contextlib.asynccontextmanager
async def ours(url: str) -> AsyncIterator[Queue]:
    """This library."""
    async with PostgresStore(url) as store:
        queue = store.queue("peers")

        async def work(jobs: int) -> None:
            stop, done = StopToken(), 0

            async def handle(payload: dict[str, str]) -> None:  # noqa: ARG001
                nonlocal done
                done += 1
                if done == jobs:
                    stop.stop()

            await Worker(store, "peers", handle, concurrency=CONCURRENCY).run(stop)

        yield Queue(lambda: queue.enqueue({"to": "ada@example.org"}), work)


@contextlib.asynccontextmanager
async def theirs_procrastinate(url: str) -> AsyncIterator[Queue]:
    """Procrastinate, whose worker ends when nothing is left."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="peers")
    async def handle(to: str) -> None:
        pass

    async with app.open_async():
        with contextlib.suppress(procrastinate.exceptions.ConnectorException):
            # It is there after the first round.
            await app.schema_manager.apply_schema_async()

        async def work(jobs: int) -> None:  # noqa: ARG001
            await app.run_worker_async(
                wait=False, concurrency=CONCURRENCY, install_signal_handlers=False
            )

        yield Queue(lambda: handle.defer_async(to="ada@example.org"), work)


@contextlib.asynccontextmanager
async def theirs_pgqueuer(url: str) -> AsyncIterator[Queue]:
    """PgQueuer, whose worker drains the queue and ends."""
    connection = await asyncpg.connect(url)
    app = PgQueuer.from_asyncpg_connection(connection)
    if not await app.qm.queries.schema_is_installed():
        await app.qm.queries.install()

    @app.entrypoint("peers")
    async def handle(job: Job) -> None:
        pass

    async def work(jobs: int) -> None:  # noqa: ARG001
        await app.run(batch_size=CONCURRENCY, mode=QueueExecutionMode.drain)

    yield Queue(lambda: app.qm.queries.enqueue("peers", b'{"to":"ada@example.org"}'), work)
    await connection.close()


SUBJECTS = {
    "alkstore-postgres": ours,
    "procrastinate": theirs_procrastinate,
    "pgqueuer": theirs_pgqueuer,
}


async def rates(queue: Queue, jobs: int) -> tuple[float, float]:
    """Jobs a second that went in, and that were done."""
    began = time.perf_counter()
    for _ in range(jobs):
        await queue.enqueue()
    put = time.perf_counter()
    await queue.work(jobs)
    return jobs / (put - began), jobs / (time.perf_counter() - put)


async def measure(url: str, jobs: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """All rounds of all subjects."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in SUBJECTS}
    for _ in range(rounds):
        for name, opened in SUBJECTS.items():
            async with opened(url) as queue:
                samples[name].append(await rates(queue, jobs))
    return samples


def main() -> None:
    """Measure, and print a table with ratios to ours."""
    parser = argparse.ArgumentParser(
        prog="peers_postgres", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--url", default=os.environ.get("ALKSTORE_TEST_POSTGRES"))
    parser.add_argument("--jobs", type=int, default=1000, help="of each subject in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not options.url:
        parser.error("--url names the database, postgresql://user:password@host/name")
    samples = asyncio.run(measure(options.url, options.jobs, options.rounds))
    medians = {n: [*map(statistics.median, zip(*of, strict=True))] for n, of in samples.items()}
    base = medians["alkstore-postgres"]
    print(f"{'':26}{'enqueue/s':>10}{'×':>7}{'done/s':>9}{'×':>7}")
    for name, (put, done) in medians.items():
        print(
            f"{name + ' ' + version(name):26}{put:10.0f}{put / base[0]:7.2f}"
            f"{done:9.0f}{done / base[1]:7.2f}"
        )


if __name__ == "__main__":
    main()
