"""How far the claims of a queue have got, for as long as it takes long to find that out.

A claim walks the index of ready jobs from its beginning. Usually that is where the best job
stands. But while a transaction somewhere keeps an old snapshot (a dump, a long report), no
vacuum may clear away the jobs that were done since, and every claim walks past all of them. So
when a claim had to search long, this process remembers where it arrived, and the next claims go on
from there.

A front says: of the jobs that a certain snapshot saw ready, those up to this place are claimed, or
were held by another claim. Whatever became ready since then has been made so by a transaction
that is not older than the oldest one running at the time of that snapshot. That is what the column
`made_ready` and its index are for: a claim goes on from the front only if nothing up to the front
is as new as that. What is left are claims that held a job and came to nothing; so a front is given
up after a second, and when nothing is found behind it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    and_,
    bindparam,
    case,
    literal_column,
    or_,
    tuple_,
)

from alkstore_core.sql._jobs import ZERO, argument
from alkstore_core.sql.tables import jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.sql.elements import ColumnElement

    from alkstore_core.values import Job

SLOW_SECONDS: Final = 0.003
"""A search of that long has met more dead rows than living ones."""

LIFE_SECONDS: Final = 1.0

MADE_READY: ColumnElement[int] = literal_column("made_ready", BigInteger)
"""The transaction that made the job ready. The shared tables do not have this column."""

OLDEST: ColumnElement[int] = literal_column(
    "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)", BigInteger
)
"""No transaction below it is running, nor will one be."""

_searched: ColumnElement[float] = literal_column(
    "extract(epoch FROM clock_timestamp() - statement_timestamp())", Double
)

_seen: ColumnElement[bool] = literal_column(
    "pg_visible_in_snapshot(CAST(CAST(made_ready AS text) AS xid8), pg_current_snapshot())", Boolean
)

MARK: ColumnElement[int] = case((_seen, OLDEST))
"""What a front made of the claimed row would be `since`. None of a row that became ready
meanwhile: where that stood when the claim looked is not known."""

MARK_IF_SLOW: ColumnElement[int] = case((_searched > bindparam("slow", type_=Double), MARK))
"""In the first row that a claim returns: behind it lies the search, before it the changes."""

_priority = argument("priority")
_place = (argument("run_at"), argument("id"))

behind: ColumnElement[bool] = and_(
    jobs.c.priority == _priority, tuple_(jobs.c.run_at, jobs.c.id) > tuple_(*_place)
)
"""The jobs behind the front, of its priority; after those a claim begins at the beginning."""

# Sums, for which there is no index: it is `made_ready` that leads to the newcomers.
_its_priority = jobs.c.priority + ZERO
_its_place = tuple_(jobs.c.run_at + ZERO, jobs.c.id)

newcomer: Sequence[ColumnElement[bool]] = (
    argument("since") <= MADE_READY,
    or_(
        _its_priority > _priority,
        and_(_its_priority == _priority, _its_place <= tuple_(*_place)),
    ),
)
"""A job up to the front that the front knows nothing of."""


class Front(NamedTuple):
    """Where the last job of a claim stood, and what the claim's snapshot may not have seen."""

    priority: int
    run_at: int
    id: int
    since: int
    found_at: float

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Of `behind` and `newcomer`."""
        return self._asdict()


class Fronts:
    """The fronts of one store, by queue."""

    def __init__(self) -> None:
        self._known: dict[str, Front] = {}

    def get(self, queue: str) -> Front | None:
        """The queue's front, if it has one that is young enough."""
        front = self._known.get(queue)
        if front is not None and time.monotonic() - front.found_at > LIFE_SECONDS:
            del self._known[queue]
            return None
        return front

    def put(
        self, queue: str, marked: Sequence[tuple[Job, int | None]], moved: Front | None = None
    ) -> None:
        """A claim that began at the beginning, or behind `moved`, took these jobs in this order."""
        seen = [(job, mark) for job, mark in marked if mark is not None]
        if not seen:
            return
        last, since = seen[-1]
        found_at = time.monotonic() if moved is None else moved.found_at
        self._known[queue] = Front(last.priority, last.run_at, last.id, since, found_at)

    def drop(self, queue: str) -> None:
        """Begin at the beginning."""
        self._known.pop(queue, None)
