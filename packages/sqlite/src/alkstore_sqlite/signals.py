"""Wakes on SQLite: at once after our own commits, by the watcher after everybody else's."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from alkstore_core import DatabaseError
from alkstore_core.hub import Hub
from alkstore_core.sql.op import Mode
from alkstore_core.sql.signals import LAST_NOTIFY, STREAM_TAILS
from alkstore_sqlite.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.spi import Subscription, Topic
    from alkstore_core.sql.op import Driver, Op
    from alkstore_sqlite.connections import FileIdentity
    from alkstore_sqlite.watcher import Mark, Probe


class SqliteSignals(Hub):
    """A hub whose topics are also watched from outside."""

    def __init__(
        self,
        path: str,
        poll_interval: float,
        busy_timeout: float,
        probe: Probe,
        reads: Driver,
    ) -> None:
        """Prepare; nothing is opened before the first subscription."""
        super().__init__()
        self._reads = reads
        self.identity: FileIdentity
        self._watcher = Watcher(
            path, poll_interval, busy_timeout, probe, self._on_news, self.close_open
        )

    async def subscribe(self, topic: Topic) -> Subscription:
        """Attach to a topic; what was committed before this returned is old news."""
        # Attach first and sort out the past afterwards: the other order has a gap.
        subscription = self.attach(topic)
        try:
            await self._watcher.watch(self.identity, tuple(self.topics))
            past = await self._reads.run(Mode.READ, newest_mark, topic)
        except BaseException as error:
            subscription.close()
            if isinstance(error, sqlite3.Error | RuntimeError):
                message = f"the database file cannot be watched: {error}"
                raise DatabaseError(message) from error
            raise
        if past is not None:
            subscription.forget_until(past)
        return subscription

    def changed(self) -> None:
        """Tell the watcher which topics are left."""
        self._watcher.watch_only(tuple(self.topics))

    async def end(self) -> None:
        """End every subscription and the watcher's thread."""
        self.close()
        await self._watcher.close()

    def _on_news(self, marks: Sequence[Mark]) -> None:
        for topic, mark in marks:
            self.fire(topic, mark)


def newest_mark(topic: Topic) -> Op[int | None]:
    """The mark of a topic's newest commit; `None` for topics whose signals carry none."""
    if topic.kind == "channel":
        ((seq,),) = (yield LAST_NOTIFY, {}).rows
        return seq or 0
    if topic.kind == "stream":
        ((_, tail),) = (yield STREAM_TAILS, {"streams": json.dumps([topic.name])}).rows
        return tail or 0
    return None
