"""Steps: events are published, read and trimmed, and consumers save where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, raised, value_of
from alkstore_contract.machine.compare import expected, same_events
from alkstore_contract.machine.machine import Machine
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_contract.model.streams import Event
from alkstore_core import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.machine.calls import Client
    from alkstore_contract.model import Database

STREAMS = ("log", "news")
CONSUMERS = ("eve", "sam")

streams: st.SearchStrategy[int] = st.integers(0, len(STREAMS) - 1)
consumers: st.SearchStrategy[int] = st.integers(0, len(CONSUMERS) - 1)
keys: st.SearchStrategy[str | None] = st.sampled_from([None, None, "k", "é"])
headers: st.SearchStrategy[dict[str, str] | None] = st.sampled_from([None, None, {"trace": "x"}])
limits: st.SearchStrategy[int] = st.sampled_from([100, 100, 1, 2, 0, -1])
beside: st.SearchStrategy[int] = st.sampled_from([0, 0, 0, 1, -1])


def _any(machine: Streaming) -> bool:
    return bool(machine.model.streams.highest)


class Streaming(Machine):
    """Everything about streams but subscriptions."""

    @step(
        2,
        actor=who,
        client=where,
        stream=streams,
        key=keys,
        payload=sources.payloads,
        given=headers,
    )
    def publish(
        self,
        actor: int,
        client: int,
        stream: int,
        key: str | None,
        payload: Any,
        given: dict[str, str] | None,
    ) -> None:
        """An event is published."""
        at, name = self.clients[client], STREAMS[stream]
        if self.unsettled(name):
            return
        into = at.store.stream(name)

        sound = sources.sound([payload])

        def judge(answer: Answer) -> str:
            if not sound:
                return raised(answer, CodecError)
            self._published(name, [value_of(answer)], [(key, payload, given)])
            return repr(answer.value)

        words = f"({payload!r}" if key is None else f"_with_key({key!r}, {payload!r}"
        self.do(
            Call(
                actor,
                at,
                f"{name!r} publish{words}, headers={given})",
                (lambda: into.publish(payload, given))
                if key is None
                else (lambda: into.publish_with_key(key, payload, given)),
                judge,
                writes=sound,
            )
        )

    @step(
        actor=who,
        client=where,
        stream=streams,
        payloads=st.lists(sources.payloads, min_size=1, max_size=4),
    )
    def publish_many(self, actor: int, client: int, stream: int, payloads: list[Any]) -> None:
        """Some events are published together."""
        at, name = self.clients[client], STREAMS[stream]
        if self.unsettled(name):
            return
        into = at.store.stream(name)

        sound = sources.sound(payloads)

        def judge(answer: Answer) -> str:
            if not sound:
                return raised(answer, CodecError)
            self._published(name, value_of(answer), [(None, payload, None) for payload in payloads])
            return repr(answer.value)

        text = f"{name!r} publish_many({payloads!r})"
        self.do(Call(actor, at, text, lambda: into.publish_many(payloads), judge, writes=sound))

    def unsettled(self, stream: str) -> bool:
        """Whether several writers could meet in a stream: then who waits is not determined."""
        return not self.facts.single_writer and any(
            stream in tx.wants.published for tx in self.open.values()
        )

    def _published(
        self, stream: str, offsets: Any, entries: Sequence[tuple[Any, Any, Any]]
    ) -> None:
        for event in self.new_events(self.model, stream, offsets, entries):
            self.model.streams.publish(event)

    def new_events(
        self, model: Database, stream: str, offsets: Any, entries: Sequence[tuple[Any, Any, Any]]
    ) -> list[Event]:
        """The events that were published, under the offsets that the store has chosen."""
        expected(len(offsets), len(entries), "how many offsets")
        last = model.streams.highest.get(stream, 0)
        events = []
        for offset, (key, payload, given) in zip(offsets, entries, strict=True):
            expected(type(offset), int, "type of the offset")
            expected(offset > last, True, f"offset {offset} is above {last}, the latest before it")
            last = offset
            encoded = sources.encoded(payload)
            events.append(Event(offset, stream, key, encoded, given, self.now))
        return events

    # -- reading --------------------------------------------------------------------------

    def some_offset(self, stream: str, number: int, shift: int) -> int:
        """An offset of the stream, newest first, or one beside it."""
        events = self.model.streams.events.get(stream, []) + self.model.streams.trimmed.get(
            stream, []
        )
        offsets = sorted(event.offset for event in events)
        return (offsets[-1 - number % len(offsets)] if offsets else 0) + shift

    def visible(self, stream: str, seen: Sequence[Any], wanted: Sequence[Event]) -> None:
        """What was read from outside is what is committed.

        Where several transactions are open, one of them may still commit a lower offset: then
        no reader may be beyond it, and how early readers stop is the engine's choice.
        """
        if not self.unsettled(stream):
            same_events(seen, wanted)
            return
        same_events(seen, wanted[: len(seen)])
        bound = min(min(tx.wants.published.get(stream, [2**63])) for tx in self.open.values())
        for event in seen:
            expected(event.offset < bound, True, f"offset {event.offset}, while {bound} may come")

    @step(
        2,
        when=_any,
        actor=who,
        client=where,
        stream=streams,
        number=which,
        shift=beside,
        limit=limits,
    )
    def read_since(
        self, actor: int, client: int, stream: int, number: int, shift: int, limit: int
    ) -> None:
        """Events after an offset are read."""
        name = STREAMS[stream]
        offset = 0 if number == 0 else self.some_offset(name, number - 1, shift)
        self._read(
            actor,
            self.clients[client],
            name,
            f"read_since({offset}, {limit})",
            lambda handle: handle.read_since(offset, limit),
            lambda: self.model.streams.read(name, offset, limit),
        )

    @step(when=_any, actor=who, client=where, stream=streams, consumer=consumers, limit=limits)
    def read_from(self, actor: int, client: int, stream: int, consumer: int, limit: int) -> None:
        """Events after a consumer's position are read."""
        name, reader = STREAMS[stream], CONSUMERS[consumer]
        self._read(
            actor,
            self.clients[client],
            name,
            f"read_from_consumer({reader!r}, {limit})",
            lambda handle: handle.read_from_consumer(reader, limit),
            lambda: self.model.streams.read(name, self.model.streams.position(name, reader), limit),
        )

    def _read(
        self,
        actor: int,
        at: Client,
        name: str,
        text: str,
        work: Any,
        model: Callable[[], list[Event]],
    ) -> None:
        handle = at.store.stream(name)

        def judge(answer: Answer) -> str:
            self.visible(name, value_of(answer), model())
            return f"{[event.offset for event in answer.value]}"

        self.do(Call(actor, at, f"{name!r} {text}", lambda: work(handle), judge, writes=False))

    @step(when=_any, actor=who, client=where, stream=streams, consumer=consumers)
    def get_offset(self, actor: int, client: int, stream: int, consumer: int) -> None:
        """A consumer's position is asked for."""
        at, name, reader = self.clients[client], STREAMS[stream], CONSUMERS[consumer]
        handle = at.store.stream(name)

        def judge(answer: Answer) -> str:
            expected(value_of(answer), self.model.streams.position(name, reader))
            return repr(answer.value)

        text = f"{name!r} get_offset({reader!r})"
        self.do(Call(actor, at, text, lambda: handle.get_offset(reader), judge, writes=False))

    # -- changing -------------------------------------------------------------------------

    @step(
        2,
        actor=who,
        client=where,
        stream=streams,
        consumer=consumers,
        number=which,
        shift=st.sampled_from([0, 0, 0, 1, -1, -(2**62)]),
    )
    def save_offset(
        self, actor: int, client: int, stream: int, consumer: int, number: int, shift: int
    ) -> None:
        """A consumer saves its position, forward or not."""
        at, name, reader = self.clients[client], STREAMS[stream], CONSUMERS[consumer]
        if self.being_saved(name, reader):
            return
        offset = self.some_offset(name, number, shift)
        handle = at.store.stream(name)

        def judge(answer: Answer) -> str:
            expected(value_of(answer), None)
            self.model.streams.save(name, reader, offset)
            return f"at {self.model.streams.position(name, reader)}"

        text = f"{name!r} save_offset({reader!r}, {offset})"
        self.do(Call(actor, at, text, lambda: handle.save_offset(reader, offset), judge))

    def being_saved(self, stream: str, consumer: str) -> bool:
        """Whether several writers could meet at a consumer's position."""
        return not self.facts.single_writer and any(
            (stream, consumer) in tx.wants.saved for tx in self.open.values()
        )

    @step(2, when=_any, actor=who, client=where, stream=streams, number=which, shift=beside)
    def trim(self, actor: int, client: int, stream: int, number: int, shift: int) -> None:
        """A stream is trimmed."""
        at, name = self.clients[client], STREAMS[stream]
        horizon = self.some_offset(name, number, shift)
        handle = at.store.stream(name)

        def judge(answer: Answer) -> str:
            expected(value_of(answer), self.model.streams.trim(name, horizon))
            return repr(answer.value)

        text = f"{name!r} trim_to({horizon})"
        self.do(Call(actor, at, text, lambda: handle.trim_to(horizon), judge))

    def same_stream(self, client: Client, name: str) -> None:
        """All there is to see of a stream is what the model says."""
        handle = client.store.stream(name)
        told = f"stream {name!r}, "
        wanted = self.model.streams.read(name, -1, 100_000)
        same_events(self.look(lambda: handle.read_since(-1, 100_000), told), wanted, told)
        bounds = self.look(handle.bounds, "bounds()")
        seen = (bounds.first, bounds.last, bounds.count)
        expected(seen, self.model.streams.bounds(name), f"{told}bounds()")
        positions = self.look(handle.consumers, "consumers()")
        expected(
            [(p.stream, p.consumer, p.offset) for p in positions if p.offset],
            [(name, c, offset) for c, offset in sorted(self.model.streams.consumers(name).items())],
            f"{told}consumers()",
        )

    @step(when=_any, client=where, stream=streams)
    def look_at_stream(self, client: int, stream: int) -> None:
        """Everything about a stream is read."""
        if not self.unsettled(STREAMS[stream]):
            self.say(f"store {client}: {STREAMS[stream]!r} read_since(-1), bounds(), consumers()")
            self.same_stream(self.clients[client], STREAMS[stream])
            self.add("as expected")
