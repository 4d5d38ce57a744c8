"""The store: what an application opens, and where all else comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from alkstore_core import requests, scheduler
from alkstore_core.completion import Attaching
from alkstore_core.copying.mark import MARK
from alkstore_core.integers import check_duration
from alkstore_core.locks import Lock
from alkstore_core.names import RESERVED_PREFIX, backing_queue, check_label, check_name
from alkstore_core.outboxes import Outbox
from alkstore_core.policy.options import PLAIN, OptionResolver
from alkstore_core.queues import Queue
from alkstore_core.runtime import Runtime
from alkstore_core.spi import Topic
from alkstore_core.streams import StreamHandle
from alkstore_core.transactions import BeginTx, Transaction, TxHandle
from alkstore_core.values import Finding
from alkstore_core.wakes import WakeReceiver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from alkstore_core.spi import Engine
    from alkstore_core.stop import StopToken
    from alkstore_core.values import LockInfo, QueueOpts, Schedule, ScheduleOpts

T = TypeVar("T")


class Store:
    """A database with queues, streams, locks, schedules, outboxes and notify in it.

    Constructing opens nothing; `async with store` does, or `open()` and `close()`. One event
    loop of one process uses a store. Calls raise `Closed` while it is not open, except `queue`,
    `stream` and `outbox`; `DatabaseError` when the database refuses, a number is not an i64 or
    this is another loop or a forked child; `InvalidName` and `ReservedName` for names.
    """

    def __init__(self, engine: Engine) -> None:
        self._runtime = Runtime(engine)

    async def open(self) -> None:
        """The store is open; on an open one nothing happens. A failed open can be repeated.

        Raises:
            Closed: it was closed before; construct a new one.

        """
        await self._runtime.open()

    async def close(self) -> None:
        """Receivers have ended, open transactions are rolled back, everything is given back.

        Idempotent. Every later call raises `Closed`.
        """
        await self._runtime.close()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since; readable from any thread."""
        return self._runtime.is_open

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- mechanisms -----------------------------------------------------------------------

    def queue(self, name: str, opts: QueueOpts | None = None) -> Queue:
        """A queue by name; `opts` are stamped on what this handle enqueues.

        Without them: 300 s visibility, 3 attempts, backoff from 5 s, dead jobs kept for ever.
        """
        resolver = PLAIN if opts is None else OptionResolver(opts)
        return Queue(self._runtime, check_name("queue", name), resolver)

    def stream(self, name: str) -> StreamHandle:
        """A stream by name."""
        return StreamHandle(self._runtime, check_name("stream", name))

    def outbox(self, name: str) -> Outbox:
        """An outbox by name."""
        return Outbox(self._runtime, check_name("outbox", name))

    async def notify(self, channel: str, payload: Any = None) -> None:
        """Receivers of the channel wake; those that attach later never hear of it.

        Raises:
            CodecError: the payload is not JSON.
            PayloadTooLarge: the engine cannot carry it.

        """
        topics = requests.notify(channel, payload, self._runtime.engine.notify_limit)
        if self._runtime.slot.taken:
            await self._runtime.turn("notify", "notify_tx")
        await self._runtime.session().signal(topics)

    def listen(self, channel: str, stop: StopToken | None = None) -> Attaching[WakeReceiver]:
        """Wakes of a channel from now on.

        `await` it or use `async with`; attached when that returns. `stop` ends the receiver.
        """
        name = check_name("channel", channel)

        async def attach() -> WakeReceiver:
            self._runtime.session()
            subscription = await self._runtime.engine.signals.subscribe(Topic("channel", name))
            return WakeReceiver(self._runtime, subscription, stop, name)

        return Attaching(attach)

    async def try_lock(self, name: str, owner: str, ttl: int) -> Lock | None:
        """Take a lock for `ttl` seconds, or `None` when somebody else holds it.

        The current owner gets a handle on the lease it has, which is not refreshed: `renew` it.
        A cancelled call may have taken the lock; it lapses, and the same owner can take it.
        """
        label = check_name("lock", name)
        holder = check_label("owner", owner)
        seconds = check_duration("ttl", ttl)
        if self._runtime.slot.taken:
            await self._runtime.turn("try_lock")
        token = await self._runtime.session().acquire(label, holder, seconds)
        return None if token is None else Lock(self._runtime, label, holder, token)

    # -- transactions ---------------------------------------------------------------------

    def begin_tx(self) -> BeginTx[TxHandle]:
        """A transaction: `await` it, or use `async with`, which rolls back unless committed."""
        return BeginTx(self._runtime, TxHandle)

    def transaction(self) -> Transaction[TxHandle]:
        """`async with`: commits when the block ends well, rolls back when it raises anything."""
        return Transaction(self._runtime, TxHandle)

    async def with_tx(self, f: Callable[[TxHandle], Awaitable[T]]) -> T:
        """Commit what `f` did and return its value; whatever it raises rolls back first."""
        async with self.transaction() as tx:
            return await f(tx)

    # -- schedules ------------------------------------------------------------------------

    async def schedule(
        self,
        name: str,
        spec: str,
        queue: str,
        payload: Any,
        opts: ScheduleOpts | None = None,
    ) -> Schedule:
        """A job goes into `queue` at each boundary of `spec`, as long as somebody runs schedules.

        `spec` is `@every <n><unit>` with s, m, h or d, in elapsed seconds. An existing name is
        updated: with the same spec it keeps its rhythm, with another one it starts anew.

        Raises:
            InvalidSpec: `spec` is not in the grammar.
            CodecError: the payload is not JSON, or the headers are not storable.

        """
        entry = requests.schedule(name, spec, queue, payload, opts)
        if self._runtime.slot.taken:
            await self._runtime.turn("schedule")
        session = self._runtime.session()
        return await session.put_schedule(entry, wake=(requests.SCHEDULES,))

    async def unschedule(self, name: str) -> bool:
        """The schedule is gone; `False` when there was none."""
        label = check_name("schedule", name)
        if self._runtime.slot.taken:
            await self._runtime.turn("unschedule")
        session = self._runtime.session()
        return await session.delete_schedule(label, wake=(requests.SCHEDULES,))

    async def run_schedules(self, stop: StopToken) -> None:
        """Fire schedules until `stop`; of all runners one leads, the others stand by.

        Each boundary fires once, also one that was missed: up to 64 per schedule at a time,
        what lies before them is skipped. Nothing fires without a runner.

        Raises:
            LeadershipLost: the lease (60 s) was lost; nothing was fired after that. Call again.

        """
        await scheduler.run_schedules(self._runtime, stop)

    def check(self) -> None:
        """Raise what any call here and now would raise before it asks the database.

        Raises:
            Closed: the store is not open.
            DatabaseError: this is another event loop or a forked child.

        """
        self._runtime.session()

    # -- time -----------------------------------------------------------------------------

    async def now(self) -> int:
        """The store's time in unix seconds, by which it stamps and judges every deadline.

        Of a server it is the server's clock, and in any case an injected one.

        Raises:
            DatabaseError: the database refused, or this is another event loop.
            Closed: the store is not open.

        """
        self.check()
        return await self._runtime.engine.now()

    def mark(self) -> float:
        """This moment, in seconds, on the time by which the store's deadlines are awaited.

        Only differences mean anything: it is monotonic real time, or that of an injected clock.
        What a claim promises lasts at least that long after a mark taken before the call.
        """
        return self._runtime.mark()

    async def sleep_until(self, mark: float) -> None:
        """Return once `mark()` has come to `mark`; a cancelled wait leaves nothing behind."""
        await self._runtime.sleep_until(mark)

    # -- what is there --------------------------------------------------------------------

    async def schedules(self) -> list[Schedule]:
        """Every schedule, by name."""
        return await self._runtime.session().list_schedules()

    async def queues(self) -> list[str]:
        """The queues that hold a job, dead ones included, by name; not those of outboxes."""
        names = await self._runtime.session().names("queue")
        return sorted(name for name in names if not name.startswith(RESERVED_PREFIX))

    async def outboxes(self) -> list[str]:
        """The outboxes that hold a message, dead ones included, by name."""
        prefix = backing_queue("")
        names = await self._runtime.session().names("queue")
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    async def streams(self) -> list[str]:
        """The streams that hold an event or a consumer's offset, by name."""
        return sorted(await self._runtime.session().names("stream"))

    async def locks(self) -> list[LockInfo]:
        """Every live lease, the scheduler's included, by name."""
        return await self._runtime.session().list_locks()

    async def diagnose(self) -> list[Finding]:
        """What an operator should know about this database; nothing when all is well."""
        self._runtime.session()
        findings = list(await self._runtime.engine.diagnose())
        if any(schedule.name == MARK for schedule in await self.schedules()):
            findings.append(
                Finding(
                    code="copy.unfinished",
                    severity="error",
                    message=(
                        "this database is the target of a copy that is not whole: let "
                        "copy_store finish it, or throw the database away; nobody may use it yet"
                    ),
                )
            )
        return findings
