"""Connections out of SQLAlchemy's pool: checked out, judged, and given back clean or not at all."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

import asyncpg
from sqlalchemy import Engine, exc
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from alkstore_core import DatabaseError
from alkstore_core.errors import AlkstoreError
from alkstore_core.spi import APART
from alkstore_core.sql.dbapi import Fault
from alkstore_core.sql.faults import reason
from alkstore_postgres.servers import STANDBY, Servers, UnfitError, is_standby
from alkstore_postgres.urls import application_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.pool import PoolProxiedConnection, QueuePool

    from alkstore_postgres.opts import PostgresOpts

_log = logging.getLogger(__name__)

READ_COMMITTED: Final = "read committed"
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"

# One round trip. In a transaction that the caller's statements share they are planned as ever.
BEGIN_SHARED: Final = f"{BEGIN}; SET LOCAL plan_cache_mode = auto; SET LOCAL enable_seqscan = on"

GRACE: Final = 5.0
"""Seconds beyond the server's own time-out until a connection that says nothing is given up."""

NAME: Final = "alkstore"
"""What sessions are called, unless a URL says otherwise."""

LINGER: Final = 5.0
"""Seconds for which connections that were given back are at hand for the next calls."""

_ISOLATION: Final = "alkstore_postgres_isolation"

# Read-only after a failover, and a server that shuts down or starts: the connection is no use.
_DEAD_STATES: Final = frozenset({"25006", "57P01", "57P02", "57P03", "57P05"})

# The last one: asyncpg itself does not know any more where the conversation stands.
_LOST: Final = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)

# What it says before it writes anything.
_NOT_BEGUN: Final = "cannot switch to state"

# The whole transaction is undone, and nobody is to blame: it may run once more.
_AGAIN_STATES: Final = frozenset({"40001", "40P01"})


def own_engine(url: str, opts: PostgresOpts) -> AsyncEngine:
    """A pool of our own, which says itself what our statements count on."""
    settings = {}
    if application_name(url) is None:
        settings["application_name"] = NAME
    options: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    if opts.pgbouncer:
        options["statement_cache_size"] = 0
        arguments["prepared_statement_cache_size"] = 0
        arguments["prepared_statement_name_func"] = str
    else:
        settings["default_transaction_isolation"] = READ_COMMITTED
        # The plans of our statements do not depend on their parameters; making them anew each
        # time is a quarter of a claim.
        settings["plan_cache_mode"] = "force_generic_plan"
        # A plan outlives the size of the table that it was made for: one that reads a table of
        # ten jobs from end to end would be kept until some vacuum, while a million come in.
        settings["enable_seqscan"] = "off"
        # What has no index to go by looks expensive then, and would be compiled.
        settings["jit"] = "off"
        settings["statement_timeout"] = str(max(int(opts.statement_timeout * 1000), 1))
    # What a pooler tells of its servers may be of the day before.
    servers = Servers(
        url,
        timeout=opts.connect_timeout,
        judge=not opts.pgbouncer,
        server_settings=settings,
        **options,
    )
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=servers.connect,
        connect_args=arguments,
        pool_size=opts.pool_size,
        max_overflow=0,
        pool_timeout=opts.pool_timeout,
        # Nothing is left to reset: a connection comes back outside of transactions only.
        pool_reset_on_return=None,
    )


def judge(error: BaseException | None) -> Fault:
    """What an error means for the connection it came from. Sees through SQLAlchemy's wrapping."""
    seen = error
    known: list[BaseException] = []
    # A driver may well raise an error from itself.
    while seen is not None and seen not in known:
        known.append(seen)
        state: str | None = getattr(seen, "sqlstate", None)
        if state is not None:
            if state in _AGAIN_STATES:
                return Fault.BUSY
            dead = state in _DEAD_STATES or state.startswith("08")
            return Fault.CONNECTION if dead else Fault.STATEMENT
        if isinstance(seen, _LOST):
            return Fault.CONNECTION
        seen = getattr(seen, "orig", None) or seen.__cause__
    return Fault.STATEMENT


