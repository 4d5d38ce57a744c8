"""Processes of a benchmark that play a role beside it: `SCRIPT ROLE ARGUMENTS`.

Each says `ready` on stdout when its store is open, begins when it reads a line on stdin, and
answers with one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping


class Child:
    """A process in one of the roles."""

    def __init__(self, process: asyncio.subprocess.Process, role: str) -> None:
        self._process = process
        self._role = role

    @classmethod
    async def start(cls, script: Path, role: str, *args: object) -> Child:
        """Start it; its store is open when this returns."""
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            script,
            role,
            json.dumps(args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        child = cls(process, role)
        await child._line("ready")
        return child

    def begin(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")

    async def result(self) -> object:
        """Wait for its answer and its end."""
        answer = json.loads(await self._line("an answer"))
        await self._process.communicate()
        return cast("object", answer)

    async def _line(self, expected: str) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            status = await self._process.wait()
            message = f"child {self._role} ended with status {status} before {expected}"
            raise RuntimeError(message)
        return line


async def begin() -> None:
    """In the child: say that it is ready, and wait until it shall begin."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def play(roles: Mapping[str, Callable[..., Coroutine[None, None, object]]]) -> None:
    """In the child: play the role and print its answer."""
    _, role, arguments = sys.argv
    print(json.dumps(asyncio.run(roles[role](*json.loads(arguments)))), flush=True)
