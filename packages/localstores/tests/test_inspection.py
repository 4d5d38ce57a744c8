"""Looking into stopped stores, and into nothing else."""

import asyncio
import contextlib
import json
import shutil
import sqlite3

import pytest

from alkstore_localstores import LocalKv, LocalStoreError
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.inspection import inspect_file


async def fill(home, driver):
    """A closed key-value store of three entries, one of them expired."""
    async with LocalKv(home, driver=driver) as kv:
        await kv.put("a", b"1")
        await kv.put("b", b"2", ttl=1000)
        await kv.put("c", b"3", ttl=0)


async def test_a_key_value_store(tmp_path, driver, snapshot):
    """Its format and its rows by state; nothing is changed."""
    await fill(tmp_path, driver)
    before = snapshot(tmp_path)
    found = inspect_file(tmp_path / "localkv.sqlite")
    assert before == snapshot(tmp_path)
    assert found.format == "localkv.v2"
    assert found.counts == {"total": 3, "live": 2, "expired": 1}
    assert (found.intact, found.problems) == (True, [])
    assert (found.pages * found.page_size) == (tmp_path / "localkv.sqlite").stat().st_size
    assert found.wal_frames == 0


async def test_a_queue(tmp_path, driver):
    """Due, leased and delayed messages are told apart."""
    async with StoreFile(tmp_path, QUEUE, driver=driver):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "localqueue.sqlite")) as connection:
        for visible_at, receipt in ((1, None), (2**50, "uuid"), (2**50, None), (2, "old")):
            connection.execute(
                "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, "
                "receipt_handle) VALUES ('text', 'm', 1, ?, ?)",
                (visible_at, receipt),
            )
        connection.commit()
    found = inspect_file(tmp_path / "localqueue.sqlite")
    assert found.format == "localqueue.v1"
    assert found.counts == {"total": 4, "visible": 2, "inFlight": 1, "delayed": 1}


@pytest.mark.parametrize("index", [True, False])
async def test_a_log_is_read_and_kept(tmp_path, snapshot, index):
    """What only the log has is counted, and the log stays as it is."""
    home, copy = tmp_path / "kv", tmp_path / "copy"
    async with LocalKv(home) as kv:
        await kv.put("a", b"1")
        ignore = () if index else ("*-shm",)
        await asyncio.to_thread(
            shutil.copytree, home, copy, ignore=shutil.ignore_patterns(*ignore, "*-tshm")
        )
    before = snapshot(copy)
    found = inspect_file(copy / "localkv.sqlite")
    assert before == snapshot(copy)
    assert found.counts["total"] == 1
    assert found.wal_frames > 0
    assert found.wal_bytes == (copy / "localkv.sqlite-wal").stat().st_size


async def test_a_live_store_is_refused(tmp_path, driver, spawn):
    """Of this process and of another one, which is named."""
    path = tmp_path / "localkv.sqlite"
    async with LocalKv(tmp_path, driver=driver):
        with pytest.raises(LocalStoreError, match="in use") as caught:
            inspect_file(path)
        assert caught.value.code == "BINDING_SETUP_FAILED"
    other = spawn("actor.py", "kv", driver, tmp_path)
    other.do("open")
    with pytest.raises(LocalStoreError, match=f"in use by process.*{other.process.pid}"):
        inspect_file(path)
    other.kill()
    assert inspect_file(path).counts["total"] == 0


@pytest.mark.parametrize("engine", ["sqlite", "turso-single", "turso-multi"])
async def test_other_engines_keep_a_store_live(tmp_path, spawn, engine):
    """Whoever has the file open, guarded or not."""
    await fill(tmp_path, "sqlite3")
    other = spawn("actor.py", engine, tmp_path / "localkv.sqlite")
    other.do("open")
    with pytest.raises(LocalStoreError, match="in use"):
        inspect_file(tmp_path / "localkv.sqlite")
    other.stop()
    assert inspect_file(tmp_path / "localkv.sqlite").counts["total"] == 3


async def test_what_is_no_store_is_refused(tmp_path):
    """A missing file, garbage, another format, no format."""
    path = tmp_path / "file"
    for content in (None, b"garbage" * 1000):
        if content:
            path.write_bytes(content)
        with pytest.raises(LocalStoreError) as caught:
            inspect_file(path)
        assert caught.value.code == "BINDING_SETUP_FAILED"
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        with pytest.raises(LocalStoreError):
            inspect_file(path)
        connection.execute("CREATE TABLE meta (key TEXT, value TEXT)")
        connection.execute("INSERT INTO meta VALUES ('format', 'localkv.v1')")
        connection.commit()
    with pytest.raises(LocalStoreError, match=r"localkv\.v1.*localkv\.v2"):
        inspect_file(path)


async def test_a_directory_is_no_store(tmp_path, driver):
    """Which file to name instead is said."""
    await fill(tmp_path, driver)
    with pytest.raises(LocalStoreError, match=r"localkv\.sqlite or localqueue\.sqlite"):
        inspect_file(tmp_path)


async def test_damage_is_found(tmp_path):
    """A page that belongs to nothing is told with SQLite's words."""
    async with LocalKv(tmp_path) as kv:
        await asyncio.gather(*(kv.put(f"k:{n:03}", b"x" * 100) for n in range(300)))
    path = tmp_path / "localkv.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE lost (a)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'lost'")
        connection.commit()
    found = inspect_file(path)
    assert not found.intact
    assert found.problems
    json.dumps(found.fields())
