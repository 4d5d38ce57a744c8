"""The copy itself: look, copy, read back, and only then say that it is whole."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NoReturn

from alkstore_core.copying.checks import check_apart, check_not_led, check_quiet, is_empty
from alkstore_core.copying.mark import MARK, Mark, Marked, read_mark
from alkstore_core.copying.reading import NUMBERED, Rows, number_of, read_named, take_census
from alkstore_core.copying.values import CopyProgress, CopyReport
from alkstore_core.copying.verifying import Different, Verifier, check_named
from alkstore_core.errors import CopyRefused, DatabaseError
from alkstore_core.integers import check_i64
from alkstore_core.spi import Record

if TYPE_CHECKING:
    from alkstore_core.copying.reading import Census, Named
    from alkstore_core.copying.values import MapTo, Numbered, Tell
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import RecordKind, Session
    from alkstore_core.store import Store

BATCH: Final = 1000
"""Rows of one transaction: few commits, and no long hold of the target's writer."""


async def copy_store(
    source: Store,
    target: Store,
    *,
    map_to: MapTo = None,
    progress: Tell = None,
    batch: int = BATCH,
) -> CopyReport:
    """The target holds everything that the source does, and this was read back from both.

    Copied are jobs (those of outboxes too), dead jobs, events, consumers' positions and
    schedules, with every field: attempts, stamps, times, errors, headers. Ids and offsets are
    new and ascend in the old order; a consumer stands at the last copied event that it had
    passed. A job whose claim has lapsed is copied lapsed. Locks and waiting wakes stay behind.
    The source is only read. The engines may be any two.

    Stop everybody who works on either store first. When this raises, is cancelled or killed,
    call it again with the same two: it goes on with the batch that was not committed. A target
    that carries a schedule named `__alkstore_copy` is not whole yet. When the target already is
    this copy, nothing is written and the report says so.

    `map_to` gets each job's and event's numbers before and after, as calls with a `Moved` or as
    lines of JSON; it is complete when this returns, and to be thrown away when it raises.
    `progress` is called now and then, `batch` rows are copied in each transaction. Memory grows
    with the number of consumers and schedules, not of jobs and events.

    Raises:
        CopyRefused: the source is in use (live claims, a leading scheduler, open publishers), or
            changed meanwhile; the target is not empty and not an unfinished copy of just this;
            both are one database; or the target does not hold what was written to it.
        DatabaseError: a database refused.
        Closed: a store is not open.

    """
    rows = check_i64("batch", batch)
    if rows < 1:
        raise DatabaseError(f"batch must be at least 1 row, not {rows}")
    # The seam lies below a store, and there is no other way to it.
    sides = source._runtime, target._runtime  # noqa: SLF001
    return await _Copier(*sides, rows, progress, map_to).run()


