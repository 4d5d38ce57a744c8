"""In-process wakes: a `Signals` an engine can fire. Lives on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING

from alkstore_core.spi import Fired, Signals, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from alkstore_core.spi import Topic


class HubSubscription(Subscription):
    """A pending flag and at most one future per waiting task."""

    def __init__(
        self, mark: int, on_close: Callable[[], None], on_loss: Callable[[], None]
    ) -> None:
        self._mark = mark
        self._on_close = on_close
        self._pending: Fired | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._finalizer = weakref.finalize(self, on_loss)
        self._finalizer.atexit = False

    def fire(self, fired: Fired, mark: int | None) -> None:
        """Note a signal. A `mark` that was already seen is one commit reported twice."""
        if mark is not None:
            if mark <= self._mark:
                return
            self._mark = mark
        # A reconnect is announced even when an ordinary signal follows before anybody looked.
        if self._pending is None or self._pending is Fired.SIGNALLED:
            self._pending = fired
        self._release()

    def forget_until(self, mark: int) -> None:
        """Signals up to `mark` happened before this subscription: drop a pending one of them."""
        if self._mark <= mark:
            self._mark = mark
            if self._pending is Fired.SIGNALLED:
                self._pending = None

    async def wait(self) -> Fired:
        """Return the pending signal, or wait for one."""
        while self._pending is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        fired = self._pending
        if fired is not Fired.CLOSED:
            self._pending = None
        return fired

    def close(self) -> None:
        """End for ever."""
        self._pending = Fired.CLOSED
        if self._finalizer.detach() is not None:
            self._on_close()
        self._release()

    def _release(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class Hub(Signals):
    """Topic → subscriptions. A subscription that is lost without `close` leaves by itself."""

    def __init__(self) -> None:
        self._topics: dict[Topic, dict[int, weakref.ref[HubSubscription]]] = {}
        self._next = 0
        self._closed = False

    @property
    def topics(self) -> Iterable[Topic]:
        """The topics somebody waits for."""
        return self._topics.keys()

    async def subscribe(self, topic: Topic) -> Subscription:
        """Attach to a topic, from now on."""
        return self.attach(topic)

    def attach(self, topic: Topic, mark: int = 0) -> HubSubscription:
        """Attach to a topic; signals whose mark is not above `mark` are old news."""
        self._next += 1
        number = self._next
        loop = asyncio.get_running_loop()

        def detach() -> None:
            self._detach(topic, number)

        def detach_soon() -> None:
            # The collector runs in whichever thread it pleases, also after the loop is gone.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(detach)

        subscription = HubSubscription(mark, detach, detach_soon)
        if self._closed:
            subscription.close()
        else:
            self._topics.setdefault(topic, {})[number] = weakref.ref(subscription)
            self.changed()
        return subscription

    def fire(self, topic: Topic, mark: int | None = None) -> None:
        """Wake a topic's subscriptions."""
        members = self._topics.get(topic)
        if members is None:
            return
        for reference in tuple(members.values()):
            subscription = reference()
            if subscription is not None:
                subscription.fire(Fired.SIGNALLED, mark)

    def fire_all(self, fired: Fired) -> None:
        """Wake everybody, whatever the topic."""
        for subscription in self._all():
            subscription.fire(fired, None)

    def close(self) -> None:
        """End every subscription, and each later one at once."""
        self._closed = True
        self.close_open()

    def close_open(self) -> None:
        """End every subscription that is open now."""
        for subscription in self._all():
            subscription.close()

    def changed(self) -> None:
        """Called after the set of topics changed; for engines that watch from outside."""

    def _all(self) -> list[HubSubscription]:
        references = [r for topic in self._topics.values() for r in topic.values()]
        return [s for r in references if (s := r()) is not None]

    def _detach(self, topic: Topic, number: int) -> None:
        members = self._topics.get(topic)
        if members is not None and members.pop(number, None) is not None and not members:
            del self._topics[topic]
            self.changed()
