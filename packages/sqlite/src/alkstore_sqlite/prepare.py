"""Making an application's own SQLAlchemy engine fit to carry alkstore's transactions."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Dialect, Engine, event, exc
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from alkstore_core import DatabaseError
from alkstore_core.sql.streaks import Streak
from alkstore_sqlite.connections import Patience, database_file
from alkstore_sqlite.forks import check_unchanged, closed, opened, refuse_inherited
from alkstore_sqlite.opts import Synchronous, check_synchronous

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
    from sqlalchemy.pool import ConnectionPoolEntry

AnyEngine = TypeVar("AnyEngine", Engine, AsyncEngine)

FILE = "alkstore_sqlite_file"
"""Key in `connection.info`: the file a prepared connection is on."""

BEGIN = "BEGIN IMMEDIATE"

_OUTSIDE = (BEGIN, "PRAGMA busy_timeout=")
"""What is executed before SQLite is in the transaction that SQLAlchemy has begun."""

_KEY = "alkstore_sqlite_key"
_WAIT = "alkstore_sqlite_wait"
_HOLDS = "alkstore_sqlite_holds"
_PREPARED = "alkstore_sqlite_prepared"


def prepare_engine(
    engine: AnyEngine, *, synchronous: Synchronous = "FULL", busy_timeout: float = 5.0
) -> AnyEngine:
    """Let a store join this engine's transactions; return the engine.

    Call it right after `create_engine` or `create_async_engine`: it concerns connections made
    from then on. It turns off the driver's own transactions (with them a released savepoint
    survives a rollback on Python 3.11), begins each transaction with `BEGIN IMMEDIATE` (a
    transaction that reads first and writes later can otherwise fail at once, whatever the
    timeout), waits for a busy database fairly for at most `busy_timeout` seconds, leaves it to
    others for 3 ms when transactions have followed each other closely for 50 ms, and sets
    `synchronous`. Nothing else changes: with the isolation level `AUTOCOMMIT` no transaction is
    begun, and no store can join. Preparing an engine twice is the same as once.

    Raises:
        TypeError: no SQLAlchemy engine.
        ValueError: not a SQLite engine, or an option out of its range.

    """
    check_synchronous(synchronous)
    if not isinstance(engine, Engine | AsyncEngine):
        message = f"prepare_engine takes an Engine or AsyncEngine, not {type(engine).__name__}"
        raise TypeError(message)
    target = _sync_engine(engine)
    if target.dialect.name != "sqlite":
        message = f"prepare_engine takes SQLite engines; this one is {target.dialect.name}"
        raise ValueError(message)
    if getattr(target, _PREPARED, False):
        return engine
    setattr(target, _PREPARED, True)

    streak = Streak()

    def on_begin(connection: Connection) -> None:
        alone = is_autocommit(connection)
        _wait_by_itself(connection, busy_timeout if alone else 0)
        if not alone:
            _take_from_driver(connection)
            _begin_immediate(connection, busy_timeout, streak)
            connection.info[_HOLDS] = True

    watch_connections(target, synchronous)
    event.listen(target, "begin", on_begin)
    _watch_ends(target, streak)
    return engine


def _watch_ends(engine: Engine, streak: Streak) -> None:
    """Tell a streak when a transaction of its engine ends."""

    def on_ending(connection: Connection) -> None:
        # A BEGIN that was refused is rolled back as well. One that was given up has no info.
        if connection.invalidated:
            streak.give(time.monotonic())
        elif connection.info.get(_HOLDS):
            connection.info[_HOLDS] = False
            streak.give(time.monotonic(), surely=False)

    def on_ended(dbapi: DBAPIConnection, record: ConnectionPoolEntry) -> None:  # noqa: ARG001
        if record.info.pop(_HOLDS, None) is not None:
            streak.give(time.monotonic())

    event.listen(engine, "commit", on_ending)
    event.listen(engine, "rollback", on_ending)
    event.listen(engine, "checkin", on_ended)


def watch_connections(engine: Engine, synchronous: Synchronous) -> None:
    """Set up each new connection of an engine, and never let one run on outside its transaction.

    SQLite may roll a transaction back by itself (a full disk, `ON CONFLICT ROLLBACK`). Without
    the driver's own transactions every later statement would then commit alone, and COMMIT
    would do nothing and report success.
    """

    def on_connecting(dialect: Dialect, record: object, args: Sequence[Any], kw: object) -> None:  # noqa: ARG001
        refuse_inherited(str(args[0]))

    def on_connect(dbapi: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        set_up(dbapi, record, synchronous)

    def on_close(dbapi: DBAPIConnection, record: ConnectionPoolEntry) -> None:  # noqa: ARG001
        closed(record.info.get(_KEY))

    def on_invalidate(dbapi: DBAPIConnection, record: object, error: object) -> None:  # noqa: ARG001
        _roll_back_first(dbapi)

    def on_execute(connection: Connection, cursor: object, statement: str, *rest: object) -> None:  # noqa: ARG001
        if connection.in_transaction() and not statement.startswith(_OUTSIDE):
            check_in_transaction(connection)

    def on_commit(connection: Connection) -> None:
        check_in_transaction(connection)
        try:
            check_unchanged(connection.info.get(FILE, ""), connection.info.get(_KEY))
        except DatabaseError:
            # For SQLAlchemy a commit that fails has ended the transaction all the same.
            with contextlib.suppress(exc.DBAPIError):
                connection.exec_driver_sql("ROLLBACK")
            raise

    event.listen(engine, "handle_error", _end_what_failed)
    event.listen(engine, "do_connect", on_connecting)
    event.listen(engine, "connect", on_connect)
    event.listen(engine, "close", on_close)
    event.listen(engine, "invalidate", on_invalidate)
    event.listen(engine, "before_cursor_execute", on_execute)
    event.listen(engine, "commit", on_commit)


def _end_what_failed(context: ExceptionContext) -> None:
    """Roll a transaction back whose COMMIT failed, as for a deferred foreign key.

    SQLite stays in it, while SQLAlchemy takes it for ended: the file's lock would go into the pool
    with its connection.
    """
    connection = context.connection
    if connection is None or context.statement or context.execution_context:
        return
    if connection.closed or connection.invalidated:
        return
    pooled = connection.connection
    if in_transaction(pooled.driver_connection):
        with contextlib.suppress(sqlite3.Error):
            pooled.rollback()


def _roll_back_first(dbapi: Any) -> None:
    """Undo a connection's transaction before SQLAlchemy, giving the connection up, closes it.

    While a cursor with unread rows is alive, as the frames of a cancelled call keep it, SQLite
    closes only later; until then the transaction would stay open and the file locked.
    """
    driver = getattr(dbapi, "driver_connection", dbapi)
    if isinstance(driver, sqlite3.Connection):
        with contextlib.suppress(sqlite3.Error):
            driver.rollback()
        return
    # The first step of the coroutine queues the call to the connection's thread, before the
    # close that comes next; nobody waits for its answer.
    rollback = driver.rollback()
    with contextlib.suppress(StopIteration, ValueError, RuntimeError):
        rollback.send(None).add_done_callback(asyncio.Future.exception)
    rollback.close()


def check_in_transaction(connection: Connection) -> None:
    """Refuse to go on when SQLite is no longer in the transaction that SQLAlchemy is in.

    Raises:
        DatabaseError: SQLite rolled it back by itself, or somebody ended it behind its back.

    """
    driver = connection.connection.driver_connection
    if not in_transaction(driver) and not is_autocommit(connection):
        raise no_transaction()


def is_autocommit(connection: Connection) -> bool:
    """Whether SQLAlchemy was told that each statement on this connection commits by itself."""
    level = connection.get_execution_options().get("isolation_level")
    if level is None:
        # What `create_engine` was told has no other place.
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    return level == "AUTOCOMMIT"


def in_transaction(driver: Any) -> bool:
    """Whether SQLite is in a transaction on a driver's connection; not on a closed one."""
    try:
        return driver is not None and bool(driver.in_transaction)
    except (ValueError, sqlite3.ProgrammingError):
        return False


