"""Both sides read back beside each other: equal row by row, and where each one went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alkstore_core.copying.reading import NUMBERED, Rows, Tally, number_of
from alkstore_core.copying.values import CopyProgress, Moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core.copying.reading import Census, Named
    from alkstore_core.copying.values import MapTo, Numbered, Tell
    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Record


class Different(Exception):  # noqa: N818 - never leaves the package
    """Source and target do not hold the same; says where."""


class Positions:
    """Where consumers stand after a copy: at the last copied event that they had passed."""

    def __init__(self, consumers: Named) -> None:
        self._ahead: dict[Any, list[tuple[int, str]]] = {}
        self._latest: dict[Any, int] = {}
        self.found: dict[tuple[Any, Any], int] = {}
        for (stream, consumer), fields in consumers.items():
            place = number_of((fields["offset"],)), str(consumer)
            self._ahead.setdefault(stream, []).append(place)
        for waiting in self._ahead.values():
            waiting.sort(reverse=True)

    def passes(self, stream: Any, old: int, new: int) -> None:
        """The next event of a stream was at `old` and is at `new`."""
        waiting = self._ahead.get(stream)
        if waiting is not None:
            self._settle(stream, waiting, old)
            self._latest[stream] = new

    def end(self) -> Named:
        """The consumers' rows as the target has to have them."""
        for stream, waiting in self._ahead.items():
            self._settle(stream, waiting, None)
        return {
            key: {"stream": key[0], "consumer": key[1], "offset": offset}
            for key, offset in self.found.items()
        }

    def _settle(self, stream: Any, waiting: list[tuple[int, str]], before: int | None) -> None:
        while waiting and (before is None or waiting[-1][0] < before):
            _, consumer = waiting.pop()
            self.found[stream, consumer] = self._latest.get(stream, 0)


class Verifier:
    """Compares two databases of which one is to be the copy of the other."""

    def __init__(
        self, source: Runtime, target: Runtime, batch: int, tell: Tell, map_to: MapTo
    ) -> None:
        self._source = source
        self._target = target
        self._batch = batch
        self._tell = tell
        self._moved = _writer(map_to)

    async def walk(self, census: Census) -> Named:
        """Compare jobs and events; the consumers' rows that follow from where events went.

        Raises:
            Different: the sides differ, or the source is not what it was.

        """
        positions = Positions(census.consumers)
        for kind in NUMBERED:
            tally = Tally()
            old, new = self._rows(self._source, kind), self._rows(self._target, kind)
            while True:
                was, is_ = await old.next(), await new.next()
                if was is None and is_ is None:
                    break
                if was is None or is_ is None or was.fields != is_.fields:
                    raise Different(_where(kind, was, is_))
                tally.add(is_.fields)
                self._pair(kind, was, is_, positions)
                if self._tell is not None and tally.count % self._batch == 0:
                    self._say(kind, tally.count, census)
            if tally.count != census.counts[kind] or tally.digest() != census.digests[kind]:
                raise Different(f"the {kind} are not those that were there at the beginning")
            self._say(kind, tally.count, census)
        return positions.end()

    def _rows(self, side: Runtime, kind: Numbered) -> Rows:
        return Rows(side, kind, self._batch, None)

    def _pair(self, kind: Numbered, was: Record, is_: Record, positions: Positions) -> None:
        old, new = number_of(was.position), number_of(is_.position)
        name = str(was.fields["stream" if kind == "events" else "queue"])
        if kind == "events":
            positions.passes(name, old, new)
        if self._moved is not None:
            self._moved(Moved(kind, name, old, new))

    def _say(self, kind: Numbered, done: int, census: Census) -> None:
        if self._tell is not None:
            total = census.counts[kind]
            self._tell(CopyProgress(step="verifying", kind=kind, done=done, total=total))


def check_named(kind: str, expected: Named, found: Named) -> None:
    """Compare rows by their natural keys.

    Raises:
        Different: one is missing, too many or another.

    """
    for key in sorted(expected.keys() | found.keys(), key=repr):
        if expected.get(key) != found.get(key):
            raise Different(f"the {kind} row {key!r} is another, or on one side only")


def _where(kind: str, was: Record | None, is_: Record | None) -> str:
    if was is None or is_ is None:
        there, record = ("source", was) if is_ is None else ("target", is_)
        number = number_of(record.position) if record is not None else 0
        return f"{kind} {number} of the {there} has nothing beside it on the other side"
    names = [name for name in was.fields if was.fields[name] != is_.fields.get(name)]
    return (
        f"{kind} {number_of(was.position)} of the source and {number_of(is_.position)} of the "
        f"target differ in {', '.join(names) or 'their fields'}"
    )


def _writer(map_to: MapTo) -> Callable[[Moved], object] | None:
    if map_to is None or callable(map_to):
        return map_to
    write = map_to.write
    return lambda moved: write(json.dumps(moved._asdict(), ensure_ascii=False) + "\n")
