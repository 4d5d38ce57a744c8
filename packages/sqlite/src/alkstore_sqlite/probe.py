"""What a commit changed, read from the tables: nothing has to be written for a wake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alkstore_core.names import SCHEDULER_LOCK
from alkstore_core.spi import Topic
from alkstore_core.sql.signals import CHANNELS_SINCE, READY_QUEUES, SCHEDULES_STATE, STREAM_TAILS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Executable

    from alkstore_core.spi import TopicKind
    from alkstore_core.sql.compile import Compiler
    from alkstore_sqlite.watcher import Mark


class TableProbe:
    """Reports channels notified since the last look, tails of streams, queues with ready work.

    Called by the watcher's thread only. A stream or queue may be reported again without news:
    the mark of a stream tells the receivers, ready work is worth a wake whoever sees it first.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compile = compiler
        self._last_notify = 0
        self._schedules: tuple[Any, ...] | None = None

    def __call__(self, connection: sqlite3.Connection, topics: Sequence[Topic]) -> list[Mark]:
        """Return what is new on `topics`."""
        return list(self._news(connection, topics))

    def _news(self, connection: sqlite3.Connection, topics: Sequence[Topic]) -> Iterator[Mark]:
        wanted: dict[TopicKind, list[str]] = {}
        for topic in topics:
            wanted.setdefault(topic.kind, []).append(topic.name)
        for kind, names in wanted.items():
            if kind == "channel":
                yield from self._notified(connection, frozenset(names))
            elif kind == "stream":
                for name, tail in self._rows(connection, STREAM_TAILS, streams=json.dumps(names)):
                    if tail is not None:
                        yield Topic(kind, name), tail
            elif kind == "queue":
                for (name,) in self._rows(connection, READY_QUEUES, queues=json.dumps(names)):
                    yield Topic(kind, name), None
            elif self._schedules_changed(connection):
                yield from ((Topic(kind, name), None) for name in names)

    def _notified(self, connection: sqlite3.Connection, wanted: frozenset[str]) -> Iterator[Mark]:
        for seq, name in self._rows(connection, CHANNELS_SINCE, after=self._last_notify):
            self._last_notify = seq
            if name in wanted:
                yield Topic("channel", name), seq

    def _schedules_changed(self, connection: sqlite3.Connection) -> bool:
        before = self._schedules
        (self._schedules,) = self._rows(connection, SCHEDULES_STATE, leadership=SCHEDULER_LOCK)
        return self._schedules != before

    def _rows(
        self, connection: sqlite3.Connection, statement: Executable, **given: Any
    ) -> list[Any]:
        sql, arguments, _, _ = self._compile(statement)
        return connection.execute(sql, arguments(given)).fetchall()
