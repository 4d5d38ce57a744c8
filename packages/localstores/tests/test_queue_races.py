"""Receivers of many processes: each message goes to one of them."""

import asyncio

import pytest
from conftest import Refused

from alkstore_localstores import LocalStoreError
from alkstore_localstores.owner.admin import ask
from alkstore_localstores.queue import LocalQueue

# Files and locks, whichever interpreter it is.
pytestmark = pytest.mark.once

PROCESSES = 6
MESSAGES = 300


def taken_by(actors) -> list:
    """What each of them got, once all have begun at the same time."""
    for actor in actors:
        actor.do("open")
    for actor in actors:
        actor.order("take")
    found = [receipt for actor in actors for receipt in actor.answer()]
    for actor in actors:
        actor.stop()
    return found


def assert_each_once(found) -> None:
    """All messages were delivered, none of them twice."""
    ids = {receipt.split(":")[0] for receipt in found}
    assert MESSAGES == len(found) == len(ids)


async def fill(directory, driver="sqlite3") -> None:
    """Send all messages."""
    async with LocalQueue(directory, driver=driver) as queue:
        outcomes = await queue.send_batch(range(MESSAGES))
        assert {"sent"} == {outcome.status for outcome in outcomes}


async def test_processes_on_one_file_share_its_messages(tmp_path, spawn):
    """On plain SQLite, whose processes may meet on a queue even if they should not."""
    await fill(tmp_path)
    actors = [spawn("taker.py", "file", tmp_path) for _ in range(PROCESSES)]
    assert_each_once(await asyncio.to_thread(taken_by, actors))


@pytest.mark.parametrize("other", ["sqlite3", "turso"])
async def test_a_queue_on_turso_is_one_process_alone(tmp_path, spawn, other):
    """Another is refused, and the queue goes on."""
    async with LocalQueue(tmp_path, driver="turso") as queue:
        await queue.send("before")
        actor = spawn("taker.py", "file", tmp_path, other)
        said = await asyncio.to_thread(actor.do, "refused")
        assert "BINDING_SETUP_FAILED" == said
        await queue.send("after")
        assert 2 == (await queue.stats()).total


async def test_a_queue_on_sqlite_keeps_turso_away(tmp_path, spawn):
    """Its process has it alone from the moment it is open."""
    async with LocalQueue(tmp_path) as queue:
        actor = spawn("taker.py", "file", tmp_path, "turso")
        assert "BINDING_SETUP_FAILED" == await asyncio.to_thread(actor.do, "refused")
        raw = spawn("actor.py", "turso-single", tmp_path / "localqueue.sqlite")
        with pytest.raises(Refused):
            await asyncio.to_thread(raw.do, "open")
        await queue.send("x")
        assert 1 == (await queue.stats()).total


async def test_turso_keeps_a_queue_on_sqlite_away(tmp_path, spawn):
    """Whoever comes second is refused, and changes nothing."""
    await fill(tmp_path)
    raw = spawn("actor.py", "turso-single", tmp_path / "localqueue.sqlite")
    await asyncio.to_thread(raw.do, "open")
    with pytest.raises(LocalStoreError) as caught:
        await LocalQueue(tmp_path).open()
    assert "BINDING_SETUP_FAILED" == caught.value.code
    found = await asyncio.to_thread(raw.do, "sql", "SELECT count(*) FROM messages")
    assert [[MESSAGES]] == found


async def test_processes_share_an_owners_messages(tmp_path, driver, spawn):
    """Through HTTP, whichever driver the owner has."""
    made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
    await fill(tmp_path / "queue-owned" / "jobs", driver)
    address = await asyncio.to_thread(spawn("owner.py", tmp_path, 0, driver, 0).answer)
    endpoint = f"{address}/queues/jobs"
    actors = [spawn("taker.py", "http", endpoint, made["token"]) for _ in range(PROCESSES)]
    assert_each_once(await asyncio.to_thread(taken_by, actors))
