"""What a store says when its file, its disk or its neighbours fail."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import tracemalloc

import pytest
from conftest import Refused, runners

from alkstore_core.sql.op import Mode
from alkstore_localstores import LocalKv, LocalStoreError, files, queue_ops
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.messages import Payload
from alkstore_localstores.opening import Opener


async def test_a_closed_store_says_so(tmp_path, driver):
    """Before it is opened and after it is closed."""
    kv = LocalKv(tmp_path, driver=driver)
    for _ in range(2):
        with pytest.raises(LocalStoreError, match="closed") as caught:
            await kv.get("k")
        assert caught.value.code == "KV_OPERATION_FAILED"
        async with kv:
            await kv.put("k", b"v")


async def test_a_close_finishes_what_was_accepted(tmp_path, driver):
    """Every put that was begun before it is in the file."""
    kv = LocalKv(tmp_path, driver=driver)
    await kv.open()
    puts = [asyncio.create_task(kv.put(f"k{n}", b"v")) for n in range(50)]
    await asyncio.sleep(0)
    await kv.close()
    assert await asyncio.gather(*puts) == [True] * 50
    async with LocalKv(tmp_path, driver=driver) as kv:
        assert await kv.len() == 50


@pytest.mark.parametrize("how", ["delete", "replace"])
async def test_a_file_that_is_gone_is_an_error(tmp_path, driver, how):
    """No write goes to a file that nobody will find, and none is made anew behind our back."""
    async with LocalKv(tmp_path, driver=driver) as kv:
        await kv.put("k", b"v")
        path = tmp_path / "localkv.sqlite"
        path.rename(tmp_path / "elsewhere")
        if how == "replace":
            path.write_bytes(b"")
        for call in (kv.put("k", b"w"), kv.get("k")):
            with pytest.raises(LocalStoreError, match="deleted or replaced") as caught:
                await call
            assert caught.value.code == "KV_OPERATION_FAILED"
    assert path.exists() == (how == "replace")


async def test_a_lock_that_lasts_is_an_error(tmp_path, monkeypatch):
    """Nothing was done; reads go on, and so do writes when the lock is gone."""
    monkeypatch.setattr(files, "BUSY_SECONDS", 0.2)
    async with LocalKv(tmp_path) as kv:
        await kv.put("k", b"v")
        with contextlib.closing(
            sqlite3.connect(tmp_path / "localkv.sqlite", isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LocalStoreError, match=r"locked.*0\.2 s; nothing") as caught:
                await kv.put("k", b"w")
            assert (caught.value.code, caught.value.retryable) == ("KV_OPERATION_FAILED", True)
            assert (await kv.get("k")).value == b"v"
            other.execute("ROLLBACK")
        assert await kv.put("k", b"w") is True


async def test_a_cancelled_open_leaves_nothing_open(tmp_path, driver):
    """Whatever it had come to, the next store has the directory for itself."""
    for pause in (0, 0.001, 0.005, 0.02):
        kv = LocalKv(tmp_path, driver=driver)
        opening = asyncio.create_task(kv.open())
        await asyncio.sleep(pause)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await kv.close()
    other = {"sqlite3": "turso", "turso": "sqlite3"}[driver]
    async with LocalKv(tmp_path, driver=other) as kv:
        await kv.put("k", b"v")


class Held:
    """Something that stops a store's thread until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._gone_on = threading.Event()

    def wait(self) -> None:
        """Where the thread stops."""
        self.reached.set()
        assert self._gone_on.wait(60)

    def let_go(self) -> None:
        """Let the thread go on."""
        self._gone_on.set()


