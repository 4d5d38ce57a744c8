"""Steps: transactions begin, do things, and are committed, rolled back or dropped."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, Open, raised, value_of
from alkstore_contract.machine.compare import OUTBOX_PREFIX, expected, same_events
from alkstore_contract.machine.enqueuing import Enqueuing
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_contract.machine.streaming import CONSUMERS, STREAMS, Streaming, consumers, streams
from alkstore_contract.model import Transaction
from alkstore_contract.model.jobs import OUTBOX, PLAIN, Options
from alkstore_core import Closed, CodecError, DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.machine.calls import Client
    from alkstore_contract.model import Database

CHANNELS = ("bell", "horn")
OPEN = 2
"""How many transactions are open at once, where several can be."""


def _some_open(machine: Transacting) -> bool:
    return bool(machine.open)


@frozen
class Inside:
    """A call in a transaction."""

    text: str
    work: Callable[[Any], Awaitable[Any]]
    judge: Callable[[Transaction, Answer], str]


class Transacting(Enqueuing, Streaming):
    """Everything about transactions of our own."""

    def __init__(self) -> None:
        self.over: tuple[Open, type[Exception]] | None = None
        self.transactions = 0
        super().__init__()

    @step(3, when=lambda m: m.waiting is None, actor=who, client=where)
    def begin_tx(self, actor: int, client: int) -> None:
        """A transaction begins, or waits for its turn to."""
        at = self.clients[client]
        if not self.facts.single_writer and len(self.open) >= OPEN:
            return

        def judge(answer: Answer) -> str:
            handle = value_of(answer)
            self.transactions += 1
            self.counter += 1
            name = f"transaction {self.transactions}"
            self.open[self.counter] = Open(name, actor, at, handle, Transaction())
            return name

        async def begin() -> Any:
            return await at.store.begin_tx()

        self.do(Call(actor, at, "begin_tx()", begin, judge))

    # -- inside ---------------------------------------------------------------------------

    @step(
        2,
        when=_some_open,
        number=which,
        name=sources.names,
        payloads=st.lists(sources.payloads, min_size=1, max_size=3),
        given=sources.some_options,
    )
    def enqueue_tx(self, number: int, name: int, payloads: list[Any], given: Options) -> None:
        """A job, or some, are enqueued in a transaction."""
        self.inside(number, self.enqueuing(sources.NAMES[name], payloads, given))

    def enqueuing(self, queue: str, payloads: list[Any], given: Options) -> Inside:
        """`enqueue_tx`, `enqueue_many_tx` or `outbox_enqueue_tx`."""
        opts = sources.enqueue_opts(given)
        outbox = sources.is_outbox(queue)
        many = len(payloads) > 1 and not outbox
        used = payloads if many else payloads[:1]
        stamps = OUTBOX if outbox else PLAIN

        async def work(tx: Any) -> Any:
            if outbox:
                name = queue.removeprefix(OUTBOX_PREFIX)
                return [await tx.outbox_enqueue_tx(name, payloads[0], opts)]
            if many:
                return await tx.enqueue_many_tx(queue, payloads, opts)
            return [await tx.enqueue_tx(queue, payloads[0], opts)]

        def judge(wants: Transaction, answer: Answer) -> str:
            if not sources.sound(used):
                return raised(answer, CodecError)
            view = wants.seen(self.model)
            for job in self.new_jobs(view, value_of(answer), queue, used, given, stamps):
                wants.enqueue(job)
            return repr(answer.value)

        kind = "outbox_enqueue" if outbox else f"enqueue{'_many' * many}"
        words = f"{payloads!r}" if many else f"{payloads[0]!r}"
        return Inside(f"{kind}_tx({queue!r}, {words}{sources.told(given)})", work, judge)

    @step(
        2,
        when=_some_open,
        number=which,
        stream=streams,
        key=st.sampled_from([None, None, "k"]),
        payloads=st.lists(sources.payloads, min_size=1, max_size=3),
    )
    def publish_tx(self, number: int, stream: int, key: str | None, payloads: list[Any]) -> None:
        """An event, or some, are published in a transaction."""
        name = STREAMS[stream]
        if not self.unsettled(name) or self._own(number, name):
            self.inside(number, self.publishing(name, key, payloads))

    def _own(self, number: int, stream: str) -> bool:
        tx = self.pick(self.open, number)
        return tx is not None and stream in tx.wants.published

    def publishing(self, stream: str, key: str | None, payloads: list[Any]) -> Inside:
        """`publish_tx`, `publish_with_key_tx` or `publish_many_tx`."""
        many = len(payloads) > 1
        shared = None if many else key

        async def work(tx: Any) -> Any:
            if many:
                return await tx.publish_many_tx(stream, payloads)
            if key is None:
                return [await tx.publish_tx(stream, payloads[0])]
            return [await tx.publish_with_key_tx(stream, key, payloads[0])]

        def judge(wants: Transaction, answer: Answer) -> str:
            if not sources.sound(payloads if many else payloads[:1]):
                return raised(answer, CodecError)
            view = wants.seen(self.model)
            entries = [(shared, payload, None) for payload in payloads]
            for event in self.new_events(view, stream, value_of(answer), entries):
                wants.publish(event)
            return repr(answer.value)

        kind = "_many" if many else "" if key is None else "_with_key"
        words = f"{payloads!r}" if many else f"{payloads[0]!r}"
        return Inside(f"publish{kind}_tx({stream!r}, {words})", work, judge)

    @step(2, when=_some_open, number=which, channel=st.integers(0, 1))
    def notify_tx(self, number: int, channel: int) -> None:
        """A signal is sent in a transaction."""
        self.inside(number, self.notifying(CHANNELS[channel]))

    @staticmethod
    def notifying(channel: str) -> Inside:
        """`notify_tx`."""

        def judge(wants: Transaction, answer: Answer) -> str:
            expected(value_of(answer), None)
            wants.notify(channel)
            return "done"

        return Inside(f"notify_tx({channel!r})", lambda tx: tx.notify_tx(channel, None), judge)

    @step(
        2,
        when=_some_open,
        number=which,
        stream=streams,
        consumer=consumers,
        event=which,
        shift=st.sampled_from([0, 0, 1, -1, -100]),
    )
    def save_offset_tx(
        self, number: int, stream: int, consumer: int, event: int, shift: int
    ) -> None:
        """A consumer's position is saved in a transaction."""
        name, reader = STREAMS[stream], CONSUMERS[consumer]
        offset = self.some_offset(name, event, shift)
        if self.being_saved(name, reader):
            return

        def judge(wants: Transaction, answer: Answer) -> str:
            expected(value_of(answer), None)
            wants.save(name, reader, offset)
            return "done"

        text = f"save_offset_tx({name!r}, {reader!r}, {offset})"
        self.inside(number, Inside(text, lambda tx: tx.save_offset_tx(name, reader, offset), judge))

    @step(2, when=_some_open, number=which, name=sources.queues, stream=streams, consumer=consumers)
    def read_tx(self, number: int, name: int, stream: int, consumer: int) -> None:
        """A transaction reads, its own writes included."""
        tx = self.pick(self.open, number)
        if tx is not None:
            log, reader = STREAMS[stream], CONSUMERS[consumer]
            self._read_job_tx(number, tx, sources.NAMES[name])
            self.inside(number, self._reading(log, reader))

    def _read_job_tx(self, number: int, tx: Open, queue: str) -> None:
        used = sorted(tx.wants.seen(self.model).queues.used)
        id_ = used[-1] if used else 1

        def judge(wants: Transaction, answer: Answer) -> str:
            job = wants.seen(self.model).queues.get(queue, id_)
            self.same(value_of(answer), job)
            return "nothing" if job is None else "as expected"

        text = f"get_job_tx({queue!r}, {id_})"
        self.inside(number, Inside(text, lambda tx: tx.get_job_tx(queue, id_), judge))

    def _reading(self, stream: str, reader: str) -> Inside:
        async def work(tx: Any) -> Any:
            return (
                await tx.get_offset_tx(stream, reader),
                await tx.read_since_tx(stream, 0, 100),
                await tx.read_from_consumer_tx(stream, reader, 2),
            )

        def judge(wants: Transaction, answer: Answer) -> str:
            position, events, following = value_of(answer)
            view: Database = wants.seen(self.model)
            expected(position, view.streams.position(stream, reader), "get_offset_tx")
            same_events(events, view.streams.read(stream, 0, 100), "read_since_tx, ")
            after = view.streams.read(stream, position, 2)
            same_events(following, after, "read_from_consumer_tx, ")
            return f"at {position}, {[event.offset for event in events]}"

        text = f"get_offset_tx, read_since_tx, read_from_consumer_tx({stream!r}, {reader!r})"
        return Inside(text, work, judge)

    def inside(self, number: int, inside: Inside) -> None:
        """Make a call in one of the open transactions, by the task that began it."""
        tx = self.pick(self.open, number)
        if tx is None:
            return
        handle, wants = tx.handle, tx.wants
        self._by_holder(
            tx,
            f"{tx.name}: {inside.text}",
            lambda: inside.work(handle),
            lambda answer: inside.judge(wants, answer),
        )

    def _by_holder(
        self,
        tx: Open,
        text: str,
        work: Callable[[], Awaitable[Any]],
        judge: Callable[[Answer], str],
    ) -> None:
        self.do(Call(tx.actor, tx.client, text, work, judge, writes=False))

    # -- ends -----------------------------------------------------------------------------

    def _take_over(self, wants: Transaction, by: Client) -> None:
        wants.commit(self.model)
        for channel in dict.fromkeys(wants.channels):
            self.notified(channel)
        if wants.jobs:
            self.work_came(wants.jobs, by)

    @step(2, when=_some_open, number=which)
    def commit(self, number: int) -> None:
        """A transaction is committed: everything in it is there now, for everybody."""
        tx = self.pick(self.open, number)
        if tx is None:
            return
        handle = tx.handle

        def judge(answer: Answer) -> str:
            expected(value_of(answer), None)
            self.ended(tx)
            self._take_over(tx.wants, tx.client)
            return "committed"

        self._by_holder(tx, f"{tx.name}: commit()", handle.commit, judge)
        self.go_on()

    @step(when=_some_open, number=which)
    def roll_back(self, number: int) -> None:
        """A transaction is rolled back: nothing of it ever was."""
        tx = self.pick(self.open, number)
        if tx is None:
            return
        handle = tx.handle

        def judge(answer: Answer) -> str:
            expected(value_of(answer), None)
            self.ended(tx)
            return "rolled back"

        self._by_holder(tx, f"{tx.name}: rollback()", handle.rollback, judge)
        self.go_on()

    @step(1, when=_some_open, number=which)
    def drop(self, number: int) -> None:
        """The last reference to a transaction is lost, which rolls it back."""
        tx = self.pick(self.open, number)
        if tx is None or (tx.wants.published and not self.facts.single_writer):
            # Where nobody waits for it, nothing tells when readers may go past its offsets.
            return
        self.say(f"{tx.name} is dropped")
        lost = weakref.ref(tx.handle)
        del self.open[self._key(tx)]
        tx.handle = None
        if lost() is not None:
            gc.collect()
        if lost() is not None:
            raise UnmetError(f"{tx.name} is referred to by its store, so it cannot be dropped")
        self.go_on()

    @step(when=lambda m: m.over)
    def use_ended(self) -> None:
        """A transaction that has ended takes no more calls; another rollback does nothing."""
        if self.over is None or self.waiting is not None:
            return
        (tx, kind), handle = self.over, self.over[0].handle

        async def work() -> Any:
            await handle.rollback()
            return await handle.enqueue_tx("work", None)

        text = f"{tx.name}, which has ended: rollback(), enqueue_tx('work', None)"
        self._by_holder(tx, text, work, lambda answer: raised(answer, kind))

    def lost(self, tx: Open) -> None:
        """Its store was closed."""
        self.over = (tx, Closed)

    def ended(self, tx: Open) -> None:
        """It was ended by its holder."""
        del self.open[self._key(tx)]
        self.over = (tx, DatabaseError)

    def _key(self, tx: Open) -> int:
        return next(key for key, other in self.open.items() if other is tx)

    # -- all at once ----------------------------------------------------------------------

    @step(
        actor=who,
        client=where,
        name=sources.names,
        given=sources.some_options,
        stream=streams,
        channel=st.integers(0, 1),
        parts=st.lists(st.integers(0, 2), min_size=1, max_size=3),
        form=st.sampled_from(["with_tx", "transaction", "begin_tx"]),
        ending=st.sampled_from(["return", "return", "raise", "commit", "roll back"]),
    )
    def block_tx(
        self,
        actor: int,
        client: int,
        name: int,
        given: Options,
        stream: int,
        channel: int,
        parts: list[int],
        form: str,
        ending: str,
    ) -> None:
        """A transaction is a function or a block, and ends as that does.

        But for `begin_tx`, whose block rolls back unless it was committed by hand.
        """
        at, log = self.clients[client], STREAMS[stream]
        if self.unsettled(log):
            return
        possible = (
            self.notifying(CHANNELS[channel]),
            self.enqueuing(sources.NAMES[name], ["in a block"], given),
            self.publishing(log, None, ["in a block"]),
        )
        calls = [possible[part] for part in parts]

        async def body(tx: Any) -> Any:
            answers = [await call.work(tx) for call in calls]
            if ending == "raise":
                raise _BodyError(answers)
            if ending == "commit":
                await tx.commit()
            elif ending == "roll back":
                await tx.rollback()
            return answers

        async def work() -> Any:
            if form == "with_tx":
                return await at.store.with_tx(body)
            block: Any = at.store.transaction() if form == "transaction" else at.store.begin_tx()
            async with block as tx:
                return await body(tx)

        commits = ending == "commit" or (ending == "return" and form != "begin_tx")

        def judge(answer: Answer) -> str:
            wants = self._in_block(calls, answer, fails=ending == "raise")
            if commits:
                self._take_over(wants, at)
            return f"{'committed' if commits else 'rolled back'}"

        text = f"{form}: {', '.join(call.text for call in calls)}; {ending}"
        self.do(Call(actor, at, text, work, judge))

    @staticmethod
    def _in_block(calls: list[Inside], answer: Answer, *, fails: bool) -> Transaction:
        """What was done in the block."""
        if fails:
            raised(answer, _BodyError)
            answers = answer.error.args[0] if answer.error is not None else []
        else:
            answers = value_of(answer)
        wants = Transaction()
        for call, value in zip(calls, answers, strict=True):
            call.judge(wants, evolve(answer, value=value, error=None))
        return wants


class _BodyError(Exception):
    """What the function in a transaction raises."""
