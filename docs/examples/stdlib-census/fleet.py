"""The child processes as their parent sees them: started, heard, killed, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import sqlalchemy

if TYPE_CHECKING:
    from collections.abc import Coroutine

HERE = Path(__file__).parent
T = TypeVar("T")


class ChildDiedError(Exception):
    """A child ended although nobody had asked it to."""


@dataclass(slots=True)
class Child:
    """One process, and whether its end is news."""

    name: str
    arguments: tuple[str, ...]
    process: Process
    may_end: bool = False
    killed: bool = False

    async def line(self) -> str:
        """The next line that the child prints."""
        assert self.process.stdout is not None  # noqa: S101  we asked for a pipe
        line = await self.process.stdout.readline()
        if not line:
            raise ChildDiedError(f"{self.name} ended before it said anything")
        return line.decode().strip()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to get it."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


class Fleet:
    """All children. Leaving the block kills those that still run."""

    def __init__(self, home: Path) -> None:
        self.children: list[Child] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._died: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._environment = _environment(home)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in self.children:
            child.may_end = True
            child.send(signal.SIGKILL)
        await asyncio.gather(*self._watchers)

    async def start(self, script: str, *arguments: str, name: str) -> Child:
        """Start a script of ours. Its own session keeps Ctrl-C for us, its stdin for our end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, HERE / script, *arguments,
            stdin=PIPE, stdout=PIPE, start_new_session=True, env=self._environment,
        )  # fmt: skip
        child = Child(name, arguments, process)
        self.children.append(child)
        watcher = asyncio.create_task(self._watch(child))
        self._watchers.add(watcher)
        return child

    async def kill(self, child: Child) -> None:
        """SIGKILL, and wait until the process is gone."""
        child.may_end = child.killed = True
        child.send(signal.SIGKILL)
        await child.process.wait()

    async def finish(self) -> None:
        """Wait for all to end by themselves."""
        for child in self.children:
            child.may_end = True
        await asyncio.gather(*self._watchers)

    async def guard(self, main: Coroutine[None, None, T]) -> T:
        """Run `main`; a child that dies meanwhile ends it.

        Raises:
            ChildDiedError: names the child.
        """
        task = asyncio.ensure_future(main)
        try:
            either: list[asyncio.Future[Any]] = [task, self._died]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                child = self._died.result()
                raise ChildDiedError(f"{child.name} ended with {child.process.returncode}")
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return task.result()

    async def _watch(self, child: Child) -> None:
        await child.process.wait()
        if not child.may_end and not self._died.done():
            self._died.set_result(child)


def _environment(home: Path) -> dict[str, str]:
    """Ours; but where bytecode is not to be written, it goes to our own directory.

    Else each process would spend two seconds on compiling SQLAlchemy.
    """
    environment = dict(os.environ)
    compiled = Path(cache_from_source(sqlalchemy.__file__))
    if sys.dont_write_bytecode and not compiled.exists():
        environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "pyc")}
    return environment