async def turns() -> None:
    """Let every task come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_cancelled_close_ends_first(tmp_path):
    """So does another one, and nobody can open the store before."""
    before = runners()
    held = Held()

    def clock() -> int:
        held.wait()
        return 1

    file = StoreFile(tmp_path, QUEUE, clock=clock)
    await file.open()
    sent = file.run(Mode.WRITE, queue_ops.send, Payload("text", "x"))
    sending = asyncio.ensure_future(sent)
    try:
        assert await asyncio.to_thread(held.reached.wait, 60)
        first, second = (asyncio.create_task(file.close()) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        third = asyncio.create_task(file.close())
        await turns()
        assert [task.done() for task in (first, second, third)] == [False] * 3
        with pytest.raises(LocalStoreError, match="already open"):
            await file.open()
    finally:
        held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.gather(second, third, sending)
    assert runners() == before
    async with file:
        assert await file.run(Mode.READ, queue_ops.stats) == (1, 1, 0)


async def test_an_open_that_is_cancelled_twice_leaves_no_thread(tmp_path, monkeypatch):
    """It goes on when what it has begun is undone."""
    before = runners()
    held = Held()
    connect = Opener.connect

    def slow(opener):
        held.wait()
        return connect(opener)

    monkeypatch.setattr(Opener, "connect", slow)
    kv = LocalKv(tmp_path)
    opening = asyncio.create_task(kv.open())
    try:
        assert await asyncio.to_thread(held.reached.wait, 60)
        for _ in range(2):
            opening.cancel()
            await turns()
        closing = asyncio.create_task(kv.close())
        await turns()
        assert (opening.done(), closing.done()) == (False, False)
    finally:
        held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await closing
    assert runners() == before


async def test_a_close_during_an_open_closes_what_that_opened(tmp_path, monkeypatch):
    """No half of it stays open."""
    before = runners()
    held = Held()
    connect = Opener.connect

    def slow(opener):
        held.wait()
        return connect(opener)

    monkeypatch.setattr(Opener, "connect", slow)
    kv = LocalKv(tmp_path)
    opening = asyncio.create_task(kv.open())
    try:
        assert await asyncio.to_thread(held.reached.wait, 60)
        closing = asyncio.create_task(kv.close())
        await turns()
    finally:
        held.let_go()
    await asyncio.gather(opening, closing)
    assert runners() == before
    with pytest.raises(LocalStoreError, match="closed"):
        await kv.get("k")


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path, driver, spawn):
    """Puts fail, reads go on, and with room on the disk so do puts."""
    actor = spawn("actor.py", "kv", driver, tmp_path)
    actor.do("open")
    actor.do("put", "first", "v")
    actor.do("limit_files", 300_000)
    kept = []
    with contextlib.suppress(Refused):
        for number in range(100):
            actor.do("put", f"k:{number:03}", "x" * 20_000)
            kept.append(f"k:{number:03}")
    assert 0 < len(kept) < 100
    with pytest.raises(Refused, match="KV_OPERATION_FAILED"):
        actor.do("put", "k:more", "x" * 20_000)
    assert actor.do("get", "first") == "v"
    actor.do("limit_files", None)
    assert actor.do("put", "last", "v") is True
    assert actor.do("page", "k:", 200)[: len(kept)] == kept
    actor.kill()
    again = spawn("actor.py", "kv", driver, tmp_path)
    again.do("open")
    assert again.do("get", "last") == "v"
    assert again.do("page", "k:", 200)[: len(kept)] == kept


def test_a_disk_that_is_full_from_the_start_leaves_nothing(tmp_path, driver, spawn):
    """Without room for the file there is no half a file."""
    actor = spawn("actor.py", "kv", driver, tmp_path / "kv")
    actor.do("limit_files", 8192)
    with pytest.raises(Refused, match="LOCAL_FILESYSTEM_ERROR"):
        actor.do("open")
    assert list((tmp_path / "kv").iterdir()) == []
    actor.do("limit_files", None)
    actor.do("open")
    assert actor.do("put", "k", "v") is True


def test_a_read_only_file_is_refused(tmp_path, driver, spawn, snapshot):
    """By an open, not by the first write; nothing is changed, and rights make it whole."""
    ours = spawn("actor.py", "kv", driver, tmp_path)
    ours.do("open")
    ours.do("put", "k", "v")
    ours.stop()
    path = tmp_path / "localkv.sqlite"
    for suffix in ("-wal", "-tshm"):
        (tmp_path / f"localkv.sqlite{suffix}").unlink(missing_ok=True)
    path.chmod(0o444)
    before = snapshot(tmp_path)
    actor = spawn("actor.py", "kv", driver, tmp_path)
    actor.do("obey_file_modes")
    with pytest.raises(Refused, match=r"BINDING_SETUP_FAILED.*read-only"):
        actor.do("open")
    assert before == snapshot(tmp_path)
    path.chmod(0o644)
    actor.do("open")
    assert actor.do("get", "k") == "v"


def test_a_read_only_directory_is_refused(tmp_path, driver, spawn):
    """As the system says it."""
    home = tmp_path / "kv"
    home.mkdir()
    home.chmod(0o555)
    actor = spawn("actor.py", "kv", driver, home)
    actor.do("obey_file_modes")
    with pytest.raises(Refused, match="LOCAL_FILESYSTEM_ERROR"):
        actor.do("open")
    home.chmod(0o755)
    assert list(home.iterdir()) == []
    actor.do("open")


FORKS = """
import asyncio, os, sys
from alkstore_localstores import LocalKv, LocalStoreError
from alkstore_localstores.formats import KV
from alkstore_localstores.opening import Opener
def child(driver, path):
    try:
        Opener(path, KV, driver).connect()
    except LocalStoreError as error:
        return 7 if "forked" in str(error) else 8
    return 9
async def main(driver, directory):
    async with LocalKv(directory, driver=driver) as kv:
        await kv.put("k", b"v")
        pid = os.fork()
        if not pid:
            os._exit(child(driver, directory + "/localkv.sqlite"))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        await kv.put("k", b"w")
    async with LocalKv(directory, driver=driver) as kv:
        assert (await kv.get("k")).value == b"w"
    return status
sys.exit(asyncio.run(main(*sys.argv[1:])))
"""


def test_a_forked_child_does_not_join_its_parents_file(tmp_path, driver):
    """The parent's locks are not the child's: it is refused, and the parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, driver, tmp_path],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ,
    )
    assert done.returncode == 7, done.stderr


async def test_a_scan_of_a_large_table_reads_a_page_at_a_time(tmp_path, driver):
    """The memory of a scan does not grow with what lies behind its page."""
    async with LocalKv(tmp_path, driver=driver) as kv:
        await asyncio.gather(*(kv.put(f"k:{n:05}", b"x" * 2000) for n in range(5000)))
        tracemalloc.start()
        try:
            count = 0
            async for _ in kv.scan("k:"):
                count += 1
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert count == 5000
    # A page is some 3 MB; all of them would be 15.
    assert peak < 9_000_000
