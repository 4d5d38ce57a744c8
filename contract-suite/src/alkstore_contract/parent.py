"""The process that hands properties out to children and keeps count of what came back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections import deque
from typing import IO, TYPE_CHECKING, Any, Self

from attrs import Factory, define

from alkstore_contract.running import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from alkstore_contract.properties import Property

LIMIT = 64 * 1024 * 1024
START_SECONDS = 60.0
GRACE_SECONDS = 30.0
# A property of the group `model` runs loops of its own, under no time-out but this.
MODEL_FACTOR = 10
_LONGEST_FIRST = {"model": 0, "process": 1, "quick": 2}


class UnknownHarnessError(Exception):
    """The harness that was named does not exist."""


@define
class Gathered:
    """What came back from the children."""

    outcomes: list[Outcome] = Factory(list)

    lost: dict[str, str] = Factory(dict)
    """Properties whose process ended or was killed, and how."""

    reasons: dict[str, None] = Factory(dict)
    """What else keeps the run from being complete."""

    distribution: str | None = None
    facts: dict[str, Any] | None = None

    engine: set[tuple[str | None, str | None]] = Factory(set)
    """The digest of the engine's code that ran, or why there is none; one for all children."""

    suite: set[tuple[str | None, str | None]] = Factory(set)
    """The same of the kit."""


async def gather(
    harness: str,
    properties: Sequence[Property],
    jobs: int,
    tell: Callable[[str, Outcome | str], None],
    gathered: Gathered,
) -> None:
    """Try each property in one of `jobs` child processes; a new one follows one that crashes.

    `tell` gets the id and the outcome of each property, or what became of its process;
    `gathered` gets everything, up to where this is cancelled.

    Raises:
        UnknownHarnessError: there is no such harness.

    """
    waiting = deque(sorted(properties, key=lambda p: (_LONGEST_FIRST[p.group], p.id)))
    unknown = None
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(jobs, len(waiting))):
                workers.create_task(_work_if_it_can(harness, waiting, gathered, tell))
    except* UnknownHarnessError as group:
        unknown = group.exceptions[0]
    if unknown is not None:
        raise unknown


async def _work_if_it_can(
    harness: str,
    waiting: deque[Property],
    gathered: Gathered,
    tell: Callable[[str, Outcome | str], None],
) -> None:
    try:
        await _work(harness, waiting, gathered, tell)
    except _SilentError as silent:  # not even started
        gathered.reasons[str(silent)] = None


async def _work(
    harness: str,
    waiting: deque[Property],
    gathered: Gathered,
    tell: Callable[[str, Outcome | str], None],
) -> None:
    while waiting:
        async with _Child.started(harness) as child:
            if not await _greet(child, gathered):
                waiting.clear()
                return
            counted = 0
            while waiting:
                prop = waiting.popleft()
                outcome = await _try(child, prop)
                if isinstance(outcome, str):
                    gathered.lost[prop.id] = outcome
                    tell(prop.id, outcome)
                    break
                gathered.outcomes.append(outcome)
                tell(prop.id, outcome)
                counted += 1
            else:
                await _part(child, counted, gathered)


async def _greet(child: _Child, gathered: Gathered) -> bool:
    """Hear who the engine is; `False` when there is none that can be tried."""
    try:
        hello = await child.hear(START_SECONDS)
    except _SilentError as silent:
        gathered.reasons[f"before it tried anything, {silent}"] = None
        return False
    if "unknown" in hello:
        raise UnknownHarnessError(hello["unknown"])
    if "unusable" in hello:
        gathered.reasons[f"the harness cannot be used: {hello['unusable']}"] = None
        return False
    said = hello["distribution"], hello["facts"]
    if gathered.facts is not None and said != (gathered.distribution, gathered.facts):
        gathered.reasons["the harness did not give the same facts in all processes"] = None
    gathered.distribution, gathered.facts = said
    return True


async def _try(child: _Child, prop: Property) -> Outcome | str:
    bound = prop.seconds * (MODEL_FACTOR if prop.group == "model" else 1) + GRACE_SECONDS
    try:
        await child.say(prop.id)
        while True:
            message = await child.hear(bound)
            if "outcome" in message:
                return Outcome(**message["outcome"])
    except _SilentError as silent:
        return str(silent)


async def _part(child: _Child, counted: int, gathered: Gathered) -> None:
    """Let a child go that has no more to do; only then are its outcomes all there are."""
    try:
        await child.say(None)
        final = await child.hear(GRACE_SECONDS)
        await child.end(GRACE_SECONDS)
    except _SilentError as silent:
        gathered.reasons[f"after its last property, {silent}"] = None
        return
    if final.get("final") != counted:
        told = f"a process tells of {final.get('final')} properties, its parent of {counted}"
        gathered.reasons[told] = None
    gathered.reasons.update(dict.fromkeys(final["doubts"]))
    gathered.engine.add(tuple(final["engine"]))
    gathered.suite.add(tuple(final["suite"]))


class _SilentError(Exception):
    """The child says nothing any more; the message says why."""


class _Child:
    def __init__(self, process: asyncio.subprocess.Process, printed: IO[bytes]) -> None:
        self._process = process
        self._printed = printed

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, harness: str) -> AsyncIterator[Self]:
        """A child of ours, killed with all that it started at the end of the block."""
        with tempfile.TemporaryFile() as printed:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "alkstore_contract.child", harness),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=printed,
                    limit=LIMIT,
                    start_new_session=True,
                )
            except OSError as error:
                raise _SilentError(f"a process could not be started: {error}") from error
            child = cls(process, printed)
            try:
                yield child
            finally:
                await child.kill()

    async def say(self, id_: str | None) -> None:
        """Hand out a property, or say that there is no more."""
        assert self._process.stdin is not None  # noqa: S101 - piped above
        self._process.stdin.write(json.dumps(id_).encode() + b"\n")
        with contextlib.suppress(OSError):  # it has gone, as `hear` will find
            await self._process.stdin.drain()

    async def hear(self, seconds: float) -> dict[str, Any]:
        """The next message."""
        assert self._process.stdout is not None  # noqa: S101 - piped above
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        except TimeoutError:
            await self.kill()
            raise _SilentError(
                f"its process said nothing for {seconds:g} s and was killed{self._last_words()}"
            ) from None
        try:
            message = json.loads(line)
        except ValueError:  # the end, or a line cut off by it
            code = await self._process.wait()
            raise _SilentError(f"its process ended: {_told(code)}{self._last_words()}") from None
        assert isinstance(message, dict)  # noqa: S101 - our own child says it
        return message

    async def end(self, seconds: float) -> None:
        """Wait until it has ended by itself, in good order."""
        try:
            code = await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            await self.kill()
            raise _SilentError(f"its process did not end within {seconds:g} s") from None
        if code:
            raise _SilentError(f"its process ended: {_told(code)}{self._last_words()}")

    async def kill(self) -> None:
        """Kill it and what it started."""
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _last_words(self) -> str:
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""


def _told(code: int) -> str:
    try:
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    except ValueError:
        return f"status {code}"