def forgot(error: BaseException) -> bool:
    """Whether the server knows a connection's prepared statements no more.

    Somebody said DEALLOCATE ALL or DISCARD ALL on it. The statement did not run, and nor would any
    other that asyncpg remembers of this connection.
    """
    return isinstance(error, asyncpg.InvalidSQLStatementNameError)


def unsent(error: BaseException) -> bool:
    """Whether asyncpg did not even begin: the server has said goodbye and not hung up yet."""
    return isinstance(error, asyncpg.InternalClientError) and str(error).startswith(_NOT_BEGUN)


class Lease:
    """A connection for one piece of work."""

    __slots__ = ("_direct", "_fairy", "_keep", "bare", "raw")

    def __init__(
        self,
        fairy: PoolProxiedConnection,
        *,
        direct: bool,
        keep: Callable[[Lease], bool] | None = None,
    ) -> None:
        """Prepare. `keep` may take it over when it is given back."""
        self._fairy = fairy
        self._direct = direct
        self._keep = keep
        self.raw: asyncpg.Connection = fairy.driver_connection
        self.bare: bool = False
        """Whether a statement alone is a transaction at READ COMMITTED."""

    @property
    def info(self) -> dict[str, Any]:
        """What is known of this very connection, as long as it lives."""
        info: dict[str, Any] = self._fairy.info
        return info

    async def end_their_transaction(self) -> None:
        """Leave the one that the application began on "connect", and what it did there in force.

        A statement of ours would be a part of it: acknowledged, and never committed.
        """
        if self.raw.is_in_transaction():
            await greenlet_spawn(self._fairy.commit)
        if self.raw.is_in_transaction():
            # Begun past SQLAlchemy by whoever had the connection before.
            await self.raw.execute("ROLLBACK", timeout=GRACE)

    async def give_back(self) -> None:
        """Let others use it, unless something is left open on it.

        What was done on it stays done, so whatever the application's listeners raise here is
        told of and is nobody's failure.
        """
        if self.raw.is_closed() or self.raw.is_in_transaction():
            await self.discard()
            return
        if self._keep is not None and self._keep(self):
            return
        try:
            if self._direct:
                self.put_back()
            else:
                await greenlet_spawn(self._fairy.close)
        except Exception:  # noqa: BLE001 - theirs
            _log.exception("a connection could not be given back to the pool")
            self.raw.terminate()

    def put_back(self) -> None:
        """Into a pool of our own: nothing there has to wait for the server."""
        self._fairy.close()

    async def discard(self) -> None:
        """Close it; what was open on it is undone by that.

        Nor does what the application's listeners raise here hide what became of a call.
        """
        # At once: a peer that says nothing would not say goodbye either.
        self.raw.terminate()
        for step in (self._fairy.invalidate, self._fairy.close):
            try:
                await greenlet_spawn(step)
            except Exception:  # noqa: BLE001 - theirs
                _log.exception("a connection could not be taken out of the pool")


