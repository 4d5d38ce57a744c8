"""A store over dicts whose time stands still."""

from __future__ import annotations

import pytest
from dict_engine import DictEngine

from alkstore_core import ManualClock, Store


@pytest.fixture
def clock():
    """Time that moves by hand, from 1,000."""
    return ManualClock(start=1_000)


@pytest.fixture
def engine(clock):
    """An engine with one writer."""
    return DictEngine(clock)


@pytest.fixture
async def store(engine):
    """An open store."""
    async with Store(engine) as opened:
        yield opened
        # What a failed test still holds would hold `close` for ever.
        engine.gates.clear()
        for gate in engine.held:
            gate.open()
