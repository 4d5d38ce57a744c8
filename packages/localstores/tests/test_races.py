"""Of racing writers one wins, over any number of handles and processes."""

import asyncio
import concurrent.futures

import pytest

from alkstore_localstores import LocalKv


async def test_of_many_handles_one_wins(tmp_path, driver):
    """A key that twenty handles put if it is absent is put once; so is an expired one."""
    handles = [LocalKv(tmp_path, driver=driver) for _ in range(20)]
    await asyncio.gather(*(kv.open() for kv in handles))
    try:
        for turn in range(10):
            if turn % 2:
                await handles[0].put(f"k{turn}", b"old", ttl=0)
            calls = (kv.put(f"k{turn}", b"v", if_absent=True) for kv in handles)
            assert (await asyncio.gather(*calls)).count(True) == 1
            version = (await handles[turn].get(f"k{turn}")).version
            calls = (kv.put(f"k{turn}", b"w", if_version=version) for kv in handles)
            assert (await asyncio.gather(*calls)).count(True) == 1
            version = (await handles[turn].get(f"k{turn}")).version
            calls = (kv.delete(f"k{turn}", if_version=version) for kv in handles)
            assert (await asyncio.gather(*calls)).count(True) == 1
    finally:
        await asyncio.gather(*(kv.close() for kv in handles))


def at_once(actors, *order):
    """Give all actors an order, and return their answers."""
    for actor in actors:
        actor.order(*order)
    with concurrent.futures.ThreadPoolExecutor(len(actors)) as pool:
        return list(pool.map(lambda actor: actor.answer(), actors))


@pytest.mark.once
def test_of_many_processes_one_wins(tmp_path, driver, spawn):
    """Each of 200 keys that four processes want goes to one; each increment counts once."""
    actors = [spawn("actor.py", "kv", driver, tmp_path) for _ in range(4)]
    at_once(actors, "open")
    names = [f"k{number}" for number in range(200)]
    won = at_once(actors, "take", names)
    assert sorted(names) == sorted(name for part in won for name in part)
    actors[0].do("put", "count", "0")
    at_once(actors, "increment", "count", 25)
    assert actors[0].do("get", "count") == "100"


async def test_callers_share_commits_and_not_errors(kv):
    """A refused call in the middle of a group fails alone."""
    calls = [kv.put(f"k{n}", b"v" if n != 7 else "no bytes") for n in range(20)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [n for n, outcome in enumerate(outcomes) if outcome is not True] == [7]
    assert await kv.len() == 19
