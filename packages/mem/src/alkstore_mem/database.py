"""The database: an in-memory SQLite connection, and whose turn it is to use it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy.dialects import sqlite

from alkstore_core import DatabaseError
from alkstore_core.errors import AlkstoreError
from alkstore_core.slot import WriterSlot
from alkstore_core.sql.compile import drive
from alkstore_core.sql.faults import refused
from alkstore_core.sql.op import Result
from alkstore_core.sql.tables import ddl

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from alkstore_core.slot import Lease
    from alkstore_core.spi import Topic
    from alkstore_core.sql.compile import Request
    from alkstore_mem.engine import Client
    from alkstore_mem.transactions import Transaction

T = TypeVar("T")

BUSY_TIMEOUT: Final = 5.0
"""Seconds a write waits for its turn before it is a `DatabaseError`."""


class MemDatabase:
    """A database that stores share: `MemStore(database=...)`. It lives as long as this object.

    The stores that are open on it at one time belong to one event loop. There is nothing to
    call here; the methods are the engine's.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._slot = WriterSlot(BUSY_TIMEOUT)
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._attaching = threading.Lock()
        self.transaction: Transaction | None = None
        """The one that is open; at most one is."""

    # -- clients --------------------------------------------------------------------------

    def attach(self, client: Client) -> None:
        """Let a store in; the first one makes the tables.

        Raises:
            DatabaseError: stores of another event loop are open on it.

        """
        loop = asyncio.get_running_loop()
        # Loops of two threads may both be about to find nobody here.
        with self._attaching:
            if self._loop is not None and self._loop.is_closed():
                self._abandon()
            if not self._clients:
                self._loop = loop
            elif self._loop is not loop:
                raise DatabaseError(
                    "stores of another event loop are open on this MemDatabase: close them there "
                    "first, or give each loop a MemDatabase of its own"
                )
            if self._connection is None:
                self._connection = _connect()
                # Python complains about connections that the collector has to close.
                self._discard = weakref.finalize(self, self._connection.close)
            self._clients.add(client)

    def detach(self, client: Client) -> None:
        """See a store off."""
        self._clients.discard(client)

    def serves(self, client: Client) -> bool:
        """Whether this store is open."""
        return client in self._clients

    def discard(self) -> None:
        """Forget everything."""
        if self._connection is not None:
            self._connection = None
            self._discard()

    def fire(self, topic: Topic, mark: int | None) -> None:
        """Wake the receivers of every store."""
        for client in tuple(self._clients):
            client.hub.fire(topic, mark)

    def _abandon(self) -> None:
        """Undo what is open: the loop that could end it is gone."""
        self._clients.clear()
        self._slot = WriterSlot(BUSY_TIMEOUT)
        if self.transaction is not None:
            self.transaction.park()
            self.transaction = None

    # -- turns ----------------------------------------------------------------------------

    async def acquire(self) -> Lease:
        """Wait for the turn of a transaction. Core lets one store's writers wait; this, stores.

        Raises:
            DatabaseError: another store's transaction was open for the whole `BUSY_TIMEOUT`.

        """
        with _locked():
            return await self._slot.acquire()

    async def turn(self, *, urgent: bool) -> None:
        """Wait until no transaction is open; a write has to follow at once.

        Raises:
            DatabaseError: another store's transaction was open for the whole `BUSY_TIMEOUT`.

        """
        if self._slot.taken:
            with _locked():
                await self._slot.turn("this write", "use its *_tx method", urgent=urgent)

    # -- work -----------------------------------------------------------------------------

    @property
    def connection(self) -> sqlite3.Connection:
        """The one connection."""
        if self._connection is None:
            raise DatabaseError("this memory database is gone with its store")
        return self._connection

    def read(self, steps: Generator[Request, Result, T]) -> T:
        """Run an op that sees nothing of the open transaction."""
        if self.transaction is not None:
            self.transaction.park()
        with refusals():
            return drive(steps, self._execute)

    def write(self, steps: Generator[Request, Result, T]) -> T:
        """Run an op in a transaction of its own, while no other is open."""
        connection = self.connection
        if self.transaction is not None:
            raise DatabaseError("a transaction is open on this memory database: wait for its end")
        with refusals():
            connection.execute("BEGIN")
            try:
                value = drive(steps, self._execute)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return value

    def _execute(self, request: Request) -> Result:
        cursor = self.connection.execute(request.sql, request.arguments)
        return Result(cursor.fetchall(), cursor.rowcount)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn the driver's errors into the contract's."""
    try:
        yield
    except AlkstoreError:
        raise
    except Exception as error:
        raise refused("the memory database", error) from error


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        raise DatabaseError(f"the memory database is locked: {error}") from error


def _connect() -> sqlite3.Connection:
    connection = _open()
    connection.deserialize(_image())
    return connection


@functools.cache
def _image() -> bytes:
    """An empty database with our tables: a copy of it is made faster than the tables are."""
    with contextlib.closing(_open()) as connection:
        for statement in ddl(sqlite.dialect()):
            connection.execute(statement)
        return connection.serialize()


def _open() -> sqlite3.Connection:
    # One loop at a time uses it, which need not be the same thread each time.
    return sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
    )
