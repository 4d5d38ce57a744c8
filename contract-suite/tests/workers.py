"""The matrix's processes, from the outside: hand them work, replace them when they hang."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

WORKER = Path(__file__).with_name("matrix_worker.py")
GRACE_SECONDS = 10.0
LINE = 64 * 1024 * 1024


@frozen
class Task:
    """Properties to run on one harness, each with its time-out."""

    base: str
    saboteur: str | None
    """`None`: on the sound engine, and say what ran."""

    seconds: Mapping[str, float] = field(factory=dict)
    until_failure: bool = False
    """Whether the first failure is enough."""

    @property
    def cost(self) -> int:
        """For putting large ones first."""
        return len(self.seconds)


class _Worker:
    def __init__(self, subject: str, stderr: int | None) -> None:
        self._subject = subject
        self._stderr = stderr
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, task: Task, tell: Callable[[Task, dict[str, Any]], None]) -> None:
        """Tell the answer to each property; one that no answer comes for has failed."""
        rest = dict(task.seconds)
        while rest:
            process = await self._alive()
            asked = dict([next(iter(rest.items()))]) if task.until_failure else dict(rest)
            request = {"base": task.base, "saboteur": task.saboteur, "seconds": asked}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            for id_, seconds in asked.items():
                line = b""
                try:
                    line = await asyncio.wait_for(
                        process.stdout.readline(), seconds + GRACE_SECONDS
                    )
                except TimeoutError:
                    process.kill()
                del rest[id_]
                if not line:
                    await process.wait()
                    status = process.returncode
                    answer = {
                        "property": id_,
                        "error": f"its process ended ({status})",
                        "seconds": seconds,
                    }
                else:
                    answer = json.loads(line)
                tell(task, answer)
                if task.until_failure and answer["error"] is not None:
                    return
                if not line:
                    break

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _alive(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(WORKER),
                self._subject,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._stderr,
                limit=LINE,
            )
            if not await self._process.stdout.readline():
                await self._process.wait()
                raise RuntimeError("a process of the matrix cannot start: --stderr says why")
        return self._process


async def run_tasks(
    subject: str,
    tasks: Iterable[Task],
    tell: Callable[[Task, dict[str, Any]], None],
    *,
    jobs: int,
    stderr: int | None = asyncio.subprocess.DEVNULL,
) -> None:
    """Run every task on one of `jobs` processes, the largest first."""
    waiting = sorted(tasks, key=lambda task: task.cost)

    async def work() -> None:
        worker = _Worker(subject, stderr)
        try:
            while waiting:
                await worker.run(waiting.pop(), tell)
        finally:
            await worker.end()

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(work())
