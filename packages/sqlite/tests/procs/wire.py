"""Lines of text between a test and the processes it starts."""

import asyncio
import mmap
import os
import struct
from pathlib import Path


class Lines:
    """Lines out of a pipe, awaited on whatever loop is running."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._ended = False

    async def next(self) -> str | None:
        """The next line, or `None` at the end."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            chunk = os.read(self._descriptor, 1 << 16)
            self._buffer += chunk
            self._ended = not chunk
        line, newline, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        # A line without its end was cut off by the writer's death: it was never said.
        return line.decode() if newline else None

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)


def say(*words: object) -> None:
    """Write one line to the test, in one piece."""
    line = f"{' '.join(map(str, words))}\n".encode()
    while line:
        line = line[os.write(1, line) :]


class SharedClock:
    """A clock in a file: the test moves the time of every process at once."""

    def __init__(self, path: str | Path, start: int | None = None) -> None:
        if start is not None:
            Path(path).write_bytes(struct.pack("q", start))
        with Path(path).open("r+b") as file:
            self._cell = mmap.mmap(file.fileno(), 8)

    def now(self) -> int:
        """The time everybody agrees on."""
        return int(struct.unpack("q", self._cell)[0])

    def advance(self, seconds: int) -> None:
        """Move everybody's time."""
        self._cell[:] = struct.pack("q", self.now() + seconds)

    async def sleep_until(self, moment: int) -> None:
        """Wait for the test to move the time."""
        while self.now() < moment:  # noqa: ASYNC110 - the hand that moves it is elsewhere
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Give the mapping back."""
        self._cell.close()
