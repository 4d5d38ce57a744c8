"""Serving the status page by itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.responses import PlainTextResponse

from alkstore_core.clock import SystemClock
from alkstore_core.completion import to_the_end
from alkstore_core.errors import DatabaseError
from alkstore_core.web.access import Access
from alkstore_core.web.app import status_app
from alkstore_core.web.rendering import HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from alkstore_core.store import Store

_LOOPBACK: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})

_MAX_PORT: Final = 65_535

GRACE_S: Final = 10
"""So long requests under way may take once the page is not served any more."""

UNSENT_S: Final = 1
"""So long what a request has not sent yet is waited for then."""


def check_access(
    host: str, token: str | None, *, actions: bool, insecure_without_token: bool
) -> None:
    """See that what is served there, and to whom, is what whoever serves it can mean.

    Raises:
        DatabaseError: see `serve`.

    """
    if token is not None:
        if insecure_without_token:
            raise DatabaseError("a token is given, and also said to be missing: do one of both")
        Access(token, SystemClock())
    elif not insecure_without_token:
        if not _is_loopback(host):
            raise DatabaseError(
                f"a status page that listens at {host!r} can be opened from other hosts: give it "
                "a token, or let it listen at 127.0.0.1"
            )
        if actions:
            raise DatabaseError("who may redrive and delete has to be asked for a token: give one")


async def serve(
    store: Store,
    host: str,
    port: int,
    *,
    token: str | None,
    actions: bool = False,
    insecure_without_token: bool = False,
    title: str = "alkstore",
    started: Callable[[str], object] = print,
) -> None:
    """Serve the status page of an open store until it is cancelled; then requests end first.

    They are given 10 seconds. Port 0 takes any free one, and `started` is called with the address
    once it is served. Without a token it is served to this host's own browsers alone, and to look
    at only; `insecure_without_token=True` lets everybody in who reaches it, as in `status_app`.
    Each page bears the `title`.

    Raises:
        DatabaseError: there is no token where one is needed, or it is too easily guessed.
        OSError: the address cannot be listened at.

    """
    check_access(host, token, actions=actions, insecure_without_token=insecure_without_token)
    app: ASGIApp = status_app(
        store, token=token, actions=actions, insecure_without_token=token is None, title=title
    )
    if token is None and not insecure_without_token:
        app = _OwnHost(app)
    ending = asyncio.Event()
    config = uvicorn.Config(
        _Ending(app, ending),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    with _listening(host, port) as listener:
        started(_address(listener))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            ending.set()
            await to_the_end(serving)
            raise


class _Server(uvicorn.Server):
    """Leaves signals to whoever serves, and closes the store."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Ending:
    """Once the page is not served any more, takes what does not send its request for gone."""

    def __init__(self, app: ASGIApp, ending: asyncio.Event) -> None:
        self._app = app
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, functools.partial(self._received, receive), send)

    async def _received(self, receive: Receive) -> Message:
        receiving = asyncio.ensure_future(receive())
        ended = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait((receiving, ended), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((receiving,), timeout=UNSENT_S)
            return receiving.result() if receiving.done() else {"type": "http.disconnect"}
        finally:
            receiving.cancel()
            ended.cancel()


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


def _listening(host: str, port: int) -> socket.socket:
    where = f"cannot listen at {host!r}, port {port}"
    if not 0 <= port <= _MAX_PORT:
        raise OSError(f"{where}: ports end with {_MAX_PORT}")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family)
    except (OSError, UnicodeError) as error:
        raise OSError(f"{where}: {error}") from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
