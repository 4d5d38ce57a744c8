"""Every `*_tx` method, once, over whatever session stands behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from alkstore_core import requests

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager

    from alkstore_core.queues import Queue
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session
    from alkstore_core.values import EnqueueOpts, Job, StreamEvent


class TxOps(ABC):
    """The calls that can ride in a transaction.

    Nothing is visible outside before its commit; reads see the transaction's own writes.

    Every call raises `DatabaseError` when the transaction is spent or the database refuses,
    `Closed` when the store was closed, `InvalidName` and `ReservedName` for names. What fails
    its checks leaves the transaction usable.

    There is no `claim_tx` and no `lock_tx`: a claim's or a lease's deadline must not hang on how
    long somebody's business transaction takes.
    """

    __slots__ = ()

    @abstractmethod
    def _turn(self) -> AbstractAsyncContextManager[Session]:
        """The session, for one call."""

    @property
    @abstractmethod
    def _runtime(self) -> Runtime:
        """What all handles of the store share."""

    async def enqueue_tx(
        self, queue: str | Queue, payload: Any, opts: EnqueueOpts | None = None
    ) -> int:
        """A job is in the queue once the transaction commits; returns its id.

        It gets the options of the `Queue` that is given; by a name alone a plain queue's defaults
        (300 s visibility, 3 attempts, backoff from 5 s), whatever options handles have.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.
            DatabaseError: the queue is a handle of another store, or as everywhere.

        """
        name, payloads, spec, wake = requests.enqueue(queue, payload, opts, self._runtime)
        async with self._turn() as session:
            return (await session.insert_jobs(name, payloads, spec, wake=wake))[0]

    async def enqueue_many_tx(
        self, queue: str | Queue, payloads: Iterable[Any], opts: EnqueueOpts | None = None
    ) -> list[int]:
        """As `enqueue_tx`, for several payloads in one round trip; ids in input order.

        Raises:
            CodecError: a payload is not JSON, or the headers are not storable.

        """
        runtime = self._runtime
        name, data, spec, wake = requests.enqueue_many(queue, payloads, opts, runtime)
        async with self._turn() as session:
            return await session.insert_jobs(name, data, spec, wake=wake) if data else []

    async def outbox_enqueue_tx(
        self, outbox: str, payload: Any, opts: EnqueueOpts | None = None
    ) -> int:
        """A message is in the outbox exactly when the business write commits; returns its id.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        name, payloads, spec, wake = requests.outbox_enqueue(outbox, payload, opts)
        async with self._turn() as session:
            return (await session.insert_jobs(name, payloads, spec, wake=wake))[0]

    async def publish_tx(
        self, stream: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """An event is in the stream once the transaction commits; returns its offset.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        name, entries, wake = requests.publish(stream, payload, headers)
        async with self._turn() as session:
            return (await session.append(name, entries, wake=wake))[0]

    async def publish_with_key_tx(
        self, stream: str, key: str, payload: Any, headers: dict[str, str] | None = None
    ) -> int:
        """As `publish_tx`, with a key that readers get back.

        Raises:
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        name, entries, wake = requests.publish_with_key(stream, key, payload, headers)
        async with self._turn() as session:
            return (await session.append(name, entries, wake=wake))[0]

    async def publish_many_tx(self, stream: str, payloads: Iterable[Any]) -> list[int]:
        """As `publish_tx`, for several payloads in one round trip; offsets in input order.

        Raises:
            CodecError: a payload is not JSON.

        """
        name, entries, wake = requests.publish_many(stream, payloads)
        async with self._turn() as session:
            return await session.append(name, entries, wake=wake) if entries else []

    async def notify_tx(self, channel: str, payload: Any = None) -> None:
        """Receivers of the channel wake after the commit; a rollback forgets it.

        Raises:
            CodecError: the payload is not JSON.
            PayloadTooLarge: the engine cannot carry it.

        """
        topics = requests.notify(channel, payload, self._runtime.engine.notify_limit)
        async with self._turn() as session:
            await session.signal(topics)

    async def save_offset_tx(self, stream: str, consumer: str, offset: int) -> None:
        """The consumer stands at `offset` once the transaction commits, unless it is further."""
        request = requests.save_offset(stream, consumer, offset)
        async with self._turn() as session:
            await session.save_offset(*request)

    async def get_job_tx(self, queue: str, job_id: int) -> Job | None:
        """The job of this queue, live or dead."""
        request = requests.get_job(queue, job_id)
        async with self._turn() as session:
            return await session.get_job(*request)

    async def get_offset_tx(self, stream: str, consumer: str) -> int:
        """The consumer's saved offset, 0 when it never saved one."""
        request = requests.get_offset(stream, consumer)
        async with self._turn() as session:
            return await session.get_offset(*request)

    async def read_since_tx(self, stream: str, offset: int, limit: int) -> list[StreamEvent]:
        """Up to `limit` events above `offset`, ascending; none for a limit of 0 or less."""
        request = requests.read_since(stream, offset, limit)
        async with self._turn() as session:
            return await session.read(*request) if request.limit > 0 else []

    async def read_from_consumer_tx(
        self, stream: str, consumer: str, limit: int
    ) -> list[StreamEvent]:
        """Up to `limit` events above the consumer's saved offset, ascending."""
        request = requests.read_from_consumer(stream, consumer, limit)
        async with self._turn() as session:
            return await session.read_from(*request) if request.limit > 0 else []
