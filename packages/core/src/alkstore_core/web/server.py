"""Serving the status page by itself, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.responses import PlainTextResponse

from alkstore_core.errors import DatabaseError
from alkstore_core.registry import open_store
from alkstore_core.web.app import status_app
from alkstore_core.web.rendering import HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})

_FILE: Final = "sqlite:///"

_MAX_PORT: Final = 65_535

PORT: Final = 8484


def serve(
    store_url: str,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    actions: bool = False,
    *,
    started: Callable[[str], None] = print,
) -> None:
    """Serve the status page of a store until SIGINT or SIGTERM; then requests end first.

    `store_url` is as in `open_store`, `port` 0 takes any free one, and `started` is called with
    the address once it is served. Without a token it is served to this host's own browsers
    alone, and to look at only. It has to be called in the main thread.

    Raises:
        DatabaseError: there is no token where one is needed, or it is too easily guessed; the
            store cannot be opened, or the address cannot be listened at.

    """
    if token is None and not _is_loopback(host):
        raise DatabaseError(
            f"a status page that listens at {host!r} can be opened from other hosts: give it a "
            "token, or let it listen at 127.0.0.1"
        )
    if token is None and actions:
        raise DatabaseError("who may redrive and delete has to be asked for a token: give one")
    if _is_missing(store_url):
        # Who mistypes a path is not to look at an empty store and be content.
        raise DatabaseError(f"there is no file {store_url[len(_FILE) :]!r}, and none was made")
    asyncio.run(_serve(store_url, host, port, token, actions, started))


async def _serve(
    store_url: str,
    host: str,
    port: int,
    token: str | None,
    actions: bool,
    started: Callable[[str], None],
) -> None:
    store = open_store(store_url)
    app: ASGIApp = status_app(
        store, token=token, actions=actions, insecure_without_token=token is None
    )
    if token is None:
        app = _OwnHost(app)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    server = _Server(config)
    with _listening(host, port) as listener:
        async with store:
            with _until_signal(server):
                started(_address(listener))
                await server.serve(sockets=[listener])


@contextlib.contextmanager
def _until_signal(server: _Server) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, server.ask_to_end)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn's handling ends the process before the store is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def ask_to_end(self) -> None:
        """Let requests end first; asked again, do not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True


class _OwnHost:
    """Serves only who has this host's own name in the address bar.

    Else a page of anybody could read ours by a name of its own that leads here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) == 1 and _without_port(hosts[0]).lower() in _LOOPBACK:
            await self._app(scope, receive, send)
            return
        text = "Without a token this is served as localhost, 127.0.0.1 or [::1] only.\n"
        await PlainTextResponse(text, 403, HEADERS)(scope, receive, send)


def _without_port(host: bytes) -> bytes:
    name, separator, port = host.rpartition(b":")
    return name if separator and port.isdigit() else host


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_missing(store_url: str) -> bool:
    path = store_url[len(_FILE) :]
    return store_url[: len(_FILE)].lower() == _FILE and bool(path) and not Path(path).exists()


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= _MAX_PORT:
        raise DatabaseError(f"cannot listen at {host!r}, port {port}: ports end with {_MAX_PORT}")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise DatabaseError(f"cannot listen at {host!r}, port {port}: {error}") from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
