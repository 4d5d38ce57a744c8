"""Locks for code that blocks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from types import TracebackType

    from alkstore_core.locks import Lock
    from alkstore_core.sync.bridge import Bridge


@final
class SyncLock:
    """A lease on a name, as `Lock`. It lapses silently unless renewed in time.

    `with` releases at the end.
    """

    __slots__ = ("_bridge", "_lock")

    def __init__(self, bridge: Bridge, lock: Lock) -> None:
        self._bridge = bridge
        self._lock = lock

    @property
    def name(self) -> str:
        """What is locked."""
        return self._lock.name

    @property
    def owner(self) -> str:
        """Who holds it."""
        return self._lock.owner

    @property
    def token(self) -> int:
        """The fencing token, strictly growing through the whole database."""
        return self._lock.token

    def renew(self, ttl: int) -> bool:
        """The lease now ends `ttl` seconds from now; `False` when it was no longer live."""
        return self._bridge.call(self._lock.renew, ttl)

    def release(self) -> bool:
        """The lock is free; `False` when the lease was no longer live."""
        return self._bridge.finish(self._lock.release, self._lock.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leave = self._lock.__aexit__
        self._bridge.finish(
            functools.partial(leave, exc_type, exc, None),
            functools.partial(leave, None, None, None),
        )
