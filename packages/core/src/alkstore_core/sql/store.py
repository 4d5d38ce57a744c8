"""The store of a SQL engine: business writes ride in the same transaction."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session as OrmSession

from alkstore_core.errors import DatabaseError
from alkstore_core.spi import Engine
from alkstore_core.sql.join import JoinedSyncTx, JoinedTx
from alkstore_core.sql.session import SqlTxSession
from alkstore_core.store import Store
from alkstore_core.transactions import BeginTx, Transaction, TxHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_core.sql.op import Driver
    from alkstore_core.sql.session import SqlSession

T = TypeVar("T")


class SqlEngine(Engine):
    """What a SQL engine adds to the seam, so that a caller's own transaction can carry ops."""

    schema: str | None = None
    """The schema that holds the tables, in a database that has schemas."""

    @abstractmethod
    def read_clock(self) -> int | None:
        """The time that ops get as `now`, or `None` for the database's; from any thread."""

    @abstractmethod
    def check_joinable(self, connection: Connection) -> None:
        """Refuse a caller's connection that cannot carry ops safely. Called in a transaction.

        Raises:
            DatabaseError: it is not prepared, or not on this store's database.

        """

    @abstractmethod
    def joined_session(self, driver: Driver) -> SqlSession:
        """A session in a transaction that somebody else commits: it wakes nobody by itself."""


class SqlTxHandle(TxHandle):
    """A transaction whose connection carries the caller's own statements as well."""

    __slots__ = ()

    @property
    def connection(self) -> AsyncConnection:
        """The transaction's connection; what is executed on it commits with the handle.

        Do not commit or roll back on it, and do not keep it beyond the handle.

        Raises:
            DatabaseError: the handle is spent.
            Closed: the store was closed.

        """
        self._tx.check()
        session = self._tx.session
        if not isinstance(session, SqlTxSession):
            raise DatabaseError("this engine's transactions have no SQLAlchemy connection")
        connection: AsyncConnection = session.connection
        return connection


class SqlStore(Store):
    """A store in a SQL database. See `Store`; this adds `join` and the handles' `connection`."""

    def __init__(self, engine: SqlEngine) -> None:
        super().__init__(engine)
        self._sql_engine = engine

    def begin_tx(self) -> BeginTx[SqlTxHandle]:
        """A transaction: `await` it, or use `async with`, which rolls back unless committed."""
        return BeginTx(self._runtime, SqlTxHandle)

    def transaction(self) -> Transaction[SqlTxHandle]:
        """`async with`: commits when the block ends well, rolls back when it raises anything."""
        return Transaction(self._runtime, SqlTxHandle)

    async def with_tx(self, f: Callable[[SqlTxHandle], Awaitable[T]]) -> T:
        """Commit what `f` did and return its value; whatever it raises rolls back first."""
        async with self.transaction() as tx:
            return await f(tx)

    @overload
    def join(self, transaction: AsyncConnection | AsyncSession, /) -> JoinedTx: ...
    @overload
    def join(self, transaction: Connection | OrmSession, /) -> JoinedSyncTx: ...
    def join(self, transaction: Any, /) -> JoinedTx | JoinedSyncTx:
        """Let the caller's own transaction carry `*_tx` calls; whoever began it ends it.

        Takes SQLAlchemy's `AsyncConnection` and `AsyncSession`, or `Connection` and `Session`,
        whose joined object has plain methods. There is no `commit` on it, and it serves one
        transaction: after that ended, join again. Receivers wake after the caller's commit.

        Raises:
            Closed: the store is not open.
            DatabaseError: something else was given.

        """
        self._runtime.check_open()
        if isinstance(transaction, AsyncConnection | AsyncSession):
            return JoinedTx(self._runtime, self._sql_engine, transaction)
        if isinstance(transaction, Connection | OrmSession):
            return JoinedSyncTx(self._runtime, self._sql_engine, transaction)
        raise DatabaseError(
            "join takes a SQLAlchemy AsyncConnection, AsyncSession, Connection or Session, "
            f"not {type(transaction).__name__}"
        )
