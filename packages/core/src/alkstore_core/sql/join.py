"""Transactions that the caller owns: `*_tx` calls on their connection, and no commit."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session as OrmSession

from alkstore_core.errors import DatabaseError
from alkstore_core.queues import unwrapped
from alkstore_core.sql.connection_drivers import AsyncConnectionDriver, ConnectionDriver
from alkstore_core.sql.faults import refused
from alkstore_core.txops import TxOps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

    from alkstore_core.queues import Queue, Wrapper
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session
    from alkstore_core.sql.op import Driver
    from alkstore_core.sql.store import SqlEngine
    from alkstore_core.values import EnqueueOpts, Job, StreamEvent

T = TypeVar("T")


class _OneTransaction:
    """Holds a joined object to the transaction in which it was first used."""

    def __init__(self, runtime: Runtime, engine: SqlEngine) -> None:
        self.runtime = runtime
        self._engine = engine
        self._root: object = None
        self._session: Session | None = None

    def check(self, owner: Connection | OrmSession | None) -> None:
        """Refuse when the store is closed, or `owner` is no longer in the transaction.

        Raises:
            Closed: the store was closed.
            DatabaseError: the transaction was committed or rolled back.

        """
        self.runtime.check_open()
        if self._root is None:
            return
        if owner is None or owner.get_transaction() is not self._root:
            raise DatabaseError(
                "the transaction that this object joined has ended; one joined object serves one "
                "transaction: call store.join again in the next one"
            )

    def bind(self, connection: Connection, owner: Connection | OrmSession) -> None:
        """From the first call on, the transaction that `owner` is in now is the one."""
        if self._root is None:
            self._engine.check_joinable(connection)
            self._root = owner.get_transaction()

    def session(self, driver: Callable[[], Driver]) -> Session:
        """The one session of the transaction: it may have to remember what was done in it."""
        if self._session is None:
            self._session = self.runtime.tapped(self._engine.joined_session(driver()))
        return self._session


class JoinedTx(TxOps):
    """`*_tx` calls in a transaction of an `AsyncConnection` or `AsyncSession`.

    There is no `commit` and no `rollback` here: whoever began the transaction ends it. Not used
    by two tasks at once, as the connection is not.
    """

    def __init__(
        self, runtime: Runtime, engine: SqlEngine, target: AsyncConnection | AsyncSession
    ) -> None:
        self._target = target
        self._engine = engine
        self._one = _OneTransaction(runtime, engine)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[Session]:
        target = self._target
        if isinstance(target, AsyncSession):
            self._one.check(target.sync_session)
            with _refusals():
                # Asked for each time: a savepoint of the session begins no sooner than that.
                connection = await target.connection()
            await connection.run_sync(self._one.bind, target.sync_session)
        else:
            connection = target
            self._one.check(connection.sync_connection)
            with _refusals():
                if not connection.in_transaction():
                    await connection.begin()
            await connection.run_sync(lambda sync: self._one.bind(sync, sync))
        yield self._one.session(
            lambda: AsyncConnectionDriver(connection, self._engine.read_clock, self._engine.schema)
        )

    @property
    def _runtime(self) -> Runtime:
        return self._one.runtime


class _JoinedSync(TxOps):
    """The calls on a blocking connection: they are coroutines that never suspend."""

    def __init__(
        self, runtime: Runtime, engine: SqlEngine, target: Connection | OrmSession
    ) -> None:
        self._target = target
        self._engine = engine
        self._one = _OneTransaction(runtime, engine)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[Session]:
        target = self._target
        self._one.check(target)
        with _refusals():
            connection = target.connection() if isinstance(target, OrmSession) else target
            if not connection.in_transaction():
                connection.begin()
        self._one.bind(connection, target)
        yield self._one.session(
            lambda: ConnectionDriver(connection, self._engine.read_clock, self._engine.schema)
        )

    @property
    def _runtime(self) -> Runtime:
        return self._one.runtime


class JoinedSyncTx:
    """`*_tx` calls in a transaction of a `Connection` or `Session`: plain methods that block.

    Each does what the method of that name does on `JoinedTx` and raises the same. There is no
    `commit` and no `rollback`: whoever began the transaction ends it. Usable from any thread,
    like the connection, by one at a time.
    """

    def __init__(
        self, runtime: Runtime, engine: SqlEngine, target: Connection | OrmSession
    ) -> None:
        self._tx = _JoinedSync(runtime, engine, target)

    def enqueue_tx(
        self, queue: str | Queue | Wrapper, payload: Any, opts: EnqueueOpts | None = None
    ) -> int:
        """A job is in the queue once the transaction commits; returns its id."""
        return _drive(self._tx.enqueue_tx(unwrapped(queue), payload, opts))

    def enqueue_many_tx(
        self,
        queue: str | Queue | Wrapper,
        payloads: Iterable[Any],
        opts: EnqueueOpts | None = None,
    ) -> list[int]:
        """As `enqueue_tx`, for several payloads in one round trip; ids in input order."""
        return _drive(self._tx.enqueue_many_tx(unwrapped(queue), payloads, opts))

    def outbox_enqueue_tx(self, outbox: str, payload: Any, opts: EnqueueOpts | None = None) -> int:
        """A message is in the outbox exactly when the business write commits; returns its id."""
        return _drive(self._tx.outbox_enqueue_tx(outbox, payload, opts))

    def publish_tx(self, stream: str, payload: Any, headers: dict[str, str] | None = None) -> int:
        """An event is in the stream once the transaction commits; returns its offset."""
        return _drive(self._tx.publish_tx(stream, payload, headers))

    def publish_with_key_tx(
        self, stream: str, key: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """As `publish_tx`, with a key that readers get back."""
        return _drive(self._tx.publish_with_key_tx(stream, key, payload, headers))

    def publish_many_tx(self, stream: str, payloads: Iterable[Any]) -> list[int]:
        """As `publish_tx`, for several payloads in one round trip; offsets in input order."""
        return _drive(self._tx.publish_many_tx(stream, payloads))

    def notify_tx(self, channel: str, payload: Any = None) -> None:
        """Receivers of the channel wake after the commit; a rollback forgets it."""
        _drive(self._tx.notify_tx(channel, payload))

    def save_offset_tx(self, stream: str, consumer: str, offset: int) -> None:
        """The consumer stands at `offset` once the transaction commits, unless it is further."""
        _drive(self._tx.save_offset_tx(stream, consumer, offset))

    def get_job_tx(self, queue: str, job_id: int) -> Job | None:
        """The job of this queue, live or dead."""
        return _drive(self._tx.get_job_tx(queue, job_id))

    def get_offset_tx(self, stream: str, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""
        return _drive(self._tx.get_offset_tx(stream, consumer))

    def read_since_tx(self, stream: str, offset: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above `offset`, ascending; none for a limit of 0 or less."""
        return _drive(self._tx.read_since_tx(stream, offset, limit))

    def read_from_consumer_tx(self, stream: str, consumer: str, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above the consumer's saved offset, ascending."""
        return _drive(self._tx.read_from_consumer_tx(stream, consumer, limit))


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise refused("the joined transaction", error) from error


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without a loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    work.close()
    raise AssertionError("a call on a blocking connection was about to suspend")
