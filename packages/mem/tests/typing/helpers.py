"""What the type checker has to know of the helpers for tests. Checked by mypy, run by nobody."""

from typing import assert_type

from alkstore_core import Job, StreamEvent
from alkstore_core.sync import SyncStore
from alkstore_mem import MemStore
from alkstore_mem.testing import Handled, assert_enqueued, assert_published, drain


async def awaited(store: MemStore) -> None:
    """For a store they are coroutines."""
    assert_type(await drain(store, "q", print), list[Handled])
    assert_type(await drain(store, outbox="o", handler=print, advance=True), list[Handled])
    assert_type(await assert_enqueued(store, "q", {"a": 1}, delay=5), list[Job])
    assert_type(await assert_published(store, "s", key=None), list[StreamEvent])
    assert_enqueued(store, "q", prio=5)  # type: ignore[call-overload]
    drain(store, "q")  # type: ignore[call-overload]


def blocking(store: SyncStore[MemStore]) -> None:
    """For a blocking store they are plain calls."""
    assert_type(drain(store, "q", print), list[Handled])
    assert_type(drain(store, outbox="o", handler=print), list[Handled])
    assert_type(assert_enqueued(store, outbox="o"), list[Job])
    assert_type(assert_published(store, "s"), list[StreamEvent])
