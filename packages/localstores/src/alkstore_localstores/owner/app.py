"""The queues over HTTP: a Starlette application above a `QueueOwner`. Needs the extra `http`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from alkstore_localstores import protocol
from alkstore_localstores.errors import (
    INVALID_INPUT,
    LOCAL_QUEUE_UNAUTHORIZED,
    QUEUE_OPERATION_FAILED,
    LocalStoreError,
)
from alkstore_localstores.jsontext import dumps
from alkstore_localstores.owner.openapi import document
from alkstore_localstores.queue import LocalQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from alkstore_localstores.owner.owner import QueueOwner

_log = logging.getLogger(__name__)

_DRAINED: Final = 4 * protocol.BODY_LIMIT
"""So much of a body that is too large is read, so that its sender gets to read the answer."""

_JSON = "application/json"


def create_app(owner: QueueOwner) -> Starlette:
    """The application: `POST /queues/<resource>`, and `GET /openapi.json`.

    The owner is started and closed by the caller, before and after the application serves. That
    requests end in time is up to the server: see `server.serving`.
    """
    routes = [
        Route("/queues/{resource}", _Queues(owner), methods=["POST"]),
        Route("/openapi.json", _OpenApi(owner), methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: _on_http_exception, Exception: _on_exception}
    app = Starlette(routes=routes, exception_handlers=handlers)
    # Another spelling of a path is another path.
    app.router.redirect_slashes = False
    return app


class _GoneError(Exception):
    """The caller has left before its request was whole: nothing was done, nobody hears of it."""


class _Queues:
    """`POST /queues/<resource>`. No `Request` is made of a scope: this is the hot path."""

    def __init__(self, owner: QueueOwner) -> None:
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(scope, receive)
        except _GoneError:
            return
        except LocalStoreError as error:
            response = error_response(error)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        resource = scope["path_params"]["resource"]
        token, length = _read_headers(scope)
        if not self._owner.tokens.accepts(resource, token):
            return error_response(_unauthorized())
        body = await _read_body(receive) if length <= _DRAINED else None
        if body is None:
            return _too_large()
        try:
            asked = protocol.read_request(body)
        except LocalStoreError as error:
            # Whatever its code says elsewhere: here it is the caller's fault.
            return error_response(error, 400)
        # While the body was on its way the queue may have been deleted, and made anew.
        if not self._owner.tokens.accepts(resource, token):
            return error_response(_unauthorized())
        async with self._owner.use(resource) as queue:
            carry_out, write = _OPERATIONS[asked.operation]
            return _json(write(await carry_out(queue, *asked.arguments)))


class _OpenApi:
    """`GET /openapi.json`, for whoever has the token of any queue."""

    def __init__(self, owner: QueueOwner) -> None:
        self._owner = owner
        self._document = dumps(document())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self._owner.tokens.accepts_any(_read_headers(scope)[0])
        response = _json(self._document) if allowed else error_response(_unauthorized())
        await response(scope, receive, send)


def error_response(error: LocalStoreError, status: int | None = None) -> Response:
    """The envelope of an error, with its status or another."""
    status = status or error.http_status_code or 500
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
    envelope = dumps({**error.envelope(), "httpStatusCode": status})
    return Response(envelope, status, headers, _JSON)


def _json(text: str) -> Response:
    return Response(text, media_type=_JSON)


def _read_headers(scope: Scope) -> tuple[bytes, int]:
    """The token, and the length of the body as far as it is told.

    An empty token stands for none, and for several.
    """
    shown: list[bytes] = []
    length = 0
    for name, value in scope["headers"]:
        if name == b"authorization":
            shown.append(value)
        elif name == b"content-length" and value.isdigit():
            # Zeros in front may be more than an integer takes.
            length = int(value.lstrip(b"0") or b"0")
    if len(shown) != 1:
        return b"", length
    scheme, _, token = shown[0].partition(b" ")
    return (token.strip() if scheme.lower() == b"bearer" else b""), length


async def _read_body(receive: Receive) -> bytes | None:
    """The body; none when it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        part = message.get("body", b"")
        size += len(part)
        if size <= protocol.BODY_LIMIT:
            parts.append(part)
        if not message.get("more_body") or size > _DRAINED:
            return b"".join(parts) if size <= protocol.BODY_LIMIT else None


def _unauthorized() -> LocalStoreError:
    return LocalStoreError(
        LOCAL_QUEUE_UNAUTHORIZED,
        "there is no such queue for this token",
        hint="send the token of the queue's binding as: Authorization: Bearer TOKEN",
    )


def _too_large() -> Response:
    message = f"the body has more than {protocol.BODY_LIMIT} bytes"
    response = error_response(LocalStoreError(INVALID_INPUT, message), 413)
    # The rest of the body may be on its way for ever.
    response.headers["Connection"] = "close"
    return response


_OPERATIONS: dict[
    protocol.Operation, tuple[Callable[..., Awaitable[Any]], Callable[[Any], str]]
] = {
    "send": (LocalQueue.send_payload, protocol.write_null),
    "sendBatch": (LocalQueue.send_payloads, protocol.write_outcomes),
    "receive": (LocalQueue.receive, protocol.write_messages),
    "ack": (LocalQueue.ack, protocol.write_null),
    "ackBatch": (LocalQueue.ack_batch, protocol.write_outcomes),
    "nack": (LocalQueue.nack, protocol.write_null),
    "renew": (LocalQueue.renew, protocol.write_null),
    "purge": (LocalQueue.purge, protocol.write_null),
    "stats": (LocalQueue.stats, protocol.write_stats),
}
"""What carries an operation out, and what writes its answer."""


async def _on_http_exception(_: Request, error: HTTPException) -> Response:
    """A path or a method that is not served."""
    refused = LocalStoreError(INVALID_INPUT, f"this is not served: {error.detail}")
    response = error_response(refused, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _on_exception(_: Request, error: Exception) -> Response:
    """A defect of ours; its text is for the log alone."""
    _log.error("a request failed", exc_info=error)
    failed = LocalStoreError(
        QUEUE_OPERATION_FAILED,
        "the owner failed; whether anything was done is unknown",
        internal=True,
    )
    return error_response(failed, 500)
