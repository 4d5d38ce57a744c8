"""Fixtures for pytest: a store in memory, and its time. They do nothing until asked for.

Loaded with every run of pytest, so nothing is imported before a fixture is used. The fixtures
are plain ones: they serve async tests of whichever plugin runs them, and tests that block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alkstore_core import ManualClock
    from alkstore_core.sync import SyncStore
    from alkstore_mem import MemStore


@pytest.fixture
def alk_clock() -> ManualClock:
    """The time of the test's store, which stands still until `await alk_clock.advance(seconds)`."""
    from alkstore_core import ManualClock  # noqa: PLC0415 - see above

    return ManualClock()


@pytest.fixture
def alk_store(request: pytest.FixtureRequest, alk_clock: ManualClock) -> Iterator[MemStore]:
    """A store of this test's own, empty, on the time of `alk_clock`; opened by its first call."""
    from alkstore_mem.testing.stores import SelfOpeningStore  # noqa: PLC0415

    for name in request.fixturenames:
        # The loop of pytest-asyncio: what is set up before this is there until this is closed.
        if name.endswith("_scoped_runner"):
            request.getfixturevalue(name)
    store = SelfOpeningStore(alk_clock)
    yield store
    store.finish()


@pytest.fixture
def alk_sync_store(alk_store: MemStore) -> Iterator[SyncStore[MemStore]]:
    """The same store for a test that blocks, open."""
    from alkstore_core.sync import SyncStore  # noqa: PLC0415

    with SyncStore(alk_store) as store:
        yield store
