"""A fact that is not so does not pass."""

from attrs import evolve

from alkstore_contract.properties import manifest
from alkstore_contract.running import run
from alkstore_mem.contract import MemHarness


class Liar(MemHarness):
    """Says that memory outlives its process."""

    facts = evolve(MemHarness.facts, durability="durable")


def test_durable():
    """What dies with its process is not durable, also where one process at a time is all."""
    killed = manifest()["durability.killed"]
    assert run(MemHarness(), killed).error is None
    assert run(Liar(), killed).error is not None
