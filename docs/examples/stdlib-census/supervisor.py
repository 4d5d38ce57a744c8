"""Follows the results as they come, and kills two processes on the way."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from evidence import jobs_left
from tables import COUNTED, JOBS, PROJECTOR, SETTLED, Task
from worker import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core import Job, Store
    from evidence import Story
    from fleet import Child, Fleet


class Supervisor:
    """Sees each event of the stream; a third of the way the projector dies, half way a worker."""

    def __init__(
        self, store: Store, fleet: Fleet, story: Story, total: int, tell: Callable[[str], None]
    ) -> None:
        self.seen: set[str] = set()
        self._store = store
        self._fleet = fleet
        self._story = story
        self._total = total
        self._tell = tell

    async def follow(
        self, workers: list[Child], projector: Child, advance: Callable[[int], None]
    ) -> None:
        """Return when there was an event for each of the files."""
        async with self._store.stream(COUNTED).subscribe("supervisor") as events:
            async for event in events:
                self.seen.add(str(event.key))
                advance(len(self.seen))
                if self._story.resumed_at is None and len(self.seen) >= self._total // 3:
                    await self._replace(projector)
                if self._story.killed is None and len(self.seen) >= self._total // 2:
                    await self._kill_a_holder(workers)
                if len(self.seen) == self._total:
                    return

    async def settle(self) -> None:
        """Return when no job is left and the projector has seen every event."""
        stream = self._store.stream(COUNTED)
        async with self._store.listen(SETTLED) as settled:
            while True:
                behind = (await stream.bounds()).last - await stream.get_offset(PROJECTOR)
                if not behind and not await jobs_left(self._store, JOBS):
                    return
                await settled.recv()

    async def _replace(self, projector: Child) -> None:
        """SIGKILL a projector that has saved an offset, and start its successor."""
        stream = self._store.stream(COUNTED)
        if await stream.get_offset(PROJECTOR):
            await self._fleet.kill(projector)
            self._story.resumed_at = await stream.get_offset(PROJECTOR)
            await self._fleet.start("projector.py", *projector.arguments, name="projector-2")
            self._tell(f"killed the projector, its successor goes on at {self._story.resumed_at}")

    async def _kill_a_holder(self, workers: list[Child]) -> None:
        """SIGKILL a worker in the middle of its work; if none is there, the next event will do."""
        held = await self._held()
        worker = max(workers, key=lambda child: self._loose_ends(held[child.name]))
        # Stopped first: so it can neither finish nor claim between the look and the blow.
        worker.send(signal.SIGSTOP)
        jobs = (await self._held())[worker.name]
        # Killed before it had set its own lease, it would keep its jobs for five minutes.
        soon = time.time() + LEASE_S + 1
        lapsing = all(job.claim_expires_at and job.claim_expires_at <= soon for job in jobs)
        patience = len(self.seen) < self._total * 3 // 4
        if jobs and lapsing and (self._loose_ends(jobs) or not patience):
            await self._fleet.kill(worker)
            self._story.killed = worker.name
            self._story.held = {job.id for job in jobs}
            self._tell(f"killed {worker.name} while it held {len(jobs)} jobs")
        else:
            worker.send(signal.SIGCONT)

    def _loose_ends(self, jobs: list[Job]) -> int:
        """How well it is caught in the middle: some are done and not acked, some not done."""
        done = sum(job.payload_as(Task).path in self.seen for job in jobs)
        return min(done, len(jobs) - done)

    async def _held(self) -> dict[str, list[Job]]:
        """The jobs that each worker holds."""
        held: dict[str, list[Job]] = defaultdict(list)
        for job in await self._store.queue(JOBS).jobs("processing", limit=1_000):
            held[str(job.worker_id)].append(job)
        return held
