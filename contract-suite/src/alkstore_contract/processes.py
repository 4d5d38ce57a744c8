"""Another process with a store of its own, and a line to it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, TextIO

from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core import Store

LIMIT = 16 * 1024 * 1024
GRACE_SECONDS = 30.0


class Line:
    """The child's end: say something to the parent, hear what it says."""

    def __init__(self, reader: asyncio.StreamReader, writer: TextIO) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, value: Any) -> None:
        """Hand a JSON value to the parent."""
        self._writer.write(json.dumps(value) + "\n")
        self._writer.flush()

    async def hear(self) -> Any:
        """Wait for the parent's next value; `None` when the parent has gone."""
        line = await self._reader.readline()
        return json.loads(line) if line else None


class Process:
    """A spawned function, from the outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, harness: str, address: str, function: str, args: Sequence[Any]) -> Process:
        """Start `function` of `harness`'s store at `address`."""
        process = await asyncio.create_subprocess_exec(
            # Without -P the working directory would come before what is installed. The package
            # imports this module itself: runpy warns of that, and nobody can do anything about it.
            *(sys.executable, "-P", "-W", "ignore::RuntimeWarning:runpy"),
            *("-m", "alkstore_contract.processes"),
            harness,
            address,
            function,
            json.dumps(args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LIMIT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return cls(process)

    async def hear(self) -> Any:
        """The next value that the function said.

        Raises:
            UnmetError: it ended without saying one; what it printed is on standard error.

        """
        assert self._process.stdout is not None  # noqa: S101 - piped above
        line = await self._process.stdout.readline()
        if not line:
            code = await self._process.wait()
            raise UnmetError(f"the other process ended (status {code}) before it answered")
        return json.loads(line)

    async def say(self, value: Any) -> None:
        """Hand the function a value."""
        assert self._process.stdin is not None  # noqa: S101 - piped above
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        await self._process.stdin.drain()

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def end(self) -> None:
        """Wait until it has ended by itself.

        Raises:
            UnmetError: it failed, or did not end within half a minute (and was killed).

        """
        try:
            code = await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        except TimeoutError:
            await self.kill()
            raise UnmetError("the other process did not end") from None
        if code:
            raise UnmetError(f"the other process ended with status {code}")


async def _child(harness: str, address: str, function: str, args: Sequence[Any]) -> None:
    from alkstore_contract.harness import load_harness  # noqa: PLC0415 - it imports this module

    # What the engine prints is not for the parent.
    writer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    module, _, name = function.partition(":")
    run = getattr(importlib.import_module(module), name)
    store: Store = load_harness(harness).store(address, None)
    async with store:
        await run(store, Line(reader, writer), *args)


if __name__ == "__main__":
    asyncio.run(_child(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])))
