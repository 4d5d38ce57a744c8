"""`Queue`: what the local queue and the one over HTTP have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from alkstore_localstores.batches import ack_in_requests, send_in_requests
from alkstore_localstores.messages import (
    AckOutcome,
    Payload,
    QueueMessage,
    QueueStats,
    SendOutcome,
    check_count,
    check_duration,
    check_receipt,
    check_single,
    json_payload,
    text_payload,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


class Queue(ABC):
    """Messages in order, each to one receiver at a time.

    A received message is hidden for 30 seconds, its lease; who is done with it acknowledges it,
    and else it is delivered again. Every method returns after its change is durable, and may be
    called at the same time from tasks of the loop that opened the queue.
    """

    @abstractmethod
    async def open(self) -> None:
        """Get ready; see the class."""

    @abstractmethod
    async def close(self) -> None:
        """End after what has been called has ended. Idempotent."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def send(self, value: Any) -> None:
        """Store a JSON value, to be received at once.

        Raises:
            LocalStoreError: INVALID_INPUT: it is no JSON value; BINDING_SETUP_FAILED: its JSON
                text has more than 65,536 bytes; QUEUE_OPERATION_FAILED: it was not stored, or
                nobody knows, as the message says.

        """
        await self.send_payload(json_payload(value))

    async def send_text(self, text: str) -> None:
        """Store a text, to be received at once.

        Raises:
            LocalStoreError: as `send`.

        """
        await self.send_payload(text_payload(text))

    async def send_payload(self, payload: Payload) -> None:
        """Store a message that is encoded already.

        Raises:
            LocalStoreError: as `send`.

        """
        check_single(payload)
        await self._send(payload)

    async def send_batch(self, values: Iterable[Any]) -> list[SendOutcome]:
        """Store JSON values in their order, ten in one request; one outcome for each.

        What is no JSON value, or not of 1 to 65,536 bytes, is rejected alone. When a request
        fails its messages are unknown, and later ones are sent all the same.
        """
        return await send_in_requests(values, json_payload, self._send_many)

    async def send_batch_text(self, texts: Iterable[str]) -> list[SendOutcome]:
        """Store texts; otherwise as `send_batch`."""
        return await send_in_requests(texts, text_payload, self._send_many)

    async def send_payloads(self, payloads: Iterable[Payload]) -> list[SendOutcome]:
        """Store messages that are encoded already; otherwise as `send_batch`."""
        return await send_in_requests(payloads, lambda payload: payload, self._send_many)

    async def receive(self, max_messages: int = 1) -> list[QueueMessage]:
        """Lease up to `max_messages` (1 to 10) messages for 30 seconds, oldest first.

        A row that cannot be decoded is left as it is, logged once, and stepped over.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: another `max_messages`;
                QUEUE_OPERATION_FAILED: none was received, or nobody knows.

        """
        check_count(max_messages)
        return await self._receive(max_messages)

    async def ack(self, receipt: str) -> None:
        """Delete the message of a receipt; nothing to do when it is gone already.

        Also when its lease has ended, as long as nobody has received it since.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it was delivered again, under another
                receipt; or it failed otherwise.

        """
        check_receipt(receipt)
        await self._ack(receipt)

    async def ack_batch(self, receipts: Iterable[str]) -> list[AckOutcome]:
        """Acknowledge receipts, ten in one request; one outcome for each."""
        return await ack_in_requests(receipts, self._ack_many)

    async def nack(self, receipt: str) -> None:
        """Make the message of a receipt due now; nothing to do when it is gone.

        Raises:
            LocalStoreError: as `ack`.

        """
        check_receipt(receipt)
        await self._nack(receipt)

    async def renew(self, receipt: str, duration_seconds: int) -> None:
        """Let the lease end `duration_seconds` (1 to 600) from now, earlier or later than before.

        Raises:
            LocalStoreError: INVALID_INPUT: another duration; QUEUE_OPERATION_FAILED: the lease
                has ended, the receipt is not known, or it failed otherwise.

        """
        check_receipt(receipt)
        check_duration(duration_seconds)
        await self._renew(receipt, duration_seconds)

    @abstractmethod
    async def purge(self) -> None:
        """Delete every message, leased ones as well.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: they were not deleted, or nobody knows.

        """

    @abstractmethod
    async def stats(self) -> QueueStats:
        """Count the messages.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it failed.

        """

    @abstractmethod
    async def _send(self, payload: Payload) -> None: ...

    @abstractmethod
    async def _send_many(self, payloads: list[Payload]) -> list[SendOutcome]: ...

    @abstractmethod
    async def _receive(self, max_messages: int) -> list[QueueMessage]: ...

    @abstractmethod
    async def _ack(self, receipt: str) -> None: ...

    @abstractmethod
    async def _ack_many(self, receipts: list[str]) -> list[AckOutcome]: ...

    @abstractmethod
    async def _nack(self, receipt: str) -> None: ...

    @abstractmethod
    async def _renew(self, receipt: str, duration_seconds: int) -> None: ...
