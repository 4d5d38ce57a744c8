"""The machine itself: stores on one database, tasks that call them, the model, and the time.

What a step draws never depends on what an engine answered: it draws numbers, and takes what is
there by them. So every engine gets the same histories, and one that answers by chance (a backoff
is random) does not confuse Hypothesis. Objects are kept in dicts under such numbers, never by
Hypothesis, or the last reference to a transaction could not be dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import traceback
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from alkstore_contract.case import START
from alkstore_contract.expect import UnmetError
from alkstore_contract.machine.actors import Actor, Answer, attempt, settled
from alkstore_contract.machine.calls import Call, Client, Open, raised, value_of
from alkstore_contract.machine.steps import (
    ACTORS,
    CLIENTS,
    FailedHistoryError,
    Step,
    Taken,
    step,
    which,
)
from alkstore_contract.model import Database
from alkstore_contract.pending import turns
from alkstore_core import DatabaseError, ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping

    from alkstore_contract.harness import Facts, Harness
    from alkstore_contract.model.jobs import Job

T = TypeVar("T")

FAR = 10_000_000
"""Deadlines further away than this are "never": time does not go there."""


class Machine(RuleBasedStateMachine):
    """Stores, tasks, time and the model. What is done with them is in the subclasses."""

    harness: ClassVar[Harness]
    omits: ClassVar[frozenset[str]] = frozenset()
    """Steps that this kind of history goes without, for the sake of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.taken: list[Taken] = []
        self.left_out: set[str] = set()
        self.broken: bool = False
        self.clock: ManualClock = ManualClock(START)
        self.model: Database = Database()
        self.open: dict[int, Open] = {}
        self.waiting: tuple[Call, asyncio.Future[Answer]] | None = None
        self.counter: int = 0
        self.reopened: int = 0
        self._stack = contextlib.AsyncExitStack()
        self._runner = asyncio.Runner()
        self.begun: bool = False
        self.clients: list[Client] = []
        self.actors: list[Actor] = []

    async def _set_up(self) -> None:
        self._address = await self._stack.enter_async_context(self.harness.home())
        self.clients += [await self._client(number) for number in range(CLIENTS)]
        self.actors += [Actor(f"task {number}") for number in range(ACTORS)]

    async def _client(self, number: int) -> Client:
        store = self.harness.store(self._address, self.clock)
        await store.open()
        return Client(number, store)

    @property
    def facts(self) -> Facts:
        """What the engine declares of itself."""
        return self.harness.facts

    @property
    def now(self) -> int:
        """The time."""
        return self.clock.now()

    # -- steps ----------------------------------------------------------------------------

    @functools.cached_property
    def steps(self) -> dict[str, Step]:
        """What can be done, by name."""
        members = {name: getattr(type(self), name) for name in dir(type(self))}
        taken = {name: m for name, m in members.items() if name not in self.omits}
        return {name: m.step for name, m in taken.items() if hasattr(m, "step")}

    @initialize(data=st.data())
    def begin_history(self, data: st.DataObject) -> None:
        """Begin, and leave some steps out, so that others come together more often."""
        if data.draw(st.booleans()):
            names = sorted(self.steps)
            some = st.lists(st.sampled_from(names), unique=True, max_size=len(names) // 2)
            self.left_out = set(data.draw(some))
            self.begin()

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        """Take a step."""
        if not self.begun:
            return
        possible = [
            name
            for name, one in self.steps.items()
            if name not in self.left_out and (one.when is None or one.when(self))
            for _ in range(one.weight)
        ]
        if possible:
            name = data.draw(st.sampled_from(possible))
            self.take((name, data.draw(self.steps[name].draws)))

    def begin(self) -> None:
        """Open what a history needs."""
        with self.watched():
            self.run(self._set_up())
        self.begun = True

    def take(self, taken: Taken) -> None:
        """Take a step, if it can be taken now."""
        self.taken.append(taken)
        chosen = self.steps[taken[0]]
        if chosen.when is None or chosen.when(self):
            with self.watched():
                chosen.function(self, **taken[1])

    # -- running --------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on this history's loop."""
        return self._runner.run(work)

    def look(self, work: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Make a call beside the tasks: nothing may hold it up.

        Raises:
            UnmetError: it raised, or does not come back.

        """

        async def looked() -> Answer:
            return await settled(asyncio.ensure_future(attempt(work)), what)

        return value_of(self.run(looked()), what)

    def do(self, call: Call) -> None:
        """Make a call: at once, or as far as another task's transaction lets it come."""
        if self.waiting is not None and self.waiting[0].actor == call.actor:
            return
        holder = self.holder() if call.writes else None
        if holder is None:
            self.tell(call)
            self.add(call.judge(self.run(self._made(call))))
        elif holder.actor != call.actor:
            self._wait(call)
        elif holder.client is call.client:
            self.tell(call)
            answer = self.run(self._made(call))
            self.add(raised(answer, DatabaseError, "by the task that holds the transaction"))

    def holder(self) -> Open | None:
        """Whose transaction keeps other writers waiting."""
        return next(iter(self.open.values()), None) if self.facts.single_writer else None

    def go_on(self) -> None:
        """A transaction has ended: what waited for it comes back."""
        if self.waiting is None:
            return
        (call, answer), self.waiting = self.waiting, None
        self.tell(call, "goes on: ")
        self.add(call.judge(self.run(settled(answer, call.text))))

    def _wait(self, call: Call) -> None:
        if self.waiting is not None:
            return
        self.tell(call)
        self.waiting = (call, self.run(self._started(call)))
        if self.waiting[1].done():
            told = self.waiting[1].result()
            raise UnmetError(f"expected it to wait for the open transaction, got {told}")
        self.add("waits for its turn")

    async def _made(self, call: Call) -> Answer:
        return await settled(self.actors[call.actor].start(call.work), call.text)

    async def _started(self, call: Call) -> asyncio.Future[Answer]:
        answer = self.actors[call.actor].start(call.work)
        await turns()
        return answer

    # -- telling --------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A line of the history."""
        self.lines.append(f"{len(self.lines) + 1:4}  {text}")

    def tell(self, call: Call, how: str = "") -> None:
        """A line about a call that is being made."""
        self.say(f"task {call.actor}, store {call.client.number}: {how}{call.text}")

    def add(self, outcome: str) -> None:
        """What became of it."""
        self.lines[-1] += f" -> {outcome}"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What fails in here is the history's failure."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the history is told
            self.broken = True
            told = str(error)
            if not isinstance(error, UnmetError):
                # Not a judgement but a fault, here or in what was called past the tasks.
                told = "".join(traceback.format_exception(error))
            raise FailedHistoryError([*self.lines, f"      {told}"], self.taken) from None

    def pick(self, things: Mapping[int, T], number: int) -> T | None:
        """One of the things that are there, counted from the newest."""
        keys = list(things)
        return things[keys[-1 - number % len(keys)]] if keys else None

    def keep(self, things: dict[int, Any], thing: Any, most: int) -> None:
        """Remember a thing, and forget the oldest when there are too many."""
        self.counter += 1
        things[self.counter] = thing
        if len(things) > most:
            del things[next(iter(things))]

    # -- time and the ends of stores ------------------------------------------------------

    @step(2, seconds=st.sampled_from([1, 2, 3, 5, 10, 30, 60, 300, 301, 5000]))
    def time_passes(self, seconds: int) -> None:
        """Time passes."""
        self.advance(seconds)

    @step(6, number=which, beside=st.sampled_from([0, 0, 1, -1]))
    def time_comes(self, number: int, beside: int) -> None:
        """Time stops at a deadline, right before it or right after it."""
        coming = sorted(
            {t + beside for t in self.model.deadlines() if 0 < t + beside - self.now < FAR}
        )
        if coming:
            self.advance(coming[number % len(coming)] - self.now)

    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.say(f"{seconds} s pass")
        self.run(self.clock.advance(seconds))
        self.add(f"{self.now}")
        self.time_passed(self.now - seconds)

    def time_passed(self, before: int) -> None:
        """Called after time has passed."""

    def notified(self, channel: str) -> None:
        """Called after a commit that notifies a channel."""

    def work_came(self, jobs: list[Job], by: Client | None) -> None:
        """Called after a commit, through a store, that makes jobs pending."""

    @step(when=lambda m: len(m.lines) >= m.reopened + 15, number=st.integers(0, CLIENTS))
    def reopen(self, number: int) -> None:
        """A store is closed and another one opened in its place; or that happens to all.

        What was committed is there. Once all stores are closed it may be gone where nothing is
        durable: then all of it.
        """
        if self.waiting is not None:
            return
        self.reopened = len(self.lines)
        numbers = [number] if number < CLIENTS else list(range(CLIENTS))
        self.say(f"closed, and opened again: {' and '.join(f'store {n}' for n in numbers)}")
        for one in numbers:
            self._close(self.clients[one])
        for one in numbers:
            self.clients[one] = self.run(self._client(one))
        if self.facts.durability == "volatile" and self.look(self._is_empty, "what is left"):
            self.model = Database()

    async def _is_empty(self) -> bool:
        store = self.clients[0].store
        return not (
            await store.queues()
            or await store.outboxes()
            or await store.streams()
            or await store.schedules()
            or await store.locks()
        )

    def _close(self, client: Client) -> None:
        """Its transactions are rolled back, its receivers end."""
        for key in [key for key, tx in self.open.items() if tx.client is client]:
            self.lost(self.open.pop(key))
        self.run(client.store.close())
        client.closed = True

    def lost(self, tx: Open) -> None:
        """Called for a transaction that was rolled back by the closing of its store."""

    def finish(self) -> None:
        """Called at the end of a history: compare all there is to see."""

    def teardown(self) -> None:
        """End the history, with a last look at everything."""
        try:
            if self.begun and not self.broken:
                with self.watched():
                    self._last_look()
        finally:
            with contextlib.suppress(Exception):
                self.run(self._tear_down())
            self._runner.close()

    def _last_look(self) -> None:
        while self.open:
            _, tx = self.open.popitem()
            self.say(f"{tx.name} is rolled back at the end")
            self.look(tx.handle.rollback, "rollback()")
            self.go_on()
        self.say("the end: everything is read")
        self.finish()

    async def _tear_down(self) -> None:
        self.open.clear()
        for client in self.clients:
            await client.store.close()
        for actor in self.actors:
            await actor.end()
        await self._stack.aclose()
