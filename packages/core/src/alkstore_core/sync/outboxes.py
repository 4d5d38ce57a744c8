"""Outboxes for code that blocks."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, final

from alkstore_core.errors import DatabaseError
from alkstore_core.sync.queues import SyncJobSource

if TYPE_CHECKING:
    from alkstore_core.outboxes import Outbox
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.sync.jobs import SyncJobHandle
    from alkstore_core.values import EnqueueOpts


class SyncDelivery(Protocol):
    """What delivers one message. It may be called twice for one, so it is idempotent."""

    def __call__(self, job: SyncJobHandle, /) -> object:
        """Deliver; raising anything means "try again later"."""


@final
class SyncOutbox:
    """An outbox of one name, as `Outbox`, over a queue that only it can reach."""

    __slots__ = ("_backing", "_bridge", "_outbox")

    def __init__(self, bridge: Bridge, outbox: Outbox) -> None:
        self._bridge = bridge
        self._outbox = outbox
        self._backing = SyncJobSource(bridge, outbox.backing)

    @property
    def name(self) -> str:
        """The outbox's name."""
        return self._outbox.name

    @property
    def backing(self) -> SyncJobSource:
        """The queue behind it, for stats, dead messages, redrive, sweep and wakes."""
        return self._backing

    def enqueue(self, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """The message is in the outbox, committed; returns its id."""
        return self._bridge.call(self._outbox.enqueue, payload, opts)

    def run_once(self, worker_id: str, delivery: SyncDelivery) -> bool:
        """Claim one message and deliver it; `True` when there was one, whatever became of it.

        `delivery` is a plain function and runs in the calling thread. The message is acked when
        it returns and retried with backoff when it raises, unless it settled the handle itself.
        An interrupted delivery is neither.

        Raises:
            InvalidName: the worker id is not legal.
            DatabaseError: the database refused, or `delivery` is an async function, whose
                message is retried.
            Closed: the store is not open.

        """
        handle = self._backing.claim_one(worker_id)
        if handle is None:
            return False
        try:
            delivered = delivery(handle)
        except Exception as error:  # noqa: BLE001 - whatever it is, the message is tried again.
            if not handle.settled:
                handle.retry(error)
            return True
        if inspect.isawaitable(delivered):
            if inspect.iscoroutine(delivered):
                delivered.close()
            refusal = DatabaseError(
                f"delivery must be a plain function: {delivery!r} returned an awaitable, which "
                "nobody awaited; its message is tried again"
            )
            if not handle.settled:
                handle.retry(refusal)
            raise refusal
        if not handle.settled:
            handle.ack()
        return True
