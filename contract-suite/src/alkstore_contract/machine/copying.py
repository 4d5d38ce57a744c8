"""The end of a history: everything is copied elsewhere, and compared with the model there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_contract.expect import UnmetError
from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Client
from alkstore_contract.machine.compare import expected, same_events, same_jobs
from alkstore_contract.machine.machine import FAR
from alkstore_contract.machine.scheduling import Scheduling
from alkstore_contract.machine.streaming import STREAMS, Streaming
from alkstore_core import CopyRefused, copy_store

if TYPE_CHECKING:
    from alkstore_core import Store

ALL = 100_000


class Copying(Scheduling, Streaming):
    """A copy holds what the model holds, but for ids and offsets."""

    def finish(self) -> None:
        """All stores are closed, claims lapse, and another database gets everything."""
        super().finish()
        self.say("the end: everybody is gone, and everything is copied")
        copied = self.run(self._copied())
        if copied is not None:
            self._same_rows(copied)

    async def _copied(self) -> Client | None:
        source = await self._client(len(self.clients))
        self.clients.append(source)
        for client in self.clients[:-1]:
            await client.store.close()
            client.closed = True
        address = await self._stack.enter_async_context(self.harness.home())
        target = self.harness.store(address, self.clock)
        await self._stack.enter_async_context(target)
        deadlines = [
            job.claim.until
            for job in self.model.queues.live.values()
            if job.state == "processing" and job.claim is not None
        ]
        await self._copy(source.store, target, live=any(t >= self.now for t in deadlines))
        lapsing = max((t for t in deadlines if t < self.now + FAR), default=0)
        if lapsing >= self.now:
            await self.clock.advance(lapsing + 1 - self.now)
            await self._copy(source.store, target, live=any(t >= self.now for t in deadlines))
        if any(t >= self.now for t in deadlines):
            return None
        return Client(len(self.clients), target)

    async def _copy(self, source: Store, target: Store, *, live: bool) -> None:
        try:
            await copy_store(source, target)
        except CopyRefused as error:
            if not live:
                raise UnmetError(f"nobody is at work, but the copy is refused: {error}") from error
        else:
            if live:
                raise UnmetError("expected the copy to be refused, for there are live claims")

    def _same_rows(self, copied: Client) -> None:
        for queue in sources.NAMES:
            source = sources.source(copied.store, queue)
            jobs, dead = self.model.queues.jobs(queue), self.model.queues.dead_jobs(queue)
            for wanted, look, what in (
                (jobs, source.jobs, "jobs()"),
                (dead, source.dead_jobs, "dead_jobs()"),
            ):
                seen = self.look(lambda look=look: look(limit=ALL), what)  # type: ignore[misc]
                expected(len(seen), len(wanted), f"the copy, {queue!r}, {what}, how many")
                there = zip(seen, wanted, strict=True)
                same_jobs([evolve(one, id=job.id) for one, job in there], wanted, "the copy, ")
            self.same_stats(self.look(source.stats, "stats()"), queue)
        for stream in STREAMS:
            self._same_events(copied, stream)
        self.same_schedules(copied)

    def _same_events(self, copied: Client, stream: str) -> None:
        there = copied.store.stream(stream)
        places = {"": 0, **self.model.streams.consumers(stream)}
        for consumer, offset in places.items():
            unread = self.model.streams.read(stream, offset, ALL)
            seen = self.look(
                (lambda name=consumer: there.read_from_consumer(name, ALL))  # type: ignore[misc]
                if consumer
                else lambda: there.read_since(0, ALL),
                "read",
            )
            told = f"the copy, {stream!r}, {consumer or 'everything'}, "
            expected(len(seen), len(unread), f"{told}how many events")
            both = zip(seen, unread, strict=True)
            same_events([evolve(one, offset=e.offset) for one, e in both], unread, told)
