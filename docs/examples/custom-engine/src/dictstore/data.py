"""Everything that is stored, and drafts of it: what a transaction sees and changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypeVar

from dictstore.backlog import Backlog
from dictstore.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alkstore_core import LockInfo, Schedule

Sequence = Literal["job", "event", "token"]


class Copyable(Protocol):
    """A queue or a stream: a draft copies it before it changes it."""

    def copy(self) -> Self:
        """One that can be changed apart from this one."""


T = TypeVar("T", bound=Copyable)


class ByName(Generic[T]):
    """Queues or streams by name; one that was never written to is an empty one.

    A draft shows those that it was made from, and its own copy of what it changed.
    """

    def __init__(self, make: Callable[[], T], origin: ByName[T] | None = None) -> None:
        self._make = make
        self._origin = origin
        self._own: dict[str, T] = {}

    def view(self, name: str) -> T:
        """One to read."""
        if name in self._own:
            return self._own[name]
        return self._make() if self._origin is None else self._origin.view(name)

    def change(self, name: str) -> T:
        """One to change."""
        if name not in self._own:
            empty = self._origin is None
            self._own[name] = self._make() if empty else self.view(name).copy()
        return self._own[name]

    def draft(self) -> ByName[T]:
        """A draft of all of them."""
        return ByName(self._make, self)

    def adopt(self, draft: ByName[T]) -> None:
        """What a draft changed takes the place of what was there."""
        self._own |= draft._own

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """Each with its name."""
        names = dict.fromkeys(self._own)
        if self._origin is not None:
            names |= dict.fromkeys(name for name, _ in self._origin)
        return ((name, self.view(name)) for name in names)


class Data:
    """Everything stored. What is in it is frozen, so a shallow copy is a copy."""

    def __init__(self) -> None:
        self.queues: ByName[Backlog] = ByName(Backlog)
        self.streams: ByName[Log] = ByName(Log)
        self.leases: dict[str, LockInfo] = {}
        self.schedules: dict[str, Schedule] = {}
        self._last: Counter[Sequence] = Counter()

    def next(self, sequence: Sequence) -> int:
        """The next id, offset or token. A draft that comes to nothing gives its numbers back."""
        self._last[sequence] += 1
        return self._last[sequence]

    def draft(self) -> Data:
        """A draft of everything, which costs what is changed in it."""
        draft = Data()
        draft.queues = self.queues.draft()
        draft.streams = self.streams.draft()
        draft.leases = self.leases.copy()
        draft.schedules = self.schedules.copy()
        draft._last = self._last.copy()
        return draft

    def adopt(self, draft: Data) -> None:
        """A draft takes the place of what it was made from; nobody else has written since."""
        self.queues.adopt(draft.queues)
        self.streams.adopt(draft.streams)
        self.leases = draft.leases
        self.schedules = draft.schedules
        self._last = draft._last