def no_transaction() -> DatabaseError:
    """What is said when a transaction has vanished."""
    return DatabaseError(
        "this transaction is no longer there: SQLite rolled it back after an error, or it was "
        "ended on its connection; nothing more is done in it, begin another one"
    )


def set_up(dbapi: DBAPIConnection, record: ConnectionPoolEntry, synchronous: Synchronous) -> None:
    """Make a new connection of a pool one that begins nothing by itself; note its file."""
    dbapi.isolation_level = None
    cursor: Any = dbapi.cursor()
    try:
        cursor.execute("PRAGMA busy_timeout=0")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        file = record.info[FILE] = database_file(cursor)
        record.info[_KEY] = opened(file)
    finally:
        cursor.close()


def _sync_engine(engine: Engine | AsyncEngine) -> Engine:
    return engine.sync_engine if isinstance(engine, AsyncEngine) else engine


def _wait_by_itself(connection: Connection, seconds: float) -> None:
    """Let SQLite itself wait for the lock: where there is no transaction, nobody else does."""
    if connection.info.get(_WAIT, 0) != seconds:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={int(seconds * 1000)}")
        connection.info[_WAIT] = seconds


def _take_from_driver(connection: Connection) -> None:
    """Setting an isolation level turns the driver's own transactions on again."""
    dbapi: Any = connection.connection.dbapi_connection
    if dbapi is not None and dbapi.isolation_level is not None:
        dbapi.isolation_level = None


def _begin_immediate(connection: Connection, busy_timeout: float, streak: Streak) -> None:
    patience = Patience(busy_timeout)
    while True:
        if pause := streak.pause(time.monotonic()):
            _sleep(connection, pause)
        try:
            connection.exec_driver_sql(BEGIN)
        except exc.DBAPIError as error:
            pause = patience.after(error)
        else:
            streak.take(time.monotonic())
            return
        _sleep(connection, pause)


def _sleep(connection: Connection, seconds: float) -> None:
    if connection.dialect.is_async:
        await_only(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)
