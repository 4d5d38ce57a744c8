"""Wakes of channels and queues, and the timer that notices when a job comes due."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from alkstore_core.errors import AlkstoreError, Closed
from alkstore_core.hub import Hub
from alkstore_core.names import RECONNECTED
from alkstore_core.receiving import Receiver
from alkstore_core.spi import Fired, Topic
from alkstore_core.values import Wake

if TYPE_CHECKING:
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Subscription
    from alkstore_core.stop import StopToken

_log = logging.getLogger(__name__)

ASK_AGAIN: Final = 1.0
"""Jobs may come due without any wake (another store's lapsed claim): ask once a second."""

ASK_AT_MOST: Final = 0.02
"""Seconds after a wake until we ask. Due times are whole seconds: a burst of wakes need not ask the
database for each of them."""


@final
class WakeReceiver(Receiver):
    """Wakes of one channel or queue: "something changed, read again".

    Wakes are hints: several commits may make one, and one may come twice. A wake never comes
    before what it announces can be read. Memory is constant, read or not.
    """

    __slots__ = ("_channel",)

    def __init__(
        self,
        runtime: Runtime,
        subscription: Subscription,
        stop: StopToken | None,
        channel: str,
    ) -> None:
        self._channel = channel
        super().__init__(runtime, subscription, stop)

    async def recv(self) -> Wake | None:
        """Wait for a wake; `None` once the receiver has ended. A cancelled wait loses nothing.

        After a lost connection was restored, a wake's channel is
        `__alkstore_listener_reconnected__`: read again, whatever you wait for.
        """
        self._runtime.check_home()
        if self._ended:
            return None
        fired = await self._subscription.wait()
        if fired is Fired.SIGNALLED:
            return Wake(channel=self._channel)
        if fired is Fired.RECONNECTED:
            return Wake(channel=RECONNECTED)
        self.end()
        return None

    def __aiter__(self) -> WakeReceiver:
        return self

    async def __anext__(self) -> Wake:
        wake = await self.recv()
        if wake is None:
            raise StopAsyncIteration
        return wake


class QueueWakes(Hub):
    """A store's queue receivers: the engine's signals and due times, merged.

    Per waited queue one task forwards the engine's signals; one task for all asks when the
    nearest job comes due. Both live only while somebody waits.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime
        self._forwarders: dict[Topic, asyncio.Task[None]] = {}
        self._timer: asyncio.Task[None] | None = None
        self._nudge: asyncio.Future[None] | None = None
        self._nudged = False

    async def attach_queue(self, name: str) -> Subscription:
        """Attach to a queue: its commits from now on, and its due times."""
        topic = Topic("queue", name)
        subscription = self.attach(topic)
        try:
            if topic not in self._forwarders:
                source = await self._runtime.engine.signals.subscribe(topic)
                self._forward(topic, source)
        except BaseException:
            subscription.close()
            raise
        self._ask_now()
        return subscription

    def announce(self, topic: Topic, fired: Fired) -> None:
        """Pass a signal on to one queue's receivers."""
        for reference in tuple(self._topics.get(topic, {}).values()):
            subscription = reference()
            if subscription is None:
                continue
            if fired is Fired.CLOSED:
                subscription.close()
            else:
                subscription.fire(fired, None)

    def changed(self) -> None:
        """Stop what nobody waits for any more."""
        for topic in [t for t in self._forwarders if t not in self._topics]:
            self._forwarders.pop(topic).cancel()
        if not self._forwarders and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forward(self, topic: Topic, source: Subscription) -> None:
        # Meanwhile another receiver may have made one, or the last receiver may have left.
        if topic in self._forwarders or topic not in self._topics:
            source.close()
            return
        loop = asyncio.get_running_loop()
        forwarder = self._forwarders[topic] = loop.create_task(self._run_forwarder(topic, source))

        def forwarded(_: asyncio.Task[None]) -> None:
            source.close()
            if self._forwarders.get(topic) is forwarder:
                # Somebody else has cancelled it: its receivers end, and the next has another.
                del self._forwarders[topic]
                self.announce(topic, Fired.CLOSED)

        forwarder.add_done_callback(forwarded)
        if self._timer is None:
            self._begin_timer()

    async def _run_forwarder(self, topic: Topic, source: Subscription) -> None:
        while (fired := await source.wait()) is not Fired.CLOSED:
            self.announce(topic, fired)
            self._ask_now()

    def _begin_timer(self) -> None:
        timer = self._timer = asyncio.get_running_loop().create_task(self._run_timer())

        def ended(_: asyncio.Task[None]) -> None:
            if self._timer is timer:
                # As of a forwarder, for everybody.
                self._timer = None
                for topic in tuple(self._forwarders):
                    self.announce(topic, Fired.CLOSED)

        timer.add_done_callback(ended)

    def _ask_now(self) -> None:
        self._nudged = True
        if self._nudge is not None:
            _set(self._nudge)

    async def _run_timer(self) -> None:
        failed = False
        loop = asyncio.get_running_loop()
        while True:
            asked, mark = loop.time(), self._runtime.mark()
            self._nudged = False
            pause: int | None = None
            try:
                pause = await self._ask()
                failed = False
            except Closed:
                return
            except AlkstoreError as error:
                if not failed:
                    _log.warning("cannot ask for due jobs, trying again: %s", error)
                failed = True
            await self._pause(mark, pause)
            # Whoever was woken is about to claim, and would have to share the database with us.
            awaited = ASK_AT_MOST if self._nudged else asked + ASK_AT_MOST - loop.time()
            await asyncio.sleep(awaited)

    async def _ask(self) -> int | None:
        """Wake the queues where something is due; seconds until the next one is."""
        due = await self._runtime.session().next_due([topic.name for topic in self._topics])
        for name, seconds in due.items():
            if seconds <= 0:
                self.announce(Topic("queue", name), Fired.SIGNALLED)
        return min((seconds for seconds in due.values() if seconds > 0), default=None)

    async def _pause(self, mark: float, seconds: int | None) -> None:
        """Until the engine's time has moved so far, a wake, or a second at most."""
        if self._nudged:
            return
        loop = asyncio.get_running_loop()
        nudge = self._nudge = loop.create_future()
        alarm = loop.call_later(ASK_AGAIN, _set, nudge)
        sleeper = None
        if seconds is not None:
            sleeper = loop.create_task(self._runtime.sleep_since(mark, seconds))
            sleeper.add_done_callback(lambda _: _set(nudge))
        try:
            await nudge
        finally:
            self._nudge = None
            alarm.cancel()
            if sleeper is not None:
                sleeper.cancel()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
