"""Consumers: they follow a stream and run a handler for each event, in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING, Final, Literal

from alkstore_core.errors import Closed, CodecError, DatabaseError
from alkstore_core.names import check_label
from alkstore_core.stop import StopToken
from alkstore_core.worker.alarm import Backoff, until_stopped_or
from alkstore_core.worker.checks import check_options, check_stream
from alkstore_core.worker.doubts import Doubt
from alkstore_core.worker.endings import (
    ACKED,
    LOST,
    RELEASED,
    Attempt,
    Ending,
    Outcome,
    attempt_under_way,
    ends_the_loop,
)
from alkstore_core.worker.event_calls import EventCalls
from alkstore_core.worker.handlers import is_cancelled
from alkstore_core.worker.leases import Lease, lease_name
from alkstore_core.worker.logs import Events
from alkstore_core.worker.offsets import Offsets
from alkstore_core.worker.outcomes import ClaimLost, Fail, PoisonedEvent, Retry
from alkstore_core.worker.runner import Runner, wakes_ended
from alkstore_core.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core.store import Store
    from alkstore_core.streams import EventReceiver, StreamHandle
    from alkstore_core.values import StreamEvent
    from alkstore_core.worker.handlers import Handler, Middleware

_log = logging.getLogger(__name__)

LONGEST_PAUSE_S: Final = 60


class Consumer(Runner):
    """Follows a stream under a consumer's name and runs `handler` for each event, in order.

    Of all that run under one name, in whatever process, one is live, by a lock of `lease`
    seconds; the others stand by. The handler is an `async def`, or a plain function, which runs
    in a thread. By annotation it asks for its payload as any type, for the `StreamEvent`, the
    `Store`, or a `TxHandle`, which decides when the offset is saved:

    * without it: after the handler, each 100 events or each second, and at the end. What was
      handled and not saved when the process dies comes again: at least once.
    * with it, as an `async def`: the handler writes in the open transaction it is given, which
      commits with the offset when it returns. What is written there is written exactly once.

    A handler that raises is called again with the same event, after 1, 2, 4, … 60 s, or as its
    `Retry` says; no later event is handled before. After `max_attempts` tries, or at once when
    it raises `Fail` or `CodecError`, `on_poison` decides: `"stop"` ends the consumer with
    `PoisonedEvent`, `"skip"` logs an error and goes on behind the event. Without `max_attempts`
    it tries for ever. A `DatabaseError`, of the handler or of its commit, counts as a try only if
    one came right before it, and this store takes a write after each of them.

    Once stopped it lets the handler end for `grace` seconds, then cancels it. Its event comes
    again. A plain function cannot be cancelled; like an async one that does not end it is left to
    itself, and whoever stands by waits until the lock has lapsed.

    Raises:
        TypeError: the handler's signature cannot be served, or an option is of another type.
        ValueError: `max_attempts` is below 1, `lease` below 3, `grace` below 0, `on_poison` is
            neither word, or the stream is of another store.
        InvalidName: the stream's or the consumer's name is not legal; `ReservedName` likewise.

    """

    def __init__(
        self,
        store: Store,
        stream: str | StreamHandle,
        name: str,
        handler: Handler,
        *,
        max_attempts: int | None = None,
        on_poison: Literal["stop", "skip"] = "stop",
        lease: int = 30,
        grace: float = 30.0,
        middlewares: Iterable[Middleware[StreamEvent]] = (),
    ) -> None:
        super().__init__(store, grace)
        check_options(max_attempts=max_attempts, lease=lease, on_poison=on_poison)
        check_stream(store, stream)
        self._stream = store.stream(stream) if isinstance(stream, str) else stream
        self._name = check_label("consumer", name)
        self._event = Events(stream=self._stream.name, consumer=self._name)
        self._label = f"consumer {name!r} of stream {self._stream.name!r}"
        self._threads = Threads(f"alkstore-{self._stream.name}-{name}")
        self._call = EventCalls(
            store, self._stream, self._name, handler, self._threads, middlewares, self._check_uncut
        )
        self._max_attempts = max_attempts
        self._skips = on_poison == "skip"
        self._lease = Lease(store, lease_name("consumer", self._stream.name, name), lease)
        self._ended = StopToken()
        self._following: asyncio.Task[None] | None = None
        self._cut = False
        self._offsets = Offsets(store, self._stream, self._name, self._label, self._event)

    @property
    def name(self) -> str:
        """The consumer's name."""
        return self._name

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream.name

    @property
    def live(self) -> bool:
        """Whether it is the one that handles events, of all under its name."""
        return self._following is not None and not self._cut

    @property
    def lock(self) -> str:
        """The name of the lock that the live one holds."""
        return self._lease.name

    # -- standing by and leading ----------------------------------------------------------

    async def _work(self) -> None:
        self._help(self._listen())
        backoff = Backoff()
        try:
            while not self._stopping:
                try:
                    # The thread of a handler that was cut may be at an event still.
                    if not self._threads.busy and await self._lease.take():
                        await self._lead()
                    else:
                        # A holder that ends says so; one that dies leaves its lease to lapse.
                        pause = self._lease.seconds / 3
                        await self._alarm.wait(self._store.mark() + pause)
                    backoff.reset()
                except DatabaseError as error:
                    told = self._event("consumer.refused")
                    _log.warning("%s: trying again: %s", self._label, error, extra=told)
                    # Whatever rings: a lease that it gives up rings here, too.
                    await until_stopped_or(self._ended, asyncio.sleep(backoff.take()))
        except (Closed, PoisonedEvent) as error:
            self._break(error)
        finally:
            self._threads.close()
            await self._lease.give_up()

    async def _lead(self) -> None:
        """Follow the stream as long as the lease is ours."""
        tasks = asyncio.get_running_loop()
        self._cut = False
        self._ended = StopToken()
        following = self._following = tasks.create_task(self._follow(self._ended))
        keeping = tasks.create_task(self._lease.keep())
        saving = tasks.create_task(self._offsets.save_in_time())
        if self._stopping:
            self._ended.stop()
        for task in (following, keeping):
            task.add_done_callback(lambda _: self._alarm.ring())
        try:
            while not following.done() and not self._leaving:
                if keeping.done() and not self._cut:
                    self._lose(following, keeping)
                await self._alarm.wait()
        finally:
            keeping.cancel()
            saving.cancel()
            self._following = None
            if not following.done():
                _log.warning(
                    "%s: its handler does not end; it is left behind",
                    self._label,
                    extra=self._event("event.left_running"),
                )
            if self._threads.busy or not following.done():
                # At once: should what follows be cut short, `_work` would give it up.
                self._lease.leave()
        await self._offsets.save()
        await self._lease.give_up()
        if following.done() and not following.cancelled():
            following.result()

    def _lose(self, following: asyncio.Task[None], keeping: asyncio.Task[str]) -> None:
        error = keeping.exception()
        why = keeping.result() if error is None else f"{type(error).__name__}: {error}"
        told = self._event("consumer.lock_lost", reason=why)
        _log.warning("%s: its lock is lost (%s); it stands by", self._label, why, extra=told)
        self._cut = True
        following.cancel(ClaimLost(f"the lock of {self._label}: {why}"))

    def _halt(self) -> None:
        self._ended.stop()

    def _cut_all(self) -> None:
        if self._following is not None and not self._following.done():
            self._cut = True
            self._following.cancel("the grace period is over")

    async def _listen(self) -> None:
        """Hear of holders that end."""
        backoff = Backoff()
        while True:
            try:
                async with self._store.listen(self._lease.name) as wakes:
                    backoff.reset()
                    while await wakes.recv() is not None:
                        self._alarm.ring()
            except DatabaseError as error:
                told = self._event("wakes.refused")
                _log.warning("%s: no wakes, trying again: %s", self._label, error, extra=told)
                await asyncio.sleep(backoff.take())
            else:
                raise wakes_ended(self._label)

    # -- events ---------------------------------------------------------------------------

    async def _follow(self, ended: StopToken) -> None:
        await self._offsets.load()
        async with self._stream.subscribe(self._name, ended) as events:
            while (event := await self._next(events)) is not None:
                # A process that stood still hears of its lost lease later than of the event.
                if self._is_over() or not await self._handle(event):
                    return
            if not self._stopping:
                raise wakes_ended(self._label)

    def _is_over(self) -> bool:
        return self._cut or self._stopping or not self._lease.live

    async def _next(self, events: EventReceiver) -> StreamEvent | None:
        backoff = Backoff()
        while True:
            try:
                return await events.recv()
            except DatabaseError as error:
                told = self._event("stream.refused")
                _log.warning("%s: cannot read, trying again: %s", self._label, error, extra=told)
                await until_stopped_or(self._ended, asyncio.sleep(backoff.take()))

    async def _handle(self, event: StreamEvent) -> bool:
        """Until the event is behind us, or `False` when it is no longer for us to try."""
        attempts = 0
        outage, doubt = Backoff(), Doubt(self._offsets.can_be_saved)
        while True:
            _uncancel()
            number = attempts + 1
            judge = functools.partial(self._ending, number, doubt)
            attempt_under_way.set(Attempt(number, self._name, judge))
            try:
                await self._call(event)
            except BaseException as error:  # also `sys.exit` is a failed try.
                if ends_the_loop(error, self._following):
                    raise
                await _meet_cancellation()
                if self._was_cut(error):
                    return False
                if await doubt.counts(error, called=self._call.called):
                    # A handler may meet other stores; that ours was closed is no event's fault.
                    self._store.check()
                    attempts += 1
                    if self._is_poison(error, attempts):
                        self._poisoned(event, error)
                        return True
                    await self._wait_before_next(event, error, attempts)
                else:
                    told = self._event("event.refused", offset=event.offset)
                    said = (self._label, event.offset, error)
                    _log.warning("%s: offset %d: %s", *said, exc_info=error, extra=told)
                    await until_stopped_or(self._ended, asyncio.sleep(outage.take()))
            else:
                if self._call.in_tx:
                    self._offsets.committed(event.offset)
                else:
                    await self._offsets.handled(event.offset)
                return True
            if self._is_over():
                return False

    def _was_cut(self, error: BaseException) -> bool:
        """Whether it was cut, and raised this for it: then its event has not failed."""
        if self._cut:
            if isinstance(error, asyncio.CancelledError):
                raise error
            _log.warning(
                "%s: its handler raised when it was cut",
                self._label,
                exc_info=error,
                extra=self._event("event.raised_late"),
            )
        return self._cut

    def _check_uncut(self) -> None:
        """Take a return after it was cut for no answer: the handler's work may be half done."""
        if self._cut:
            raise ClaimLost(f"the handler of {self._label} returned after it was cut")

    def _ending(self, attempts: int, doubt: Doubt, error: BaseException | None) -> Ending:
        """What becomes of the event under way if its handler ends now, in this attempt."""
        if self._cut:
            return RELEASED if self._stopping else LOST
        if error is None:
            return ACKED
        if doubt.counts_if_answered(error) and self._is_poison(error, attempts):
            return Ending(outcome=Outcome.DEAD)
        return Ending(outcome=Outcome.RETRIED)

    def _is_poison(self, error: BaseException, attempts: int) -> bool:
        if isinstance(error, (Fail, CodecError)):
            return True
        return self._max_attempts is not None and attempts >= self._max_attempts

    def _poisoned(self, event: StreamEvent, error: BaseException) -> None:
        if not self._skips:
            raise PoisonedEvent(self._stream.name, self._name, event.offset) from error
        told = self._event("event.skipped", offset=event.offset, outcome=str(Outcome.DEAD))
        _log.error("%s: skips offset %d", self._label, event.offset, exc_info=error, extra=told)
        self._offsets.skipped(event.offset)

    async def _wait_before_next(
        self, event: StreamEvent, error: BaseException, attempts: int
    ) -> None:
        pause = min(2 ** min(attempts - 1, 6), LONGEST_PAUSE_S)
        if isinstance(error, Retry) and error.delay is not None:
            pause = max(error.delay, 0)
        _log.warning(
            "%s: offset %d failed (attempt %d), again in %d s",
            *(self._label, event.offset, attempts, pause),
            exc_info=error,
            extra=self._event(
                "event.failed",
                offset=event.offset,
                attempt=attempts,
                outcome=str(Outcome.RETRIED),
                delay_s=pause,
            ),
        )
        until = self._store.mark() + pause
        await until_stopped_or(self._ended, self._store.sleep_until(until))


def _uncancel() -> None:
    """Forget who cancelled this task before: the next handler runs in it, with its own groups."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


async def _meet_cancellation() -> None:
    """Of a handler that cancelled its task and raised something else: no later wait meets it."""
    if is_cancelled():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
