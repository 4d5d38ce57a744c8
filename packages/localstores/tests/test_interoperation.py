"""Files that the other engine has written, after a stop and after a kill.

The other engine is pyturso itself or the plain `sqlite3` module, in processes of their own.
"""

import contextlib
import sqlite3

import pytest

from alkstore_localstores import LocalKv
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import KV, QUEUE

# Files and locks, whichever interpreter it is.
pytestmark = pytest.mark.once

INSERT = "INSERT INTO kv (key, value, expires_at, version) VALUES (?, CAST(? AS BLOB), NULL, 'v')"
SEND = (
    "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) "
    "VALUES ('text', ?, 1, 1, 0) RETURNING id"
)
MAKE_KV = [
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "INSERT OR IGNORE INTO meta (key, value) VALUES ('format', 'localkv.v2')",
    """CREATE TABLE IF NOT EXISTS kv (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at INTEGER, version TEXT NOT NULL
    )""",
]

engines = pytest.mark.parametrize("engine", ["turso-multi", "turso-single", "sqlite"])


@pytest.fixture
def path(tmp_path):
    """The key-value store's file."""
    return tmp_path / "localkv.sqlite"


def intact(path) -> bool:
    """Whether SQLite finds nothing to complain about."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@engines
@pytest.mark.parametrize("ends", ["stop", "kill"])
async def test_what_the_other_engine_wrote_is_read(tmp_path, path, driver, spawn, engine, ends):
    """A file the other engine made, whether it was closed or left with a log full of commits."""
    other = spawn("actor.py", engine, path)
    other.do("open")
    for statement in MAKE_KV:
        other.do("sql", statement)
    for number in range(100):
        other.do("sql", INSERT, f"k{number}", f"v{number}")
    getattr(other, ends)()
    async with LocalKv(tmp_path, driver=driver) as kv:
        assert await kv.len() == 100
        assert (await kv.get("k99")).value == b"v99"
        entry = await kv.get("k7")
        assert await kv.put("k7", b"ours", if_version=entry.version)
    # And on it goes.
    other = spawn("actor.py", engine, path)
    other.do("open")
    assert other.do("sql", "SELECT value FROM kv WHERE key = 'k7'") == [["ours"]]
    assert other.do("sql", "SELECT count(*) FROM kv") == [[100]]
    other.do("sql", INSERT, "last", "theirs")
    getattr(other, ends)()
    async with LocalKv(tmp_path, driver=driver) as kv:
        assert (await kv.get("last")).value == b"theirs"
    assert intact(path)


@engines
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_what_we_wrote_is_read_by_the_other_engine(tmp_path, path, driver, spawn, engine, ends):
    """A file of ours, whether it was closed or left with a log full of commits."""
    ours = spawn("actor.py", "kv", driver, tmp_path)
    ours.do("open")
    for number in range(100):
        ours.do("put", f"k{number}", f"v{number}")
    getattr(ours, ends)()
    other = spawn("actor.py", engine, path)
    other.do("open")
    assert other.do("sql", "SELECT count(*) FROM kv") == [[100]]
    assert other.do("sql", "SELECT value FROM kv WHERE key = 'k99'") == [["v99"]]
    assert other.do("sql", "SELECT value FROM meta WHERE key = 'format'") == [["localkv.v2"]]
    other.do("sql", INSERT, "last", "theirs")
    other.stop()
    ours = spawn("actor.py", "kv", driver, tmp_path)
    ours.do("open")
    assert ours.do("get", "last") == "theirs"
    ours.stop()
    assert intact(path)


@pytest.mark.once
def test_kills_in_turn_lose_nothing(tmp_path, path, spawn):
    """Both drivers in turn, each killed in full flight: what was acknowledged is there."""
    last = -1
    for turn in range(6):
        ours = spawn("actor.py", "kv", ("sqlite3", "turso")[turn % 2], tmp_path)
        ours.do("open")
        present = {int(key[2:]) for key in ours.do("page", "n:", 1_000_000)}
        assert present >= set(range(last + 1))
        ours.order("stream", last + 1)
        for _ in range(40):
            last = ours.answer()
        ours.kill()
    assert intact(path)


def test_a_store_turso_had_checkpointed_and_we_then_used_opens_there(tmp_path, path, spawn):
    """Coordination data that Turso left behind is gone before it could mislead Turso."""
    turso = spawn("actor.py", "turso-multi", path)
    turso.do("open")
    for statement in MAKE_KV:
        turso.do("sql", statement)
    turso.do("sql", "PRAGMA wal_checkpoint(TRUNCATE)")
    turso.stop()
    assert (tmp_path / "localkv.sqlite-tshm").stat().st_size > 0
    for ends in ("stop", "kill"):
        ours = spawn("actor.py", "kv", "sqlite3", tmp_path)
        ours.do("open")
        ours.do("put", ends, "ours")
        getattr(ours, ends)()
        turso = spawn("actor.py", "turso-multi", path)
        turso.do("open")
        assert turso.do("sql", "SELECT value FROM kv WHERE key = ?", ends) == [["ours"]]
        turso.do("sql", INSERT, f"turso-{ends}", "theirs")
        turso.stop()
    assert intact(path)


@pytest.mark.parametrize("engine", ["turso-single", "sqlite"])
async def test_ids_of_a_queue_are_never_used_again(tmp_path, driver, spawn, engine):
    """Whoever deletes the last message: the next one has a higher id, on either engine."""
    path = tmp_path / "localqueue.sqlite"
    async with StoreFile(tmp_path, QUEUE, driver=driver):
        pass
    last = 0
    for turn in range(4):
        name = engine if turn % 2 else ("sqlite" if driver == "sqlite3" else "turso-single")
        actor = spawn("actor.py", name, path)
        actor.do("open")
        ((number,),) = actor.do("sql", SEND, "m")
        assert number > last
        last = number
        actor.do("sql", "DELETE FROM messages")
        actor.stop()
    async with StoreFile(tmp_path, QUEUE, driver=driver):
        pass
    assert intact(path)


async def test_a_file_of_ours_is_the_same_from_both_drivers(tmp_path):
    """Which driver made it cannot be told."""
    made = {}
    for driver in ("sqlite3", "turso"):
        async with StoreFile(tmp_path / driver, KV, driver=driver):
            pass
        made[driver] = (tmp_path / driver / "localkv.sqlite").read_bytes()
    assert made["sqlite3"] == made["turso"]
