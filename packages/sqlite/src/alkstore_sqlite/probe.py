"""What a commit changed, read from the tables: nothing has to be written for a wake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alkstore_core.names import SCHEDULER_LOCK
from alkstore_core.spi import Topic
from alkstore_core.sql.signals import CHANNELS_SINCE, READY_QUEUES, SCHEDULES_STATE, STREAM_TAILS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

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
        self._compiler = compiler
        self._last_notify = 0
        self._schedules: tuple[Any, ...] | None = None

    def __call__(
        self, connection: sqlite3.Connection, topics: Callable[[], Sequence[Topic]]
    ) -> list[Mark]:
        """Return what is new on `topics()`. A look that fails has seen nothing."""
        wanted: dict[TopicKind, list[str]] = {}
        for topic in topics():
            wanted.setdefault(topic.kind, []).append(topic.name)
        notified: list[tuple[int, str]] = []
        schedules = self._schedules
        news: list[Mark] = []
        if "channel" in wanted:
            notified = self._rows(connection, CHANNELS_SINCE, after=self._last_notify)
            # Asked again: the mark passes all these rows, also those of who came to listen since.
            names = frozenset(topic.name for topic in topics() if topic.kind == "channel")
            news += [(Topic("channel", name), seq) for seq, name in notified if name in names]
        if "stream" in wanted:
            asked = json.dumps(wanted["stream"])
            tails = self._rows(connection, STREAM_TAILS, streams=asked)
            news += [(Topic("stream", name), tail) for name, tail in tails if tail is not None]
        if "queue" in wanted:
            asked = json.dumps(wanted["queue"])
            ready = self._rows(connection, READY_QUEUES, queues=asked)
            news += [(Topic("queue", name), None) for (name,) in ready]
        if "schedules" in wanted:
            (schedules,) = self._rows(connection, SCHEDULES_STATE, leadership=SCHEDULER_LOCK)
            if schedules != self._schedules:
                news += [(Topic("schedules", name), None) for name in wanted["schedules"]]
        # Only now: a later question of this look may have found the database busy.
        self._schedules = schedules
        if notified:
            self._last_notify = notified[-1][0]
        return news

    def _rows(
        self, connection: sqlite3.Connection, statement: Executable, **given: Any
    ) -> list[Any]:
        request = self._compiler.request(statement, given)
        return connection.execute(request.sql, request.arguments).fetchall()
