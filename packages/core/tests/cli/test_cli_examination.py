"""A check of `doctor` that the database refuses is told by the code that is documented."""

import pytest

from alkstore_core import DatabaseError
from alkstore_core.cli.examination import Bounds, examine

BOUNDS = Bounds(max_age=1, max_lag=1)


async def found(store):
    """What doctor finds: codes and severities."""
    return {result.code: result.severity async for result in examine(store, BOUNDS)}


async def refuse(*_, **__):
    """Refuse."""
    raise DatabaseError("the server is gone")


@pytest.mark.parametrize(
    ("call", "code"), [("now", "clock"), ("diagnose", "diagnose"), ("signal", "notify")]
)
async def test_a_refused_check_has_its_own_code(store, engine, monkeypatch, call, code):
    """The same as when it finds something else."""
    monkeypatch.setattr(engine.auto if call == "signal" else engine, call, refuse)

    assert "error" == (await found(store))[code]


async def test_a_database_that_reads_nothing(store, engine, monkeypatch):
    """It is said of reading, and of looking at what is there."""
    monkeypatch.setattr(engine.auto, "list_locks", refuse)

    codes = await found(store)

    assert ("error", "error") == (codes["latency"], codes["overview"])
