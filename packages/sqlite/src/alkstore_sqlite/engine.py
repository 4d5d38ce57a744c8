"""The engine: which connection runs what."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import sqlite

from alkstore_core import DatabaseError
from alkstore_core.sql.compile import Compiler
from alkstore_core.sql.merging import MERGES
from alkstore_core.sql.runner import Runner
from alkstore_core.sql.session import SqlSession
from alkstore_core.sql.store import SqlEngine
from alkstore_sqlite.connections import FileIdentity, connect, judge, other_link
from alkstore_sqlite.diagnosis import diagnose
from alkstore_sqlite.forks import Key, closed, opened, refuse_inherited
from alkstore_sqlite.prepare import FILE, is_autocommit
from alkstore_sqlite.probe import TableProbe
from alkstore_sqlite.schema import ensure_schema
from alkstore_sqlite.signals import SqliteSignals
from alkstore_sqlite.transactions import Transactions

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection

    from alkstore_core import Clock, Finding
    from alkstore_core.spi import Topic, TxSession
    from alkstore_core.sql.op import Driver
    from alkstore_sqlite.opts import SqliteOpts


class SqliteEngine(SqlEngine):
    """One database file, used by this process through four connections of ours at most."""

    single_writer = True
    notify_limit = None

    def __init__(self, path: str | os.PathLike[str], opts: SqliteOpts, clock: Clock | None) -> None:
        """Prepare; the path is a plain path, whatever it looks like."""
        # Absolute, it can be neither a `file:` URI nor `:memory:`. Not resolved: a symbolic
        # link may be given another target on purpose, while the store is closed.
        self.path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        self.busy_timeout = opts.busy_timeout
        self.clock = clock
        self._opts = opts
        self._compiler = Compiler(sqlite.dialect(paramstyle="qmark"))
        self._identity: FileIdentity
        self._fork_key: Key | None = None
        self._writer = self._runner(
            self._connect_first, "BEGIN IMMEDIATE", merges=MERGES, gives_way=True
        )
        self._reader = self._runner(self._connect, "BEGIN")
        self.signals: SqliteSignals = SqliteSignals(
            self.path,
            opts.poll_interval,
            opts.busy_timeout,
            TableProbe(self._compiler),
            self._reader,
        )
        # Reads have a connection of their own, so that they never wait for a writer.
        self.auto = SqlSession(self._writer, self.signals.fire, self._reader)
        self._transactions = Transactions(
            self.path, opts, self._compiler, self.read_clock, self.signals.fire
        )

    async def open(self) -> None:
        """Connect and make or check the schema; on failure nothing is left behind.

        Raises:
            DatabaseError: the file cannot be used, or its schema is another release's.

        """
        directory = os.path.dirname(self.path)  # noqa: PTH120
        if not os.path.isdir(directory):  # noqa: ASYNC240, PTH112
            hint = "; for a URL there is open_store" if "/sqlite:" in directory else ""
            raise DatabaseError(f"cannot open {self.path}: there is no directory {directory}{hint}")
        if os.path.isdir(self.path):  # noqa: ASYNC240, PTH112
            raise DatabaseError(f"cannot open {self.path}: it is a directory")
        # A connection made now would leave `-wal` and `-shm` files that stay read-only with it.
        if os.path.exists(self.path) and not os.access(self.path, os.W_OK):  # noqa: ASYNC240, PTH110
            raise DatabaseError(f"{self.path} is read-only for this process; make it writable")
        refuse_inherited(self.path)
        try:
            await self._writer.start()
            self._fork_key = opened(self.path)
            await self._reader.start()
            self._identity = self.signals.identity = FileIdentity.of(self.path)
        except BaseException as error:
            await self._end_runners()
            if isinstance(error, OSError):
                message = f"the database file {self.path} vanished while it was opened"
                raise DatabaseError(message) from error
            raise

    async def close(self) -> None:
        """Finish accepted calls, then give up every thread and connection. Idempotent."""
        await self.signals.end()
        await self._transactions.close()
        await self._end_runners()

    async def _end_runners(self) -> None:
        await self._reader.close()
        await self._writer.close()
        closed(self._fork_key)
        self._fork_key = None

    async def now(self) -> int:
        """The host's time, or the injected clock's."""
        return self.read_clock()

    def read_clock(self) -> int:
        """Whole unix seconds; callable from any thread."""
        return int(time.time()) if self.clock is None else self.clock.now()

    async def begin(self) -> TxSession:
        """Begin on a SQLAlchemy connection, where the caller's own statements can ride along.

        Raises:
            DatabaseError: the database stayed locked for `busy_timeout`, or failed.

        """
        self._identity.check()
        return await self._transactions.begin()

    def check_joinable(self, connection: Connection) -> None:
        """Refuse connections of an engine that is not prepared, or on another file."""
        file = connection.info.get(FILE)
        if file is None:
            raise DatabaseError(
                "the joined connection's engine is not prepared: call "
                "alkstore_sqlite.prepare_engine(engine) right after it was created"
            )
        if not self._identity.names(file):
            raise DatabaseError(
                f"the joined connection is on {file or 'a database without a file'}, this store "
                f"on {self.path}"
            )
        if other_link(file, self.path):
            raise DatabaseError(
                f"the joined connection is on {file}, another name (hard link) of {self.path}: "
                "SQLite takes them for two databases and destroys both; use one name"
            )
        if is_autocommit(connection):
            raise DatabaseError(
                "the joined connection has the isolation level AUTOCOMMIT, so that nothing on it "
                "commits together: join one without"
            )

    def joined_session(self, driver: Driver) -> SqlSession:
        """A session that leaves the wakes to the watcher: only it sees the caller's commit."""
        return SqlSession(driver, _wake_nobody)

    async def diagnose(self) -> Iterable[Finding]:
        """What an operator should know about this file."""
        return diagnose(self.path)

    def _runner(
        self, connect: Callable[[], sqlite3.Connection], begin: str, **extra: Any
    ) -> Runner:
        return Runner(
            connect,
            self._compiler,
            self.read_clock,
            begin=begin,
            check=self._check_file,
            busy_timeout=self.busy_timeout,
            judge=judge,
            describe=self.path,
            **extra,
        )

    def _connect_first(self) -> sqlite3.Connection:
        ensure_schema(self.path, self._connect, self.busy_timeout)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, self._opts.synchronous, self.busy_timeout)

    def _check_file(self) -> None:
        self._identity.check()


def _wake_nobody(topic: Topic, mark: int | None) -> None:
    """The watcher does."""
