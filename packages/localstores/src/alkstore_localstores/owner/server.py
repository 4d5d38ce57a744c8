"""Serving an owner's application over HTTP, until a signal. Needs the extra `http`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from alkstore_localstores.errors import INVALID_INPUT, LOCAL_FILESYSTEM_ERROR, LocalStoreError
from alkstore_localstores.owner.admin import AdminServer
from alkstore_localstores.owner.app import create_app, error_response
from alkstore_localstores.owner.owner import QueueOwner

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterator

    from alkstore_localstores.drivers import DriverName

REQUEST_SECONDS: Final = 30.0
"""A new connection has this long to send a request, and a request to arrive with all its body.
So long may a client also leave an answer where it is."""

KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is closed after so long. Longer than clients keep one, so that they need not
wonder whether a request was still taken."""

HEAD_LIMIT: Final = 65_536
"""Bytes that a request may have before its body."""

_BACKLOG = 1024
_LATE = "the request did not arrive in time"

_log = logging.getLogger(__name__)


async def serve(
    state_dir: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
    driver: DriverName = "sqlite3",
    started: Callable[[str], None] | None = None,
) -> None:
    """Own a state directory and serve its queues, until SIGTERM or SIGINT.

    What has begun then ends before this returns. `port` 0 takes any free one. `url` is the
    address for clients, when that is another than where we listen, as from a container. `started`
    is called with the address, as `http://host:port`, once it is served.

    Raises:
        LocalStoreError: BINDING_SETUP_FAILED: the state directory has an owner already;
            LOCAL_FILESYSTEM_ERROR: it, or the port, cannot be used.

    """
    async with (
        QueueOwner(state_dir, driver=driver) as owner,
        serving(owner, host, port, url=url) as address,
    ):
        with _signals() as ended:
            if started is not None:
                started(address)
            await ended.wait()
            _log.info("stopping: what has begun ends first")


@contextlib.asynccontextmanager
async def serving(
    owner: QueueOwner,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    url: str | None = None,
    request_seconds: float = REQUEST_SECONDS,
) -> AsyncIterator[str]:
    """Serve an owner that has been started for as long as this block lasts; gives the address.

    With `url` that is the address. A request that has not arrived after `request_seconds` is
    answered with 408 and cut off; who takes nothing of an answer for as long is cut off as well.

    Raises:
        LocalStoreError: LOCAL_FILESYSTEM_ERROR: the port, or the owner's socket, cannot be used.

    """
    config = uvicorn.Config(
        create_app(owner),
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
        address = _address(listener) if url is None else url.rstrip("/")
        async with AdminServer(owner, address):
            ended = asyncio.create_task(server.serve(sockets=[listener]))
            sweeping = asyncio.create_task(_sweep(server, request_seconds))
            try:
                yield address
            finally:
                server.should_exit = True
                await ended
                sweeping.cancel()
                await asyncio.wait([sweeping])


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn's handling ends the process before queues are closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class QueueProtocol(HttpToolsProtocol):
    """HTTP with an end to slow requests, and one kind of answer to what cannot be read."""

    _since: float | None = None
    """When the connection, or a request on it, began that has not arrived yet."""

    _begun = False
    """Whether there was ever a byte of a request."""

    _unsent = 0
    _unsent_since = 0.0
    """How many bytes the client has yet to take, and since when they have become no fewer."""

    _bare = 0
    """Bytes since the last of a body, by packets: what is around chunks, and trailers."""

    _head: int | None = None
    """Bytes of a request's head that has begun and not ended, counted by packets."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """The first bytes of a request start the clock, and only its end stops it."""
        self._expect()
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_LIMIT:
                self._refuse(431, f"the request has more than {HEAD_LIMIT} bytes before its body")
                return
        if self._bare > HEAD_LIMIT:
            self._refuse(431, f"the request has more than {HEAD_LIMIT} bytes around its body")
            return
        self._bare += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Start the clock for a request whose beginning came with the end of another."""
        self._expect()
        self._begun = True
        self._head = self._bare = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a body is none, and nobody may be let in by it."""
        if self._head is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is over; the application counts what follows."""
        self._head = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        self._bare = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock."""
        self._since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP as all else that cannot be read."""
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        # The parser takes the body for the other protocol's, so this request has none.
        cycle = self._current()
        if cycle is not None and not cycle.response_started and not self.pipeline:
            cycle.more_body = True
        self._refuse(400, "no other protocol is spoken here; send the request without Upgrade")

    def cut_off(self, since: float) -> None:
        """Give up a request that began before then and has not arrived."""
        if self._since is None or self._since > since or self.transport.is_closing():
            return
        cycle = self._current()
        if not self._begun:
            # Somebody connected and said nothing: there is nothing to answer.
            self.transport.close()
        elif cycle is None or cycle.response_complete:
            self._refuse(408, _LATE)
        elif cycle.response_started:
            self.transport.close()
        elif cycle.more_body:
            self._refuse(408, _LATE)
        # Else the request before this one is being carried out, and its answer comes first.

    def drop_unread(self, seconds: float) -> None:
        """Give up a client that has taken nothing of its answer for so long.

        It would keep its connection, and so the end of the owner, waiting for ever.
        """
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent or not self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > seconds:
            self.transport.abort()
        else:
            self._unsent = unsent

    def _current(self) -> RequestResponseCycle | None:
        return self.cycle

    def _expect(self) -> None:
        if self._since is None:
            self._since = self.loop.time()

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self._current()
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            # The fault is in what follows: its answer would pass for that of this request.
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        response = error_response(LocalStoreError(INVALID_INPUT, message), status)
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), b"connection: close"]
        lines += (name + b": " + value for name, value in response.raw_headers)
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


async def _sweep(server: uvicorn.Server, seconds: float) -> None:
    """Cut off what is late; one timer for all connections, as most requests take no time."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(seconds / 10)
        for connection in list(server.server_state.connections):
            if isinstance(connection, QueueProtocol):
                connection.cut_off(loop.time() - seconds)
                connection.drop_unread(seconds)


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