class Connections:
    """The pool: of an engine of our own, or of the application's."""

    def __init__(
        self,
        engine: AsyncEngine,
        opts: PostgresOpts,
        describe: str,
        *,
        own: bool,
        patience: float | None = None,
    ) -> None:
        """Prepare. Without `patience` it is the engine that says how long connecting may take."""
        self.engine = engine
        self._opts = opts
        self._own = own
        self._describe = describe
        self._bare = own and not opts.pgbouncer
        self.patience = patience
        """Seconds until a connection is there or it is an error."""
        self._apart: AsyncEngine | None = None
        self._at_hand: list[Lease] = []
        self._end_of_lingering: asyncio.TimerHandle | None = None

    @property
    def begin(self) -> str:
        """What begins a transaction that the caller's statements share."""
        return BEGIN_SHARED if self._bare else BEGIN

    @property
    def callers_engine(self) -> AsyncEngine:
        """The pool for whoever is calling: a scheduler has one of its own, for one connection.

        Otherwise transactions that hold the pool would cost it its leadership.
        """
        if not APART.get():
            return self.engine
        if self._apart is None:
            sync = self.engine.sync_engine
            # A pool of the same making: with the engine's arguments and events.
            self._apart = AsyncEngine(Engine(sync.pool.recreate(), sync.dialect, sync.url))
        return self._apart

    async def take(self) -> Lease:
        """A connection that works, as far as anybody has heard.

        Raises:
            DatabaseError: none was free in time, or the server cannot be reached.

        """
        if self._at_hand and not APART.get():
            lease = self._at_hand.pop()
        else:
            lease = await self._take()
        # Those that a restarted server has hung up on are all known to be closed.
        while lease.raw.is_closed():
            await lease.discard()
            lease = await self._take()
        if self._bare:
            lease.bare = True
            return lease
        try:
            await lease.end_their_transaction()
            if not self._opts.pgbouncer:
                lease.bare = await self._isolation(lease) == READ_COMMITTED
        except BaseException as error:
            await lease.discard()
            if isinstance(error, Exception):
                raise self.unreachable(error) from error
            raise
        return lease

    def make_room(self) -> None:
        """Leave a connection to whoever goes to the pool himself, if one is at hand."""
        pool = cast("QueuePool", self.engine.sync_engine.pool)
        if self._at_hand and pool.checkedout() >= pool.size():
            self._at_hand.pop().put_back()

    async def close(self) -> None:
        """Close every connection of ours."""
        if self._end_of_lingering is not None:
            self._end_of_lingering.cancel()
            self._stop_lingering()
        if self._apart is not None:
            await self._apart.dispose()
        if self._own:
            await self.engine.dispose()

    def leads_nowhere(self, raw: asyncpg.Connection) -> bool:
        """Whether the application's engine has led to a standby: a reader would miss events.

        Our own connects to none.
        """
        return not self._own and not self._opts.pgbouncer and is_standby(raw)

    def unreachable(self, error: BaseException) -> DatabaseError:
        """Nothing was done: there was no connection to do it on."""
        told = reason(error) or "no answer in time"
        return DatabaseError(f"cannot connect to the {self._describe}: {told}")

    def exhausted(self, error: BaseException) -> DatabaseError:
        """Nothing was done: all connections were in use for too long."""
        message = (
            f"no connection to the {self._describe} became free in time: all of them are in use, "
            "by open transactions or by many calls; end transactions sooner, or raise pool_size "
            "or pool_timeout"
        )
        failure = DatabaseError(message)
        failure.__cause__ = error
        return failure

    async def _take(self) -> Lease:
        engine = self.callers_engine
        keep = self._keep if self._bare and engine is self.engine else None
        try:
            # What is asked on a new connection has no time-out of its own.
            async with asyncio.timeout(self.patience):
                fairy = await greenlet_spawn(engine.sync_engine.pool.connect)
            lease = Lease(fairy, direct=self._own, keep=keep)
        except AlkstoreError:
            raise
        except exc.TimeoutError as error:
            raise self.exhausted(error) from error
        except Exception as error:
            # Of the driver, of SQLAlchemy's layer above it, or of what the application does there.
            raise self.unreachable(error) from error
        if self.leads_nowhere(lease.raw):
            await lease.discard()
            raise self.unreachable(UnfitError(STANDBY))
        return lease

    def _keep(self, lease: Lease) -> bool:
        """Hold on to it for a while, unless somebody may be waiting for it.

        Whoever calls again soon, as most do, is spared the way through the pool, which costs as
        much as the driver itself.
        """
        pool = cast("QueuePool", self.engine.sync_engine.pool)
        if pool.checkedout() >= pool.size():
            return False
        self._at_hand.append(lease)
        if self._end_of_lingering is None:
            loop = asyncio.get_running_loop()
            self._end_of_lingering = loop.call_later(LINGER, self._stop_lingering)
        return True

    def _stop_lingering(self) -> None:
        self._end_of_lingering = None
        leases, self._at_hand = self._at_hand, []
        for lease in leases:
            lease.put_back()

    async def _isolation(self, lease: Lease) -> str:
        """The default of this physical connection, asked for once."""
        known: str | None = lease.info.get(_ISOLATION)
        if known is None:
            known = await lease.raw.fetchval("SHOW default_transaction_isolation", timeout=GRACE)
            lease.info[_ISOLATION] = known
        return known
