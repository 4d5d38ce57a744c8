"""What a copy tells: how far it is, what went where, and what it came to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alkstore_core.spi import RecordKind

Numbered = Literal["jobs", "dead_jobs", "events"]


class Moved(NamedTuple):
    """One job or event and its numbers before and after."""

    kind: Numbered
    name: str
    """The queue or the stream; outboxes by their backing queue."""

    old: int
    new: int


class Writable(Protocol):
    """Something text is written to, such as an open file."""

    def write(self, text: str, /) -> object:
        """Take some text."""


MapTo: TypeAlias = Callable[[Moved], object] | Writable | None


@frozen(kw_only=True)
class CopyProgress:
    """How far one step is with the rows of one kind."""

    step: Literal["reading", "copying", "verifying"]
    kind: RecordKind
    done: int
    total: int | None
    """`None` while the source is read for the first time and nobody knows."""


Tell: TypeAlias = Callable[[CopyProgress], object] | None


@frozen(kw_only=True)
class CopyReport:
    """A copy that is whole: both sides were read back and hold the same.

    `jobs` counts those of queues and outboxes that are not dead. `digests` has a SHA-256 of each
    kind's rows in their order, without ids and offsets, so it is the same on both sides; that of
    `consumers` is of their places in the source.
    """

    jobs: int
    dead_jobs: int
    events: int
    consumers: int
    schedules: int
    digests: Mapping[RecordKind, str]
    resumed: bool
    """Whether an earlier call had begun this copy, or finished it."""
