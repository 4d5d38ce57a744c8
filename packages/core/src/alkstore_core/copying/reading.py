"""Stored rows, page by page, and what they come to."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import frozen

from alkstore_core.copying.values import CopyProgress
from alkstore_core.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alkstore_core.copying.values import Numbered, Tell
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Record, RecordKind, Scalar

NUMBERED: Final[tuple[Numbered, ...]] = ("jobs", "dead_jobs", "events")
"""Kinds whose rows get new numbers; they may be any number, so only a page is ever held."""

PAGE_BYTES: Final = 4 * 1024 * 1024
"""Pages shrink when their payloads come to more than that."""


class Rows:
    """The rows of one kind, in storage order, from a position on."""

    def __init__(
        self, runtime: Runtime, kind: RecordKind, batch: int, after: tuple[Scalar, ...] | None
    ) -> None:
        self._runtime = runtime
        self._kind = kind
        self._batch = self._limit = batch
        self._after = after
        self._page: list[Record] = []
        self._next = 0

    async def page(self) -> list[Record]:
        """The next rows; an empty page is the end.

        Raises:
            DatabaseError: the database refused, or its engine gives rows out of order.

        """
        page = await self._runtime.session().dump(self._kind, self._after, self._limit)
        if not page:
            return page
        if self._kind in NUMBERED:
            self._check_ascending(page)
        self._after = page[-1].position
        size = sum(len(_payload(record)) for record in page)
        fitting = len(page) * PAGE_BYTES // size if size else self._batch
        self._limit = max(1, min(self._batch, fitting))
        return page

    async def next(self) -> Record | None:
        """The next row, `None` at the end."""
        if self._next == len(self._page):
            self._page = await self.page()
            self._next = 0
            if not self._page:
                return None
        self._next += 1
        return self._page[self._next - 1]

    def _check_ascending(self, page: list[Record]) -> None:
        before = 0 if self._after is None else number_of(self._after)
        for record in page:
            number = number_of(record.position)
            if number <= before:
                raise DatabaseError(
                    f"the engine's dump gave {self._kind} {number} after {before}; "
                    "a copy needs them in ascending order, each once"
                )
            before = number


def number_of(position: tuple[Scalar, ...]) -> int:
    """The id or offset that is a numbered row's position."""
    (number,) = position
    if not isinstance(number, int):
        raise DatabaseError(f"the engine's dump gave the position {number!r}, not a number")
    return number


def _payload(record: Record) -> Any:
    return record.fields.get("payload") or b""


class Tally:
    """Counts rows and digests them in their order."""

    def __init__(self) -> None:
        self.count: int = 0
        self._digest = hashlib.sha256()

    def add(self, fields: Mapping[str, Scalar]) -> None:
        """One more row."""
        self.count += 1
        self._digest.update(_encode(fields).encode() + b"\n")

    def digest(self) -> str:
        """Of all rows so far."""
        return self._digest.hexdigest()


def _text(value: bytes) -> str:
    return bytes(value).decode("utf-8", "backslashreplace")


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text).encode


Named: TypeAlias = "dict[tuple[Scalar, ...], dict[str, Scalar]]"


@frozen(kw_only=True)
class Census:
    """What a database held at one reading. Consumers and schedules are few: they are here."""

    counts: dict[RecordKind, int]
    digests: dict[RecordKind, str]
    last: dict[RecordKind, int]
    """The highest id or offset of the numbered kinds, 0 without any."""

    consumers: Named
    schedules: Named

    @property
    def whole(self) -> str:
        """One digest over everything, numbers included."""
        told = [
            sorted(self.digests.items()),
            sorted(self.counts.items()),
            sorted(self.last.items()),
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


async def read_named(runtime: Runtime, kind: RecordKind, batch: int) -> Named:
    """Every row of a kind with a natural key, by that key in the order of code points.

    Databases sort text by rules of their own, so their order is none to compare by.
    """
    found: Named = {}
    rows = Rows(runtime, kind, batch, None)
    while (record := await rows.next()) is not None:
        if record.position in found:
            raise DatabaseError(f"the engine's dump gave {kind} {record.position!r} twice")
        found[record.position] = record.fields
    return {key: found[key] for key in sorted(found, key=_code_points)}


def _code_points(key: tuple[Scalar, ...]) -> list[str]:
    return [str(part) for part in key]


async def take_census(runtime: Runtime, batch: int, tell: Tell) -> Census:
    """Read everything once."""
    counts: dict[RecordKind, int] = {}
    digests: dict[RecordKind, str] = {}
    last: dict[RecordKind, int] = {}
    for kind in NUMBERED:
        tally = Tally()
        last[kind] = 0
        rows = Rows(runtime, kind, batch, None)
        while page := await rows.page():
            for record in page:
                tally.add(record.fields)
            last[kind] = number_of(page[-1].position)
            if tell is not None:
                tell(CopyProgress(step="reading", kind=kind, done=tally.count, total=None))
        counts[kind], digests[kind] = tally.count, tally.digest()
    consumers = await read_named(runtime, "consumers", batch)
    schedules = await read_named(runtime, "schedules", batch)
    named: dict[RecordKind, Named] = {"consumers": consumers, "schedules": schedules}
    for key, found in named.items():
        tally = Tally()
        for fields in found.values():
            tally.add(fields)
        counts[key], digests[key] = tally.count, tally.digest()
    return Census(
        counts=counts, digests=digests, last=last, consumers=consumers, schedules=schedules
    )
