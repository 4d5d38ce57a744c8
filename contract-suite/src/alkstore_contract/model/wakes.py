"""Wakes: after a commit at least one, before it none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_contract.model.jobs import Job


class Listener:
    """What a receiver of wakes may expect. Wakes carry nothing and may be merged or repeated."""

    def __init__(self, channel: str | None, queue: str | None) -> None:
        self.channel = channel
        self.queue = queue
        self.possible: bool = False
        """There was something to wake it since it was attached; before that, it stays silent."""

        self._notified = False
        self._work: set[int] = set()

    def notified(self) -> None:
        """Its channel was notified."""
        self._notified = self.possible = True

    def told_of(self, now: int, jobs: Iterable[Job]) -> None:
        """Jobs were committed to its queue, or came due there: it wakes for those to be had."""
        self._work |= {job.id for job in jobs if job.claimable(now)}
        self.possible = True

    def owed(self, now: int, live: dict[int, Job]) -> bool:
        """Whether a wake has to come: notified, or a job is still to be had."""
        jobs = [live[id_] for id_ in self._work if id_ in live]
        return self._notified or any(job.claimable(now) for job in jobs)

    def woke(self) -> None:
        """It was given a wake: one settles everything before it."""
        self._notified = False
        self._work.clear()


class Subscriber:
    """What a receiver of events may expect: all after its position, in order."""

    def __init__(self, stream: str, consumer: str, position: int) -> None:
        self.stream = stream
        self.consumer = consumer
        self.position = position
        self.given: int | None = None
        """The offset of the latest event it gave; `save_offset` saves that one."""
