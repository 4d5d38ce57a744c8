"""`LocalHttpQueue`: a queue through its owner. Needs the extra `http`."""

from __future__ import annotations

import asyncio
import io
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp
from yarl import URL

from alkstore_localstores import protocol
from alkstore_localstores.bindings import QueueBinding, check_queue_binding, queue_binding
from alkstore_localstores.errors import (
    BINDING_CONFIG_INVALID,
    QUEUE_BATCH_RESPONSE_INVALID,
    QUEUE_OPERATION_FAILED,
    LocalStoreError,
)
from alkstore_localstores.interface import Queue
from alkstore_localstores.jsontext import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alkstore_localstores.messages import (
        AckOutcome,
        Payload,
        QueueMessage,
        QueueStats,
        SendOutcome,
    )

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 30.0
"""From the call to the last byte of the answer."""

_IDLE_SECONDS = 15.0
"""A connection is not used again after this; owners keep idle ones longer."""

_CONNECTIONS = 100

_AT_ONCE = 1 << 18
"""Bytes that are handed to a connection as a whole; longer bodies in parts."""


class LocalHttpQueue(Queue):
    """A queue at `endpoint`, the whole URL, with the queue's `token`.

    Each call is one request, never repeated and never redirected: when it fails on the way, it
    may have been carried out or not, and the error says that this is unknown.
    """

    def __init__(self, endpoint: str, token: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        """`timeout` is in seconds and covers the whole call.

        Raises:
            LocalStoreError: BINDING_CONFIG_INVALID: this is no HTTP address, or no token.

        """
        what = "the endpoint with its token"
        binding = check_queue_binding(QueueBinding(endpoint, token), what)
        try:
            self._url = URL(binding.endpoint, encoded=True)
        except ValueError as error:
            raise LocalStoreError(
                BINDING_CONFIG_INVALID,
                f"{what} cannot be used: {error}",
            ) from error
        self.endpoint = binding.endpoint
        self._timeout = timeout
        self._headers = {
            "Authorization": f"Bearer {binding.token}",
            "Content-Type": "application/json",
        }
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def from_binding(cls, name: str, environ: Mapping[str, str] | None = None) -> Self:
        """The queue of a binding, from `ALIEN_<NAME>_BINDING`.

        Raises:
            LocalStoreError: BINDING_NOT_CONFIGURED, BINDING_CONFIG_INVALID.

        """
        return cls(*queue_binding(name, environ))

    def __repr__(self) -> str:
        return f"LocalHttpQueue({self.endpoint!r})"

    async def open(self) -> None:
        """Get ready to connect; the first call does.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it is open already.

        """
        if self._session is not None:
            raise LocalStoreError(QUEUE_OPERATION_FAILED, f"{self!r} is already open")
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS, keepalive_timeout=_IDLE_SECONDS, use_dns_cache=False
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Neither proxies nor other credentials of the environment.
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def purge(self) -> None:
        """Delete every message, leased ones as well.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: they were not deleted, or nobody knows.

        """
        await self._ask(protocol.read_null, "purge")

    async def stats(self) -> QueueStats:
        """Count the messages.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it failed.

        """
        return await self._ask(protocol.read_stats, "stats")

    async def _send(self, payload: Payload) -> None:
        await self._ask(protocol.read_null, "send", message=payload)

    async def _send_many(self, payloads: list[Payload]) -> list[SendOutcome]:
        return await self._ask_batch(protocol.read_sent, "sendBatch", messages=payloads)

    async def _receive(self, max_messages: int) -> list[QueueMessage]:
        return await self._ask(protocol.read_messages, "receive", maxMessages=max_messages)

    async def _ack(self, receipt: str) -> None:
        await self._ask(protocol.read_null, "ack", receipt=receipt)

    async def _ack_many(self, receipts: list[str]) -> list[AckOutcome]:
        return await self._ask_batch(protocol.read_acked, "ackBatch", receipts=receipts)

    async def _nack(self, receipt: str) -> None:
        await self._ask(protocol.read_null, "nack", receipt=receipt)

    async def _renew(self, receipt: str, duration_seconds: int) -> None:
        await self._ask(
            protocol.read_null, "renew", receipt=receipt, durationSeconds=duration_seconds
        )

    async def _ask(
        self, read: Callable[[Any], T], operation: protocol.Operation, **fields: Any
    ) -> T:
        answer = await self._request(operation, fields)
        try:
            return read(answer)
        except ValueError as error:
            raise self._unknown(operation, f"the answer makes no sense: {error}") from error

    async def _ask_batch(
        self, read: Callable[[Any], list[T]], operation: protocol.Operation, **fields: Any
    ) -> list[T]:
        answer = await self._request(operation, fields)
        try:
            return read(answer)
        except ValueError as error:
            raise LocalStoreError(
                QUEUE_BATCH_RESPONSE_INVALID, f"the answer makes no sense: {error}"
            ) from error

    async def _request(self, operation: protocol.Operation, fields: dict[str, Any]) -> Any:
        """One request; the JSON value of its answer."""
        session = self._session
        if session is None:
            raise LocalStoreError(
                QUEUE_OPERATION_FAILED, f"{self!r} is closed; nothing was sent", retryable=False
            )
        if self._loop is not asyncio.get_running_loop():
            raise LocalStoreError(
                QUEUE_OPERATION_FAILED,
                f"{self!r} was opened in another event loop; nothing was sent",
                hint="open a client in each loop that uses one",
                retryable=False,
            )
        body = protocol.write_request(operation, **fields)
        data = body if len(body) <= _AT_ONCE else io.BytesIO(body)
        try:
            # POST is never sent again by aiohttp, whatever happens to the connection.
            async with session.post(self._url, data=data, allow_redirects=False) as response:
                status, content = response.status, await response.read()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._session is session or (task is not None and task.cancelling()):
                raise
            # Closing cancels those who wait for a connection, and nobody has cancelled us.
            reason = "the client was closed"
        except TimeoutError:
            reason = f"no answer within {self._timeout:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            return self._read(operation, status, content)
        # Out here, without a cause: aiohttp's errors hold the request, and so the token.
        raise self._unknown(operation, reason)

    def _read(self, operation: str, status: int, content: bytes) -> Any:
        try:
            answer = parse(content.decode())
        except ValueError as error:
            reason = f"its status is {status}, and its body no JSON"
            raise self._unknown(operation, reason) from error
        if status == HTTPStatus.OK:
            return answer
        raise self._failure(operation, status, answer)

    def _failure(self, operation: str, status: int, answer: Any) -> LocalStoreError:
        """What the owner says; it may also be somebody on the way who answers."""
        try:
            return LocalStoreError.from_envelope(answer)
        except (ValueError, AttributeError):
            return self._unknown(operation, f"its status is {status}, without an error of ours")

    def _unknown(self, operation: str, reason: str) -> LocalStoreError:
        return LocalStoreError(
            QUEUE_OPERATION_FAILED,
            f"{operation} at {self.endpoint}: whether it was accepted is unknown ({reason}); it "
            "was sent at most once and is not retried",
            context={"operation": operation, "acceptance": "unknown"},
            hint="see whether the owner is running, and look before you send again",
        )
