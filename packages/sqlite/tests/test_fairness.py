"""Processes that saturate one file get about the same and none is kept waiting."""

import pytest

pytestmark = pytest.mark.once


@pytest.mark.alone
@pytest.mark.parametrize("form", ["auto", "handle", "group"])
async def test_saturating_processes_share_the_file(path, spawn, scaled, form):
    """The slowest process does a fair part of what the fastest does, and never waits for long.

    A starving one does a hundredth or less, so the smaller scale of the default run is still
    far from both sides. At full scale the bar is the contract's: ten processes, 8 s, one half.
    """
    processes, seconds, part, longest = scaled((6, 3, 0.2, 2500), (10, 8, 0.5, 1000))
    children = [spawn("saturator.py", path, seconds, form) for _ in range(processes)]
    for child in children:
        await child.expect("ready", within=60)
    for child in children:
        child.tell("go")
    results = [(await child.expect("did", within=seconds + 20)).split() for child in children]

    counts = [int(count) for count, _ in results]
    waits = [int(wait) for _, wait in results]
    assert min(counts) >= part * max(counts), counts
    assert max(waits) < longest, waits
    for child in children:
        assert [] == await child.succeed()
