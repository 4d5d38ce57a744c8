"""The parent's part: starts everybody, enqueues, has two of them killed, waits for the rest."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import wake_latency
from alkstore_core import StopToken
from enqueue import enqueue_all
from progress import Reporter
from supervisor import Supervisor
from tables import FINISH, REPORT, Base, FinalReport

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.ext.asyncio import AsyncEngine

    from alkstore_core import JobHandle
    from alkstore_sqlite import SqliteStore
    from evidence import Story
    from fleet import Child, Fleet
    from screen import Screen

WORKERS = 3


class Conductor:
    """One census, from the first table to the last process."""

    def __init__(
        self, store: SqliteStore, engine: AsyncEngine, fleet: Fleet, screen: Screen, story: Story
    ) -> None:
        self._store = store
        self._engine = engine
        self._fleet = fleet
        self._screen = screen
        self._story = story

    async def take(self, database: Path, root: Path, sources: dict[str, int]) -> None:
        """Count all `sources`; the story tells how it went."""
        async with self._engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        await self._measure_wakes(database)
        workers = [
            await self._fleet.start("worker.py", str(database), str(root), name, name=name)
            for name in (f"worker-{n + 1}" for n in range(WORKERS))
        ]
        projector = await self._fleet.start("projector.py", str(database), name="projector")
        await asyncio.gather(*(child.line() for child in (*workers, projector)))
        await self._count(workers, projector, sources)
        await self._finish()

    async def _measure_wakes(self, database: Path) -> None:
        """Ping another process while there is no work yet."""
        echo = await self._fleet.start("wake_latency.py", str(database), name="echo")
        await echo.line()
        self._story.latency = await wake_latency.measure(self._store, echo)
        await self._fleet.kill(echo)
        self._screen.step(
            True,
            f"woke another process {wake_latency.ROUNDS} times, "
            f"{self._story.latency.median:.2f} ms after the commit (median)",
        )

    async def _count(self, workers: list[Child], projector: Child, sources: dict[str, int]) -> None:
        """Enqueue, and return when all is counted, acked and projected."""
        total = len(sources)
        supervisor = Supervisor(self._store, self._fleet, self._story, total, self._screen.incident)
        reporter = Reporter(self._store, self._screen, self._story, total)
        end_of_schedule, end_of_progress = StopToken(), StopToken()
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            schedule = tasks.create_task(reporter.schedule(end_of_schedule))
            tasks.create_task(reporter.consume(supervisor, end_of_progress))
            follow = tasks.create_task(supervisor.follow(workers, projector, reporter.advance))
            await enqueue_all(self._store, self._engine, sources)
            self._screen.step(
                True,
                f"enqueued {total:,} jobs with their business rows "
                f"in {time.monotonic() - began:.1f} s",
            )
            await follow
            self._story.seconds = time.monotonic() - began
            await supervisor.settle()
            end_of_schedule.stop()
            await schedule
            end_of_progress.stop()
        self._screen.clear()

    async def _finish(self) -> None:
        """Tell everybody, take the report out of the outbox, see the processes off."""
        outbox = self._store.outbox(REPORT)

        async def deliver(handle: JobHandle) -> None:
            self._story.delivered.append(handle.job.payload_as(FinalReport))

        async with outbox.backing.wakes() as wakes:
            await self._store.notify(FINISH, None)
            while not await outbox.run_once("census", deliver):
                await wakes.recv()
        await self._fleet.finish()
        # Were there a second report, it would be here now.
        while await outbox.run_once("census", deliver):
            pass
        self._story.lock_was_held = await self._store.try_lock(REPORT, "latecomer", 1) is None
        self._story.exits = {
            child.name: child.process.returncode
            for child in self._fleet.children
            if not child.killed
        }
