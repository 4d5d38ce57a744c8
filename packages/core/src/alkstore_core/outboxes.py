"""Outboxes: messages that leave exactly when the business write commits."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, final

from alkstore_core import requests
from alkstore_core.errors import DatabaseError
from alkstore_core.names import backing_queue
from alkstore_core.queues import JobSource

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from alkstore_core.jobs import JobHandle
    from alkstore_core.runtime import Runtime
    from alkstore_core.values import EnqueueOpts


class Delivery(Protocol):
    """What delivers one message. It may be called twice for one, so it is idempotent."""

    def __call__(self, job: JobHandle, /) -> Awaitable[object]:
        """Deliver; raising anything means "try again later"."""


@final
class Outbox:
    """An outbox of one name, over a queue that only it can reach.

    Its messages get 60 s visibility, 5 attempts and backoff from 5 s.
    """

    __slots__ = ("_backing", "_name", "_runtime")

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._name = name
        self._backing = JobSource(runtime, backing_queue(name))

    @property
    def name(self) -> str:
        """The outbox's name."""
        return self._name

    @property
    def backing(self) -> JobSource:
        """The queue behind it, for stats, dead messages, redrive, sweep and wakes."""
        return self._backing

    async def enqueue(self, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """The message is in the outbox, committed; returns its id.

        In a transaction use `outbox_enqueue_tx`.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.
            DatabaseError: the database refused, or an option is not an i64.
            Closed: the store is not open.

        """
        name, payloads, spec, wake = requests.outbox_enqueue(self._name, payload, opts)
        if self._runtime.slot.taken:
            await self._runtime.turn("outbox enqueue", "outbox_enqueue_tx")
        session = self._runtime.session()
        return (await session.insert_jobs(name, payloads, spec, wake=wake))[0]

    async def run_once(self, worker_id: str, delivery: Delivery) -> bool:
        """Claim one message and deliver it; `True` when there was one, whatever became of it.

        The message is acked when `delivery` returns and retried with backoff when it raises,
        unless the delivery settled the handle itself. A cancelled delivery is neither. Nothing
        beats the heart meanwhile: a delivery slower than 60 s calls `heartbeat`, or the message
        may be delivered a second time.

        Raises:
            InvalidName: the worker id is not legal.
            DatabaseError: the database refused, or `delivery` is no async function.
            Closed: the store is not open.

        """
        handle = await self._backing.claim_one(worker_id)
        if handle is None:
            return False
        try:
            delivered = delivery(handle)
            if inspect.isawaitable(delivered):
                await delivered
        except Exception as error:  # noqa: BLE001 - whatever it is, the message is tried again.
            if not handle.settled:
                await handle.retry(error)
        else:
            if not handle.settled:
                await handle.ack()
            if not inspect.isawaitable(delivered):
                # Told, not retried: it has delivered, and would again at each attempt.
                raise DatabaseError(
                    f"delivery must be an async function: {delivery!r} returned "
                    f"{type(delivered).__name__}, which cannot be awaited; its message counts as "
                    "delivered"
                )
        return True
