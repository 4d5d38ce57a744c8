"""Serving an owner's application over HTTP, until a signal. Needs the extra `http`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from alkstore_localstores.errors import INVALID_INPUT, LOCAL_FILESYSTEM_ERROR, LocalStoreError
from alkstore_localstores.owner.admin import AdminServer
from alkstore_localstores.owner.app import BODY_SECONDS, create_app, error_response
from alkstore_localstores.owner.owner import QueueOwner

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterator

    from alkstore_localstores.drivers import DriverName

REQUEST_SECONDS: Final = BODY_SECONDS + 5
"""A connection that has begun a request has this long to end it, its headers included."""

KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is closed after so long. Longer than clients keep one, so that they need not
wonder whether a request was still taken."""

_BACKLOG = 1024

_log = logging.getLogger(__name__)


async def serve(
    state_dir: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    driver: DriverName = "sqlite3",
    started: Callable[[str], None] | None = None,
) -> None:
    """Own a state directory and serve its queues, until SIGTERM or SIGINT.

    What has begun then ends before this returns. `port` 0 takes any free one; `started` is
    called with the address, as `http://host:port`, once it is served.

    Raises:
        LocalStoreError: BINDING_SETUP_FAILED: the state directory has an owner already;
            LOCAL_FILESYSTEM_ERROR: it, or the port, cannot be used.

    """
    async with QueueOwner(state_dir, driver=driver) as owner, serving(owner, host, port) as address:
        with _signals() as ended:
            if started is not None:
                started(address)
            await ended.wait()
            _log.info("stopping: what has begun ends first")


@contextlib.asynccontextmanager
async def serving(
    owner: QueueOwner, host: str = "127.0.0.1", port: int = 0, *, body_seconds: float = BODY_SECONDS
) -> AsyncIterator[str]:
    """Serve an owner that has been started for as long as this block lasts; gives the address.

    Raises:
        LocalStoreError: LOCAL_FILESYSTEM_ERROR: the port, or the owner's socket, cannot be used.

    """
    config = uvicorn.Config(
        create_app(owner, body_seconds=body_seconds),
        http=QueueProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=_BACKLOG,
    )
    with _listening(host, port) as listener:
        server = _Server(config)
        address = _address(listener)
        async with AdminServer(owner, address):
            ended = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield address
            finally:
                server.should_exit = True
                await ended


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn's handling ends the process before queues are closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class QueueProtocol(HttpToolsProtocol):
    """HTTP with an end to slow requests, and one kind of answer to what is not HTTP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._overdue: asyncio.TimerHandle | None = None
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The first bytes of a request start the clock, and only its end stops it."""
        self._expect()
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Start the clock for a request whose beginning came with the end of another."""
        self._expect()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Stop the clock."""
        self._arrived()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP as all else that cannot be read."""
        response = error_response(LocalStoreError(INVALID_INPUT, msg), 400)
        head = "".join(
            f"{name.decode()}: {value.decode()}\r\n" for name, value in response.raw_headers
        )
        self.transport.write(
            f"HTTP/1.1 400 Bad Request\r\n{head}connection: close\r\n\r\n".encode()
            + bytes(response.body)
        )
        self.transport.close()

    def _expect(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _arrived(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of a socket that says it is TCP does asyncio turn off the delay of small packets.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            raise LocalStoreError(
                LOCAL_FILESYSTEM_ERROR, f"{host}:{port} cannot be listened on: {error}"
            ) from error
        yield listener


def _address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
