"""Steps: an outbox hands its messages to deliveries that succeed, fail, or see to it themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, raised, value_of
from alkstore_contract.machine.claiming import Claiming
from alkstore_contract.machine.compare import OUTBOX_PREFIX, expected
from alkstore_contract.machine.steps import step, where, who

if TYPE_CHECKING:
    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.machine.calls import Client

ENDINGS = (
    "succeed",
    "succeed",
    "raise",
    "fail itself",
    "retry itself",
    "release",
    "be cancelled",
    "outlast its lease",
)
LEASE = 60


class Delivering(Claiming):
    """Everything about deliveries."""

    @step(
        2,
        when=lambda m: m.model.queues.used,
        actor=who,
        client=where,
        worker=sources.workers,
        ending=st.sampled_from(ENDINGS),
        beats=st.booleans(),
    )
    def run_once(self, actor: int, client: int, worker: int, ending: str, *, beats: bool) -> None:
        """A message is delivered, or not."""
        at, as_worker = self.clients[client], sources.WORKERS[worker]
        queue = sources.NAMES[-1]
        outbox = at.store.outbox(queue.removeprefix(OUTBOX_PREFIX))
        delivered: list[Any] = []
        if ending == "outlast its lease" and self.holder() is not None:
            # Time passes for the machine to see, not while something else is on its way.
            return
        began: list[int] = []

        async def delivery(handle: Any) -> None:
            delivered.append(handle)
            began.append(self.now)
            if beats:
                expected(await handle.heartbeat(100), True, "heartbeat in the delivery")
            await _end(handle, ending)
            if ending == "outlast its lease":
                await self.clock.advance(LEASE + 1)

        def judge(answer: Answer) -> str:
            if ending == "be cancelled" and delivered:
                raised(answer, asyncio.CancelledError)
            else:
                expected(value_of(answer), bool(delivered), "run_once()")
            # Judged as it was, then again as what the delivery did with it.
            self.claimed(at, queue, as_worker, 1, delivered, *began)
            if not delivered:
                return "no message"
            fence = (delivered[0].job.id, delivered[0].job.attempts)
            if beats:
                self.model.queues.heartbeat(began[0], fence, 100)
            if self.now > began[0]:
                self.time_passed(began[0])
            self._after(at, queue, fence, ending)
            # Its claim is over or is nobody's; the handle is not used again.
            self.held.popitem()
            return f"message {fence[0]}"

        text = f"{queue!r} run_once({as_worker!r}, which is to {ending}{', beating' * beats})"
        self.do(Call(actor, at, text, lambda: outbox.run_once(as_worker, delivery), judge))

    def _after(self, at: Client, queue: str, fence: tuple[int, int], ending: str) -> None:
        model, now = self.model.queues, self.now
        if ending in {"succeed", "outlast its lease"}:
            # After its lease, unless it beat, its ack does nothing.
            model.ack(now, fence)
        elif ending == "raise":
            self._raised(at, queue, fence)
        elif ending == "fail itself":
            model.fail(now, fence, "by itself")
        elif ending == "retry itself":
            self.retried(at, queue, fence, "by itself", 7)
        elif ending == "release":
            model.release(now, fence)
            self.work_came([model.live[fence[0]]], at)

    def _raised(self, at: Client, queue: str, fence: tuple[int, int]) -> None:
        seen = self.read_job(queue, fence[0])
        # How an exception reads is not laid down, but what it said has to be there.
        if seen is None or seen.last_error is None or "boom" not in seen.last_error:
            raise UnmetError(f"job {fence[0]}, whose delivery raised 'boom': got {seen}")
        self.retried(at, queue, fence, seen.last_error, None)


async def _end(handle: Any, ending: str) -> None:
    if ending == "raise":
        raise _DeliveryError("boom")
    if ending == "fail itself":
        await handle.fail("by itself")
    elif ending == "retry itself":
        await handle.retry("by itself", 7)
    elif ending == "release":
        await handle.release()
    elif ending == "be cancelled":
        raise asyncio.CancelledError


class _DeliveryError(Exception):
    """What a delivery raises."""
