"""Steps: receivers of wakes and events. After a commit they wake; before it they must not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from attrs import define, field
from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.actors import Answer, attempt, settled
from alkstore_contract.machine.calls import Call, Client, raised, value_of
from alkstore_contract.machine.compare import expected, same_event
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_contract.machine.streaming import CONSUMERS, STREAMS, Streaming, consumers, streams
from alkstore_contract.machine.transacting import CHANNELS
from alkstore_contract.model.wakes import Listener, Subscriber
from alkstore_contract.pending import turns
from alkstore_core import PayloadTooLarge, StopToken

if TYPE_CHECKING:
    from alkstore_contract.model.jobs import Job

RECEIVERS = 6


def _some(machine: Waking) -> bool:
    return bool(machine.receivers)


@define(eq=False)
class Receiving:
    """A receiver, and what it may expect."""

    client: Client
    receiver: Any
    text: str
    channel: str
    expects: Listener | Subscriber
    eager: bool = False
    """Whether it is read after each commit, so that no wake stands in for another."""

    stop: StopToken = field(factory=StopToken)
    """Ends it, like `close`."""

    knows: set[int] = field(factory=set)
    """The jobs whose time its store was told of, so that it wakes as soon as they come due."""

    ended: bool = False


class Waking(Streaming):
    """Everything about receivers."""

    def __init__(self) -> None:
        self.receivers: dict[int, Receiving] = {}
        self.touched: set[str] = set()
        super().__init__()

    @step(actor=who, client=where, channel=st.integers(0, 1), large=st.booleans())
    def notify(self, actor: int, client: int, channel: int, *, large: bool) -> None:
        """A channel is notified."""
        at, name, limit = self.clients[client], CHANNELS[channel], self.facts.notify_limit
        holder = self.holder()
        if holder is not None and holder.client is not at:
            # A signal is no row: whether it waits for another store's transaction is open.
            return
        # A string of so many letters takes two bytes more.
        payload = "x" * ((limit or 10_000) - 1) if large else {"hint": 1}
        refused = large and limit is not None

        def judge(answer: Answer) -> str:
            if refused:
                return raised(answer, PayloadTooLarge)
            expected(value_of(answer), None)
            self.notified(name)
            return "done"

        text = f"notify({name!r}{', a large payload' * large})"
        work = lambda: at.store.notify(name, payload)  # noqa: E731 - as all the others
        self.do(Call(actor, at, text, work, judge, writes=not refused))

    # -- attaching ------------------------------------------------------------------------

    @step(client=where, channel=st.integers(0, 1), eager=st.booleans())
    def listen(self, client: int, channel: int, *, eager: bool) -> None:
        """A receiver is attached to a channel."""
        at, name = self.clients[client], CHANNELS[channel]
        listener = Listener(name, None)
        self._attach(
            at,
            f"listen({name!r})",
            name,
            lambda stop: at.store.listen(name, stop),
            listener,
            eager=eager,
        )

    @step(2, client=where, name=sources.names, eager=st.sampled_from([True, True, True, False]))
    def wakes(self, client: int, name: int, *, eager: bool) -> None:
        """A receiver is attached to a queue."""
        at, queue = self.clients[client], sources.NAMES[name]
        source = sources.source(at.store, queue)
        listener = Listener(None, queue)
        # A queue with a past may have something due, or a wake of its past that comes late.
        listener.possible = queue in self.touched
        self._attach(at, f"{queue!r} wakes()", source.name, source.wakes, listener, eager=eager)

    def _attach(
        self, at: Client, text: str, channel: str, attach: Any, listener: Listener, *, eager: bool
    ) -> None:
        stop = StopToken()

        async def attached() -> Any:
            return await attach(stop)

        self.say(f"store {at.number}: {text}{', to be read after each commit' * eager}")
        receiver = self.look(attached, text)
        knows = {job.id for job in self.model.queues.live.values()}
        self._keep(Receiving(at, receiver, text, channel, listener, eager, stop, knows))

    @step(client=where, stream=streams, consumer=consumers)
    def subscribe(self, client: int, stream: int, consumer: int) -> None:
        """A consumer subscribes to a stream."""
        at, name, reader = self.clients[client], STREAMS[stream], CONSUMERS[consumer]
        text = f"{name!r} subscribe({reader!r})"

        stop = StopToken()

        async def attached() -> Any:
            return await at.store.stream(name).subscribe(reader, stop)

        self.say(f"store {at.number}: {text}")
        receiver = self.look(attached, text)
        expects = Subscriber(name, reader, self.model.streams.position(name, reader))
        self._keep(Receiving(at, receiver, text, "", expects, stop=stop))

    def _keep(self, receiving: Receiving) -> None:
        self.keep(self.receivers, receiving, RECEIVERS)
        self.add(f"receiver {self.counter}")

    # -- what happens ---------------------------------------------------------------------

    def notified(self, channel: str) -> None:
        """A channel was notified."""
        for number, receiving, listener in self._listeners():
            if listener.channel == channel:
                listener.notified()
                self._read_eagerly(number, receiving, listener)

    def work_came(self, jobs: list[Job], by: Client | None) -> None:
        """Jobs have become pending."""
        for queue in {job.queue for job in jobs}:
            self.touched.add(queue)
            mine = [job for job in jobs if job.queue == queue]
            for number, receiving, listener in self._listeners():
                if listener.queue == queue:
                    listener.told_of(self.now, mine)
                    if receiving.client is by:
                        receiving.knows |= {job.id for job in mine}
                    self._read_eagerly(number, receiving, listener)

    def time_passed(self, before: int) -> None:
        """Delayed jobs have come due."""
        super().time_passed(before)
        came_due = [j for j in self.model.queues.live.values() if before < j.run_at <= self.now]
        for number, receiving, listener in self._listeners():
            mine = [job for job in came_due if job.queue == listener.queue]
            if mine:
                listener.told_of(self.now, [job for job in mine if job.id in receiving.knows])
                self._read_eagerly(number, receiving, listener)

    def _listeners(self) -> list[tuple[int, Receiving, Listener]]:
        return [
            (number, receiving, receiving.expects)
            for number, receiving in self.receivers.items()
            if isinstance(receiving.expects, Listener)
        ]

    def _read_eagerly(self, number: int, receiving: Receiving, listener: Listener) -> None:
        if self.waiting is not None:
            # What waited for this commit may be done by now, and one wake tells of both.
            return
        usable = receiving.eager and not receiving.ended and not receiving.client.closed
        if usable and listener.owed(self.now, self.model.queues.live):
            self._wake(receiving, listener)
            self.add(f"(a wake of receiver {number})")

    # -- receiving ------------------------------------------------------------------------

    @step(4, when=_some, number=which)
    def recv(self, number: int) -> None:
        """A receiver is asked for what it has."""
        receiving = self.pick(self.receivers, number)
        if receiving is None:
            return
        self.say(f"store {receiving.client.number}: {receiving.text}, recv()")
        if receiving.ended or receiving.client.closed:
            expected(self.look(receiving.receiver.recv, "recv()"), None, "an ended receiver")
            self.add("nothing, it has ended")
        elif isinstance(receiving.expects, Listener):
            self.add(self._wake(receiving, receiving.expects))
        else:
            self.add(self._event(receiving, receiving.expects))

    def _wake(self, receiving: Receiving, listener: Listener) -> str:
        owed = listener.owed(self.now, self.model.queues.live)
        wake = self.run(self._receive(receiving.receiver, wait=owed))
        if wake is None:
            return "nothing yet"
        if not listener.possible:
            raise UnmetError(f"expected no wake before a commit, got {wake.value!r}")
        expected(value_of(wake).channel, receiving.channel, "the wake's channel")
        listener.woke()
        return "a wake"

    def _event(self, receiving: Receiving, subscriber: Subscriber) -> str:
        stream, position = subscriber.stream, subscriber.position
        following = self.model.streams.read(stream, position, 1)
        # What was trimmed may have been read before.
        trimmed = [e for e in self.model.streams.trimmed.get(stream, []) if e.offset > position]
        wait = bool(following) and not self.unsettled(stream)
        got = self.run(self._receive(receiving.receiver, wait=wait))
        if got is None:
            return "nothing yet"
        event = value_of(got)
        allowed = {e.offset: e for e in trimmed if not following or e.offset < following[0].offset}
        allowed |= {e.offset: e for e in following}
        if event is None or event.offset not in allowed:
            offset = None if event is None else event.offset
            raise UnmetError(f"expected offset {' or '.join(map(str, allowed))}, got {offset}")
        same_event(event, allowed[event.offset])
        subscriber.position = subscriber.given = event.offset
        return f"offset {event.offset}"

    @staticmethod
    async def _receive(receiver: Any, *, wait: bool) -> Answer | None:
        task = asyncio.ensure_future(attempt(receiver.recv))
        if wait:
            return await settled(task, "recv()")
        await turns()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait((task,))
        return None

    @step(when=_some, actor=who, number=which)
    def save(self, actor: int, number: int) -> None:
        """A subscription saves what it gave last."""
        receiving = self.pick(self.receivers, number)
        if receiving is None or receiving.client.closed:
            return
        subscriber, receiver = receiving.expects, receiving.receiver
        if not isinstance(subscriber, Subscriber) or subscriber.given is None:
            return
        stream, consumer, given = subscriber.stream, subscriber.consumer, subscriber.given
        if self.being_saved(stream, consumer):
            return

        def judge(answer: Answer) -> str:
            expected(value_of(answer), None)
            self.model.streams.save(stream, consumer, given)
            return f"at {self.model.streams.position(stream, consumer)}"

        text = f"{receiving.text}, save_offset()"
        self.do(Call(actor, receiving.client, text, receiver.save_offset, judge))

    @step(when=lambda m: len(m.receivers) > RECEIVERS // 2, number=which, stops=st.booleans())
    def close_receiver(self, number: int, *, stops: bool) -> None:
        """A receiver is closed, or its token is stopped."""
        receiving = self.pick(self.receivers, number)
        if receiving is None or receiving.client.closed or receiving.ended:
            return
        how = "stop()" if stops else "close()"
        self.say(f"store {receiving.client.number}: {receiving.text}, {how}")
        receiving.ended = True
        if not stops:
            self.look(receiving.receiver.close, how)
            return
        receiving.stop.stop()
        # A token may be stopped in any thread: the end comes soon, and it comes.
        while self.look(receiving.receiver.recv, "recv()") is not None:
            pass
        self.add("ended")
