"""Transactions for code that blocks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from alkstore_core.errors import DatabaseError
from alkstore_core.opentx import spent
from alkstore_core.queues import unwrapped
from alkstore_core.runtime import quietly
from alkstore_core.sync.given import collected
from alkstore_core.transactions import TxHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.sync.queues import SyncQueue
    from alkstore_core.transactions import Transaction
    from alkstore_core.values import EnqueueOpts, Job, StreamEvent

T = TypeVar("T")
H_co = TypeVar("H_co", bound=TxHandle, covariant=True)


class SyncTxHandle(Generic[H_co]):
    """A transaction, as `TxHandle`: its calls take effect together at `commit`, or not at all.

    Used with `with` it is rolled back at the end of the block unless it was committed; so it is
    when its last reference is lost. Usable from any thread; calls of several take turns.
    """

    __slots__ = ("_bridge", "_entered", "_held")

    def __init__(self, bridge: Bridge, tx: H_co) -> None:
        self._bridge = bridge
        self._held: H_co | None = tx
        self._entered: Self | None = None

    def call(self, f: Callable[[H_co], Awaitable[T]]) -> T:
        """What `f` makes of the asynchronous handle, awaited on the store's event loop.

        For your own rows, on a SQL store:
        `tx.call(lambda tx: tx.connection.execute(insert(orders)))`.
        """
        return self._bridge.call(_apply, f, self._tx)

    def commit(self) -> None:
        """Make everything durable and visible; then receivers wake. The handle is spent.

        An interruption that arrives meanwhile is raised after the commit's end, or after a
        rollback when the commit had not begun.
        """
        self._bridge.finish(self._tx.commit, self._tx.rollback)

    def rollback(self) -> None:
        """Undo everything. The handle is spent; on a spent handle nothing happens."""
        if self._held is not None:
            self._bridge.finish(self._held.rollback, self._held.rollback)

    def enqueue_tx(
        self, queue: str | SyncQueue, payload: Any, opts: EnqueueOpts | None = None
    ) -> int:
        """A job is in the queue once the transaction commits; returns its id."""
        return self._bridge.call(self._tx.enqueue_tx, unwrapped(queue), payload, opts)

    def enqueue_many_tx(
        self, queue: str | SyncQueue, payloads: Iterable[Any], opts: EnqueueOpts | None = None
    ) -> list[int]:
        """As `enqueue_tx`, for several payloads in one round trip; ids in input order."""
        return self._bridge.call(
            self._tx.enqueue_many_tx, unwrapped(queue), collected(payloads), opts
        )

    def outbox_enqueue_tx(self, outbox: str, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """A message is in the outbox exactly when the business write commits; returns its id."""
        return self._bridge.call(self._tx.outbox_enqueue_tx, outbox, payload, opts)

    def publish_tx(self, stream: str, payload: Any, headers: dict[str, str] | None = None) -> int:
        """An event is in the stream once the transaction commits; returns its offset."""
        return self._bridge.call(self._tx.publish_tx, stream, payload, headers)

    def publish_with_key_tx(
        self, stream: str, key: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """As `publish_tx`, with a key that readers get back."""
        return self._bridge.call(self._tx.publish_with_key_tx, stream, key, payload, headers)

    def publish_many_tx(self, stream: str, payloads: Iterable[Any]) -> list[int]:
        """As `publish_tx`, for several payloads in one round trip; offsets in input order."""
        return self._bridge.call(self._tx.publish_many_tx, stream, collected(payloads))

    def notify_tx(self, channel: str, payload: Any = None) -> None:
        """Receivers of the channel wake after the commit; a rollback forgets it."""
        self._bridge.call(self._tx.notify_tx, channel, payload)

    def save_offset_tx(self, stream: str, consumer: str, offset: int) -> None:
        """The consumer stands at `offset` once the transaction commits, unless it is further."""
        self._bridge.call(self._tx.save_offset_tx, stream, consumer, offset)

    def get_job_tx(self, queue: str, job_id: int) -> Job | None:
        """The job of this queue, live or dead."""
        return self._bridge.call(self._tx.get_job_tx, queue, job_id)

    def get_offset_tx(self, stream: str, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""
        return self._bridge.call(self._tx.get_offset_tx, stream, consumer)

    def read_since_tx(self, stream: str, offset: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above `offset`, ascending; none for a limit of 0 or less."""
        return self._bridge.call(self._tx.read_since_tx, stream, offset, limit)

    def read_from_consumer_tx(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above the consumer's saved offset, ascending."""
        return self._bridge.call(self._tx.read_from_consumer_tx, stream, consumer, limit)

    def __enter__(self) -> Self:
        # Another handle, so that this one is lost with the block: see `__del__`.
        self._entered = type(self)(self._bridge, self._tx)
        return self._entered

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._held is not None:
            roll_back = functools.partial(_roll_back, self._held, exc)
            self._bridge.finish(roll_back, self._held.rollback)
        self._entered = None

    def __del__(self) -> None:
        # An interruption on the very way into `__exit__` is raised before anything there can
        # catch it: nobody else would end the block, whose handle the caller may well keep.
        if self._entered is not None:
            self._entered._held = None  # noqa: SLF001 - another of this class.

    @property
    def _tx(self) -> H_co:
        if self._held is None:
            kind, text = spent("dropped")
            raise kind(text)
        return self._held


class SyncTransaction(Generic[H_co]):
    """`with`: commits when the block ends well, rolls back when it raises anything.

    Of a block that is interrupted while its commit is under way, everything has taken effect or
    nothing; the handle is spent in either case.
    """

    __slots__ = ("_bridge", "_entered", "_transaction")

    def __init__(self, bridge: Bridge, transaction: Transaction[H_co]) -> None:
        self._bridge = bridge
        self._transaction = transaction
        self._entered: tuple[H_co, SyncTxHandle[H_co]] | None = None

    def __enter__(self) -> SyncTxHandle[H_co]:
        bridge, transaction = self._bridge, self._transaction

        async def undo(_: object) -> None:
            await transaction.__aexit__(KeyboardInterrupt, KeyboardInterrupt(), None)

        self._entered = bridge.take(
            transaction.__aenter__,
            undo,
            lambda tx: (tx, SyncTxHandle(bridge, tx)),  # type: ignore[misc]
        )
        return self._entered[1]

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered is None:
            raise DatabaseError("leave only a block that was entered")
        leave = functools.partial(self._transaction.__aexit__, exc_type, exc, None)
        try:
            self._bridge.finish(leave, self._entered[0].rollback)
        except Exception:
            self._entered = None
            raise
        self._entered = None

    def __del__(self) -> None:
        # As there: the handle in the block must not outlive it.
        if self._entered is not None:
            self._entered[1]._held = None  # noqa: SLF001


async def _apply(f: Callable[[H_co], Awaitable[T]], tx: H_co) -> T:  # type: ignore[misc]
    return await f(tx)


async def _roll_back(tx: TxHandle, exc: BaseException | None) -> None:
    if exc is None:
        await tx.rollback()
    else:
        await quietly(tx.rollback())
