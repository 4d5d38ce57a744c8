"""The blocking store: what a script opens, and where all else comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar

from alkstore_core.store import Store
from alkstore_core.sync.bridge import Bridge
from alkstore_core.sync.locks import SyncLock
from alkstore_core.sync.outboxes import SyncOutbox
from alkstore_core.sync.queues import SyncQueue
from alkstore_core.sync.receivers import attached_wakes
from alkstore_core.sync.running import run_until_stopped
from alkstore_core.sync.streams import SyncStreamHandle
from alkstore_core.sync.transactions import SyncTransaction, SyncTxHandle
from alkstore_core.transactions import TxHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from alkstore_core.locks import Lock
    from alkstore_core.stop import StopToken
    from alkstore_core.sync.receivers import SyncWakeReceiver
    from alkstore_core.transactions import BeginTx, Transaction
    from alkstore_core.values import Finding, LockInfo, QueueOpts, Schedule, ScheduleOpts
    from alkstore_core.worker.apps import App
    from alkstore_core.worker.runner import Runner

P = ParamSpec("P")
T = TypeVar("T")
J = TypeVar("J")
J_co = TypeVar("J_co", covariant=True)
H = TypeVar("H", bound=TxHandle)
H_co = TypeVar("H_co", bound=TxHandle, covariant=True)
AnyStore = TypeVar("AnyStore", bound=Store)
S_co = TypeVar("S_co", covariant=True)


class Begins(Protocol[H_co]):
    """A store whose transactions have handles of one class."""

    def begin_tx(self) -> BeginTx[H_co]:
        """See `Store.begin_tx`."""

    def transaction(self) -> Transaction[H_co]:
        """See `Store.transaction`."""


class Joins(Protocol[J_co]):
    """A store with a `join`, as those in SQL databases have."""

    @property
    def join(self) -> J_co:
        """See `SqlStore.join`."""


class SyncStore(Generic[S_co]):
    """A store for code that blocks: `with SyncStore(SqliteStore("app.db")) as store`.

    Each call does what the store's call of that name does, raises the same, and returns when it
    is done. Usable from any thread, also from one in which an event loop runs. The calls are
    served by one event loop, in a daemon thread that all blocking stores of a process share.

    A call that is interrupted, as by a `KeyboardInterrupt`, is cancelled; the interruption is
    raised once the call is whole or absent. A store that nobody closed is closed at the
    interpreter's exit. In a forked child every call raises `DatabaseError`: open it after the
    fork.
    """

    def __init__(self: SyncStore[AnyStore], store: AnyStore) -> None:
        """Prepare; `store` is one that was not opened, and is this one's from now on."""
        if not isinstance(store, Store):
            raise TypeError(
                "SyncStore wraps a store, such as that of open_store(url), not a "
                f"{type(store).__name__}"
            )
        self._wrapped: S_co = store
        self._store: Store = store
        self._bridge = Bridge(store)

    @property
    def wrapped(self) -> S_co:
        """The asynchronous store: for what is built on it, such as `Worker(store.wrapped, …)`.

        Its coroutines run on this store's event loop only: by `call`.
        """
        return self._wrapped

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function on the store's event loop; what it returns or raises.

        For all that takes an asynchronous store: `store.call(overview, store.wrapped)`. It must
        not block that loop, and cannot make blocking calls there.
        """
        return self._bridge.call(function, *args, **kwargs)

    def open(self) -> None:
        """The store is open; on an open one nothing happens. A failed open can be repeated.

        Raises:
            Closed: it was closed before; construct a new one.

        """
        self._bridge.open()

    def close(self) -> None:
        """Receivers have ended, open transactions are rolled back, everything is given back.

        Idempotent. Every later call raises `Closed`.
        """
        self._bridge.close()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._store.is_open

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- mechanisms -----------------------------------------------------------------------

    def queue(self, name: str, opts: QueueOpts | None = None) -> SyncQueue:
        """A queue by name; `opts` are stamped on what this handle enqueues."""
        return SyncQueue(self._bridge, self._store.queue(name, opts))

    def stream(self, name: str) -> SyncStreamHandle:
        """A stream by name."""
        return SyncStreamHandle(self._bridge, self._store.stream(name))

    def outbox(self, name: str) -> SyncOutbox:
        """An outbox by name."""
        return SyncOutbox(self._bridge, self._store.outbox(name))

    def notify(self, channel: str, payload: Any = None) -> None:
        """Receivers of the channel wake; those that attach later never hear of it."""
        self._bridge.call(self._store.notify, channel, payload)

    def listen(self, channel: str, stop: StopToken | None = None) -> SyncWakeReceiver:
        """Wakes of a channel from now on.

        Attached when this returns; use `with`, or `close` it. `stop` ends the receiver.
        """
        return attached_wakes(self._bridge, self._store.listen(channel, stop))

    def try_lock(self, name: str, owner: str, ttl: int) -> SyncLock | None:
        """Take a lock for `ttl` seconds, or `None` when somebody else holds it.

        The current owner gets a handle on the lease it has, which is not refreshed: `renew` it.
        """
        bridge, store = self._bridge, self._store

        async def unseen(lock: Lock | None) -> None:
            if lock is not None:
                await lock.release()

        return bridge.take(
            lambda: store.try_lock(name, owner, ttl),
            unseen,
            lambda lock: None if lock is None else SyncLock(bridge, lock),
        )

    # -- transactions ---------------------------------------------------------------------

    def begin_tx(self: SyncStore[Begins[H]]) -> SyncTxHandle[H]:
        """A transaction, begun; `with` rolls it back at the end unless it was committed."""
        bridge, begins = self._bridge, self._wrapped

        async def begin() -> H:
            return await begins.begin_tx()

        return bridge.take(begin, _roll_back, lambda tx: SyncTxHandle(bridge, tx))

    def transaction(self: SyncStore[Begins[H]]) -> SyncTransaction[H]:
        """`with`: commits when the block ends well, rolls back when it raises anything."""
        return SyncTransaction(self._bridge, self._wrapped.transaction())

    def with_tx(self: SyncStore[Begins[H]], f: Callable[[SyncTxHandle[H]], T]) -> T:
        """Commit what `f` did and return its value; whatever it raises rolls back first."""
        with self.transaction() as tx:
            return f(tx)

    @property
    def join(self: SyncStore[Joins[J]]) -> J:
        """The store's own `join`: your `Session` or `Connection` carries `*_tx` calls.

        They are plain methods that run in your thread, on your connection. Not every store has
        it; see `SqlStore`.
        """
        return self._wrapped.join

    # -- schedules and workers ------------------------------------------------------------

    def schedule(
        self, name: str, spec: str, queue: str, payload: Any, opts: ScheduleOpts | None = None
    ) -> Schedule:
        """A job goes into `queue` at each boundary of `spec`, as long as somebody runs schedules.

        `spec` is `@every <n><unit>` with s, m, h or d, in elapsed seconds.
        """
        return self._bridge.call(self._store.schedule, name, spec, queue, payload, opts)

    def unschedule(self, name: str) -> bool:
        """The schedule is gone; `False` when there was none."""
        return self._bridge.call(self._store.unschedule, name)

    def run_schedules(self, stop: StopToken) -> None:
        """Fire schedules until `stop`; of all runners one leads, the others stand by."""
        self._bridge.call(self._store.run_schedules, stop)

    def run(
        self,
        *work: App | Runner,
        schedules: bool = True,
        stop: StopToken | None = None,
        signals: bool = True,
    ) -> None:
        """Run the handlers of an `App`, and workers and consumers of `wrapped`, until `stop`.

        As `alkstore_core.worker.run`. With `signals`, as it is in the main thread, SIGTERM and
        SIGINT are a stop, and a second one ends the grace periods. Plain handlers run in threads
        of their own, where they may use this store; async ones run on its event loop.

        Raises:
            ValueError: there is nothing to run.
            Closed: the store is not open or was closed.
            PoisonedEvent: a consumer stopped at an event.
            BaseExceptionGroup: several of them failed.

        """
        run_until_stopped(
            self._bridge, self._store, work, schedules=schedules, stop=stop, signals=signals
        )

    # -- time -----------------------------------------------------------------------------

    def now(self) -> int:
        """The store's time in unix seconds, by which it stamps and judges every deadline."""
        return self._bridge.call(self._store.now)

    # -- what is there --------------------------------------------------------------------

    def schedules(self) -> list[Schedule]:
        """Every schedule, by name."""
        return self._bridge.call(self._store.schedules)

    def queues(self) -> list[str]:
        """The queues that hold a job, dead ones included, by name; not those of outboxes."""
        return self._bridge.call(self._store.queues)

    def outboxes(self) -> list[str]:
        """The outboxes that hold a message, dead ones included, by name."""
        return self._bridge.call(self._store.outboxes)

    def streams(self) -> list[str]:
        """The streams that hold an event or a consumer's offset, by name."""
        return self._bridge.call(self._store.streams)

    def locks(self) -> list[LockInfo]:
        """Every live lease, the scheduler's included, by name."""
        return self._bridge.call(self._store.locks)

    def diagnose(self) -> list[Finding]:
        """What an operator should know about this database; nothing when all is well."""
        return self._bridge.call(self._store.diagnose)


async def _roll_back(tx: TxHandle) -> None:
    await tx.rollback()