class _Copier:
    def __init__(
        self, source: Runtime, target: Runtime, batch: int, tell: Tell, map_to: MapTo
    ) -> None:
        self._source = source
        self._target = target
        self._batch = batch
        self._tell = tell
        self._verifier = Verifier(source, target, batch, tell, map_to)

    async def run(self) -> CopyReport:
        self._source.session()
        await check_apart(self._source, self._target)
        await check_quiet(self._source)
        await check_not_led(self._target)
        census = await take_census(self._source, self._batch, self._tell)
        mark = await read_mark(self._target.session())
        if mark is None and not await is_empty(self._target.session()):
            await self._check_whole_already(census)
            return _report(census, resumed=True)
        if mark is not None and mark.source != census.whole:
            raise CopyRefused(
                "the target carries the mark of a copy of something else, or the source has "
                "changed since that copy began: start with an empty target"
            )
        marked = Marked(self._target, mark or Mark(source=census.whole, last={}, counts={}))
        if mark is None:
            await marked.begin(_check_empty)
        for kind in NUMBERED:
            await self._copy(kind, census, marked)
        await self._put(marked, "schedules", census.schedules)
        try:
            consumers = await self._verifier.walk(census)
            await self._put(marked, "consumers", consumers)
            await self._check_named(census, consumers)
        except Different as difference:
            await self._refuse(difference, census)
        await self._check_still(census)
        await marked.end()
        return _report(census, resumed=mark is not None)

    async def _copy(self, kind: Numbered, census: Census, marked: Marked) -> None:
        done = marked.mark.counts.get(kind, 0)
        last = marked.mark.last.get(kind)
        rows = Rows(self._source, kind, self._batch, None if last is None else (last,))
        while page := await rows.page():
            last = number_of(page[-1].position)
            if last > census.last[kind]:
                raise CopyRefused(_MOVED)
            done += len(page)

            async def load(session: Session, page: list[Record] = page) -> None:
                _check_numbers(kind, page, await session.load(kind, page))

            await marked.advance(load, {kind: last}, {kind: done})
            if self._tell is not None:
                total = census.counts[kind]
                self._tell(CopyProgress(step="copying", kind=kind, done=done, total=total))

    async def _put(self, marked: Marked, kind: RecordKind, rows: Named) -> None:
        """Kinds with a natural key: what was put before is put again."""
        records = [Record(key, fields) for key, fields in rows.items()]
        for start in range(0, len(records), self._batch):
            page = records[start : start + self._batch]

            async def load(session: Session, page: list[Record] = page) -> None:
                await session.load(kind, page)

            await marked.advance(load, {}, {kind: start + len(page)})
            if self._tell is not None:
                done, total = start + len(page), len(records)
                self._tell(CopyProgress(step="copying", kind=kind, done=done, total=total))

    async def _check_named(self, census: Census, consumers: Named) -> None:
        found = await read_named(self._target, "schedules", self._batch)
        found.pop((MARK,), None)
        check_named("schedules", census.schedules, found)
        check_named(
            "consumers", consumers, await read_named(self._target, "consumers", self._batch)
        )

    async def _check_whole_already(self, census: Census) -> None:
        """A copy may have been killed after it became whole and before anybody heard of it."""
        try:
            await self._check_named(census, await self._verifier.walk(census))
        except Different as difference:
            raise CopyRefused(
                "the target is in use: it is not empty, carries no mark of an unfinished copy, "
                f"and is no copy of the source ({difference}); name an empty one"
            ) from None
        await self._check_still(census)

    async def _check_still(self, census: Census) -> None:
        """Nothing has begun to move while both sides were read."""
        await check_quiet(self._source)
        for kind in NUMBERED:
            last = census.last[kind]
            beyond = (last,) if last else None
            if await self._source.session().dump(kind, beyond, 1):
                raise CopyRefused(_MOVED)
        now = [await read_named(self._source, kind, self._batch) for kind in _NAMED]
        if now != [census.consumers, census.schedules]:
            raise CopyRefused(_MOVED)

    async def _refuse(self, difference: Different, census: Census) -> NoReturn:
        if (await take_census(self._source, self._batch, None)).whole != census.whole:
            raise CopyRefused(_MOVED) from None
        raise CopyRefused(
            f"the target does not hold what was copied into it: {difference}. Either somebody "
            "works on it, or its engine does not keep rows as they are; start with an empty one"
        ) from None


async def _check_empty(session: Session) -> None:
    if not await is_empty(session):
        raise CopyRefused("somebody has begun to use the target; name an empty one")


def _check_numbers(kind: RecordKind, page: list[Record], numbers: list[int]) -> None:
    ascending = all(a < b for a, b in pairwise(numbers))
    if len(numbers) != len(page) or not ascending:
        raise DatabaseError(
            f"the target's engine gave {len(page)} {kind} the numbers {numbers[:5]!r}…; they "
            "have to ascend, one for each"
        )


def _report(census: Census, *, resumed: bool) -> CopyReport:
    return CopyReport(
        jobs=census.counts["jobs"],
        dead_jobs=census.counts["dead_jobs"],
        events=census.counts["events"],
        consumers=census.counts["consumers"],
        schedules=census.counts["schedules"],
        digests=census.digests,
        resumed=resumed,
    )


_NAMED: Final[tuple[RecordKind, ...]] = ("consumers", "schedules")

_MOVED = (
    "the source has changed while it was copied: stop everybody who enqueues, publishes, claims "
    "or sweeps there, and start with an empty target"
)
