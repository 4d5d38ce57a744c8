"""A TCP proxy in front of a server, to do to connections what networks do."""

import asyncio
import contextlib
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections until it is told otherwise; ends with its `async with` block."""

    def __init__(self, url) -> None:
        self._target = urlsplit(url)
        self._tasks = set()
        self._writers = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self.connections = 0
        """How many were made so far."""
        self.delay = 0.0
        """Seconds by which everything arrives later."""

    @property
    def url(self) -> str:
        """The server's URL, by way of the proxy."""
        user = self._target.netloc.rpartition("@")[0]
        host = f"127.0.0.1:{self._port}"
        return self._target._replace(netloc=f"{user}@{host}" if user else host).geturl()

    def lead_to(self, url) -> None:
        """Later connections go to another server; those that are there stay."""
        self._target = urlsplit(url)

    def stall(self) -> None:
        """Say nothing any more, to nobody, without closing anything: a cable was pulled."""
        self._flowing.clear()

    def resume(self) -> None:
        """Forward later connections again; what was silent stays so and is cut."""
        self.cut()
        self._flowing.set()

    def refuse(self, *, refusing=True) -> None:
        """Hang up on whoever connects from now on."""
        self._refusing = refusing

    def cut(self) -> None:
        """Close every connection."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader, writer) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        task.add_done_callback(self._tasks.discard)
        other = None
        try:
            self.connections += 1
            if self._refusing:
                return
            other_reader, other = await asyncio.open_connection(
                self._target.hostname, self._target.port
            )
            self._writers.add(other)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, other))
                group.create_task(self._pump(other_reader, writer))
        except (asyncio.CancelledError, OSError, ExceptionGroup):
            # Cut, or one side hung up: either way it is over for both.
            pass
        finally:
            for end in (writer, other):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()
                    with contextlib.suppress(OSError):
                        await end.wait_closed()

    async def _pump(self, reader, writer) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


class Deaf(Proxy):
    """Swallows what has `deaf_to` in it, and what comes after it on the same connection."""

    deaf_to = b"\0nothing"
    swallowed = 0

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            if self.deaf_to in data:
                self.swallowed += 1
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
