"""What callers give by iterating is iterated in their own thread.

A generator may block, may use a connection that belongs to the thread, or may call the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from alkstore_core.sync.jobs import SyncJobHandle

if TYPE_CHECKING:
    from alkstore_core.jobs import JobHandle

T = TypeVar("T")


def collected(payloads: Iterable[T]) -> Iterable[T]:
    """The payloads as a list; what is none of several payloads is left to be refused."""
    if isinstance(payloads, (str, bytes, dict)) or not isinstance(payloads, Iterable):
        return payloads
    return list(payloads)


@overload
def wrapped_handles(handles: Iterable[SyncJobHandle]) -> list[JobHandle]: ...
@overload
def wrapped_handles(handles: Iterable[SyncJobHandle | int]) -> list[JobHandle | int]: ...
def wrapped_handles(handles: Iterable[Any]) -> list[Any]:
    """The asynchronous handles; all else stays, to be used or refused as there."""
    return [h.wrapped if isinstance(h, SyncJobHandle) else h for h in handles]
