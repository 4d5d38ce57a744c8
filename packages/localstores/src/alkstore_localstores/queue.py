"""`LocalQueue`: a queue in one `localqueue.v1` file, for the one process that owns it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from alkstore_core.sql.op import Mode
from alkstore_localstores import queue_ops
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.interface import Queue
from alkstore_localstores.messages import ACKNOWLEDGED, SENT, AckOutcome, QueueStats
from alkstore_localstores.queue_ops import Handle, Receipt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from alkstore_localstores.drivers import DriverName
    from alkstore_localstores.errors import LocalStoreError
    from alkstore_localstores.messages import Payload, QueueMessage, SendOutcome
    from alkstore_localstores.queue_ops import Broken

_log = logging.getLogger(__name__)


class LocalQueue(Queue):
    """A queue in a file under `data_dir`, which `open` makes when it is missing.

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
        self._file = StoreFile(data_dir, QUEUE, driver=driver, clock=clock, merges=queue_ops.MERGES)
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

    async def purge(self) -> None:
        """Delete every message, leased ones as well.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: they were not deleted, or nobody knows.

        """
        await self._file.run(Mode.WRITE, queue_ops.purge)
        self._broken.clear()

    async def stats(self) -> QueueStats:
        """Count the messages.

        Raises:
            LocalStoreError: QUEUE_OPERATION_FAILED: it failed.

        """
        total, visible, in_flight = await self._file.run(Mode.READ, queue_ops.stats)
        return QueueStats(total, visible, in_flight, total - visible - in_flight)

    async def _send(self, payload: Payload) -> None:
        await self._file.run(Mode.WRITE, queue_ops.send, payload)

    async def _send_many(self, payloads: list[Payload]) -> list[SendOutcome]:
        await self._file.run(Mode.WRITE, queue_ops.send_many, payloads)
        return [SENT] * len(payloads)

    async def _receive(self, max_messages: int) -> list[QueueMessage]:
        found = await self._file.run(Mode.WRITE, queue_ops.receive, max_messages, self._broken)
        for row in found.broken:
            self._report(row)
        return found.messages

    async def _ack(self, receipt: str) -> None:
        await self._settle(queue_ops.ack, receipt)

    async def _ack_many(self, receipts: list[str]) -> list[AckOutcome]:
        handles = [Handle.parse(receipt) for receipt in receipts]
        found = await self._file.run(Mode.WRITE, queue_ops.ack_many, handles)
        outcomes = []
        for receipt, what in zip(receipts, found, strict=True):
            if what is Receipt.STALE:
                error = self._stale(receipt)
                outcomes.append(AckOutcome("failed", error.code, error.message))
            else:
                outcomes.append(ACKNOWLEDGED)
        return outcomes

    async def _nack(self, receipt: str) -> None:
        await self._settle(queue_ops.nack, receipt)

    async def _renew(self, receipt: str, duration_seconds: int) -> None:
        handle = Handle.parse(receipt)
        renewed = handle is not None and await self._file.run(
            Mode.URGENT, queue_ops.renew, handle, duration_seconds
        )
        if not renewed:
            raise self._file.failed(
                f"receipt {receipt!r} has no lease to renew: it has ended, or never began",
                context={"receipt": receipt},
                hint="receive the message again",
                retryable=False,
            )

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

    def _report(self, row: Broken) -> None:
        if row.id not in self._broken:
            self._broken[row.id] = row.reason
            _log.warning(
                "message %d in %s cannot be decoded and is skipped: %s",
                row.id,
                self._file.path,
                row.reason,
            )
