"""What a workload of any engine is: rows of the report, and rounds that measure them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound on a row's measure: its ratio where it has a reference, else its value."""

    bound: float
    at_most: bool = False

    def met_by(self, measure: float) -> bool:
        """Whether a measure keeps the bound."""
        return measure <= self.bound if self.at_most else measure >= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report."""

    name: str
    unit: str
    target: Target | None = None
    worst: bool = False
    """Judged by its worst round, not by the median: a promise about the single case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one round gave for one row; `reference` is the raw rate, or the small backlog's."""

    row: str
    ours: float
    reference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Rows that are measured together. `rounds` yields every row's sample, round by round."""

    rows: tuple[Row, ...]
    rounds: Callable[[Any], AsyncIterator[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How long to measure. An engine's own one says where."""

    rounds: int
    scale: float

    def seconds(self, full: float) -> float:
        """A duration, shortened by the scale."""
        return full * self.scale

    def count(self, full: int, least: int = 1) -> int:
        """A number of rows, reduced by the scale."""
        return max(least, int(full * self.scale))


class Tally:
    """Rows done and the seconds they took, over several spans of work.

    A round's sides take turns in short slices, each side with one tally, so that both see the
    same weather.
    """

    def __init__(self) -> None:
        self._done = 0
        self._elapsed = 0.0
        self._until = 0.0

    def more(self, seconds: float) -> None:
        """Allow for another slice."""
        self._until = self._elapsed + seconds

    def add(self, done: int) -> None:
        """Count rows."""
        self._done += done

    @contextmanager
    def span(self) -> Iterator[None]:
        """Count the time of what runs inside; work between the spans is not counted."""
        start = time.perf_counter()
        yield
        self._elapsed += time.perf_counter() - start

    @property
    def left(self) -> float:
        """Seconds that the slice has left."""
        return self._until - self._elapsed

    @property
    def running(self) -> bool:
        """Whether the slice has time left."""
        return self.left > 0

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self._done / self._elapsed
