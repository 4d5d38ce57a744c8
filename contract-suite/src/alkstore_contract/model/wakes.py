"""Wakes: after a commit at least one, before it none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alkstore_contract.model.database import Topic


class Listener:
    """What a receiver of wakes may expect. Wakes carry nothing and may be merged or repeated."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.owed = False
        """A commit has not been followed by a wake yet."""

        self.possible = False
        """There was something to wake it since it was attached; before that, it stays silent."""

        self.came_due: set[int] = set()
        """Jobs of the queue whose time has come since the latest wake."""

    def committed(self, topic: Topic) -> None:
        """Something was committed."""
        if topic == self.topic:
            self.owed = self.possible = True

    def woke(self) -> None:
        """It was given a wake: one settles all commits before it."""
        self.owed = False
        self.came_due.clear()


class Subscriber:
    """What a receiver of events may expect: all after its position, in order."""

    def __init__(self, stream: str, consumer: str, position: int) -> None:
        self.stream = stream
        self.consumer = consumer
        self.position = position
        self.given: int | None = None
        """The offset of the latest event it gave; `save_offset` saves that one."""
