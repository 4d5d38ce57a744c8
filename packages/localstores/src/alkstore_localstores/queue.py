"""`LocalQueue`: a queue in one `localqueue.v1` file, for the one process that owns it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from alkstore_core.sql.op import Mode
from alkstore_localstores import queue_ops
from alkstore_localstores.batches import ack_in_requests, send_in_requests
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.messages import (
    ACKNOWLEDGED,
    SENT,
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
from alkstore_localstores.queue_ops import Broken, Handle, Receipt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from alkstore_localstores.drivers import DriverName
    from alkstore_localstores.errors import LocalStoreError

_log = logging.getLogger(__name__)


class LocalQueue:
    """Messages in order, each to one receiver at a time.

    A received message is hidden for 30 seconds, its lease; who is done with it acknowledges it,
    and else it is delivered again. Every method returns after its change is durable. All of them
    may be called at the same time from tasks of the loop that opened the queue.

    The file is for one process: others go through its owner (`LocalHttpQueue`). Several handles
    of that process may share it.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        driver: DriverName = "sqlite3",
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`clock` tells the time in milliseconds since 1970; without it the host's does.

        Raises:
            LocalStoreError: there is no such driver, or `data_dir` is no path.

        """
        self._file = StoreFile(data_dir, QUEUE, driver=driver, clock=clock)
        # Ids are never used again, so what is broken stays so until it is purged.
        self._broken: dict[int, str] = {}

    @property
    def data_dir(self) -> str:
        """The directory that holds the file."""
        return self._file.data_dir

    async def open(self) -> None:
        """Open the file; make it, and its directory, when they are missing.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: the file is of another format, damaged, or used
                by somebody else; LOCAL_FILESYSTEM_ERROR: the directory cannot be used.

        """
        await self._file.open()

    async def close(self) -> None:
        """End after what has been called has ended. Idempotent."""
        await self._file.close()

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
        await self._send(json_payload(value))

    async def send_text(self, text: str) -> None:
        """Store a text, to be received at once.

        Raises:
            LocalStoreError: as `send`.

        """
        await self._send(text_payload(text))

    async def send_batch(self, values: Iterable[Any]) -> list[SendOutcome]:
        """Store JSON values in their order; one outcome for each.

        What is no JSON value, or of a wrong size, is rejected alone.
        """
        return await send_in_requests(values, json_payload, self._send_many)

    async def send_batch_text(self, texts: Iterable[str]) -> list[SendOutcome]:
        """Store texts of 1 to 65,536 bytes in their order; one outcome for each."""
        return await send_in_requests(texts, text_payload, self._send_many)

    async def send_payload(self, payload: Payload) -> None:
        """Store a message that is encoded already.

        Raises:
            LocalStoreError: as `send`.

        """
        await self._send(payload)

    async def send_payloads(self, payloads: Iterable[Payload]) -> list[SendOutcome]:
        """Store messages that are encoded already; one outcome for each."""
        return await send_in_requests(payloads, lambda payload: payload, self._send_many)

    async def receive(self, max_messages: int = 1) -> list[QueueMessage]:
        """Lease up to `max_messages` (1 to 10) messages for 30 seconds, oldest first.

        A row that cannot be decoded is left as it is, logged once, and stepped over.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: another `max_messages`;
                QUEUE_OPERATION_FAILED: the database refused.

        """
        check_count(max_messages)
        found = await self._file.run(
            Mode.WRITE, queue_ops.receive, max_messages, self._broken, len(self._broken)
        )
        for row in found.broken:
            self._report(row)
        return found.messages

    async def ack(self, receipt: str) -> None:
        """Delete the message of a receipt; nothing to do when it is gone already.

        Also when its lease has ended, as long as nobody has received it since.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it was delivered again, under another
                receipt; or the database refused.

        """
        check_receipt(receipt)
        await self._settle(queue_ops.ack, receipt)

    async def ack_batch(self, receipts: Iterable[str]) -> list[AckOutcome]:
        """Acknowledge each receipt; one outcome for each."""
        return await ack_in_requests(receipts, self._ack_many)

    async def nack(self, receipt: str) -> None:
        """Make the message of a receipt due now; nothing to do when it is gone.

        Raises:
            LocalStoreError: as `ack`.

        """
        check_receipt(receipt)
        await self._settle(queue_ops.nack, receipt)

    async def renew(self, receipt: str, duration_seconds: int) -> None:
        """Let the lease end `duration_seconds` (1 to 600) from now, earlier or later than before.

        Raises:
            LocalStoreError: INVALID_INPUT: another duration; QUEUE_OPERATION_FAILED: the lease
                has ended, the receipt is not known, or the database refused.

        """
        check_receipt(receipt)
        check_duration(duration_seconds)
        handle = Handle.parse(receipt)
        renewed = handle is not None and await self._file.run(
            Mode.URGENT, queue_ops.renew, handle, duration_seconds
        )
        if not renewed:
            raise self._file.failed(
                f"receipt {receipt!r} has no lease to renew: it has ended, or never began",
                hint="receive the message again",
                retryable=False,
            )

    async def purge(self) -> None:
        """Delete every message, leased ones as well.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: the database refused.

        """
        await self._file.run(Mode.WRITE, queue_ops.purge)
        self._broken.clear()

    async def stats(self) -> QueueStats:
        """Count the messages.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: the database refused.

        """
        total, visible, in_flight = await self._file.run(Mode.READ, queue_ops.stats)
        return QueueStats(total, visible, in_flight, total - visible - in_flight)

    async def _send(self, payload: Payload) -> None:
        check_single(payload)
        await self._file.run(Mode.WRITE, queue_ops.send, payload)

    async def _send_many(self, payloads: list[Payload]) -> list[SendOutcome]:
        await self._file.run(Mode.WRITE, queue_ops.send_many, payloads)
        return [SENT] * len(payloads)

    async def _ack_many(self, receipts: list[str]) -> list[AckOutcome]:
        handles = [Handle.parse(receipt) for receipt in receipts]
        found = await self._file.run(Mode.WRITE, queue_ops.ack_many, handles)
        return [
            self._stale_outcome(receipt) if what is Receipt.STALE else ACKNOWLEDGED
            for receipt, what in zip(receipts, found, strict=True)
        ]

    async def _settle(self, op: Callable[[Handle], Any], receipt: str) -> None:
        handle = Handle.parse(receipt)
        # What no queue has issued names nothing that would still be there.
        if handle is None:
            return
        if await self._file.run(Mode.WRITE, op, handle) is Receipt.STALE:
            raise self._stale(receipt)

    def _stale(self, receipt: str) -> LocalStoreError:
        return self._file.failed(
            f"receipt {receipt!r} is stale: its message is there, and not under this receipt",
            context={"receipt": receipt},
            hint="whoever has received it since answers for it now",
            retryable=False,
        )

    def _stale_outcome(self, receipt: str) -> AckOutcome:
        error = self._stale(receipt)
        return AckOutcome("failed", error.code, error.message)

    def _report(self, row: Broken) -> None:
        if row.id not in self._broken:
            self._broken[row.id] = row.reason
            _log.warning(
                "message %d in %s cannot be decoded and is skipped: %s",
                row.id,
                self._file.path,
                row.reason,
            )
