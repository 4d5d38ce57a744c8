"""Plain SQLite and Turso's multi-process mode are never on one file at the same time."""

import concurrent.futures
import contextlib
import fcntl
import os

import pytest
from conftest import Refused

from alkstore_localstores import LocalKv, LocalStoreError
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.guard import Guard, _lock, is_live, is_locked
from alkstore_localstores.holders import refuse_live

# Files and locks, whichever interpreter it is.
pytestmark = pytest.mark.once

DRIVERS = ("sqlite3", "turso")
INSERT = "INSERT INTO kv VALUES (?, CAST('v' AS BLOB), NULL, 'v')"


@pytest.fixture
def path(tmp_path):
    """The key-value store's file."""
    return tmp_path / "localkv.sqlite"


def opened(spawn, *arguments):
    """An actor that has opened its file."""
    actor = spawn("actor.py", *arguments)
    actor.do("open")
    return actor


@pytest.mark.parametrize("ends", ["stop", "kill"])
@pytest.mark.parametrize("other", ["ours", "raw"])
def test_a_live_turso_is_not_joined(tmp_path, path, spawn, other, ends):
    """We are refused while Turso is there, and welcome when it is not; nothing is lost."""
    turso = opened(spawn, "kv", "turso", tmp_path)
    turso.do("put", "k", "before")
    if other == "raw":
        turso.stop()
        turso = opened(spawn, "turso-multi", path)
    ours = spawn("actor.py", "kv", "sqlite3", tmp_path)
    with pytest.raises(Refused, match=r"BINDING_SETUP_FAILED.*Turso.*driver=.turso"):
        ours.do("open")
    if other == "ours":
        turso.do("put", "late", "committed")
    else:
        turso.do("sql", "INSERT INTO kv VALUES ('late', CAST('committed' AS BLOB), NULL, 'v')")
    getattr(turso, ends)()
    ours.do("open")
    assert ours.do("get", "k") == "before"
    assert ours.do("get", "late") == "committed"
    ours.stop()


@pytest.mark.parametrize("ends", ["stop", "kill"])
@pytest.mark.parametrize("other", ["ours", "raw"])
def test_a_live_store_of_ours_is_not_joined_by_turso(tmp_path, path, spawn, other, ends):
    """Turso is refused while we are there, and welcome when we are not; nothing is lost."""
    ours = opened(spawn, "kv", "sqlite3", tmp_path)
    ours.do("put", "k", "before")
    arguments = ("turso-multi", path) if other == "raw" else ("kv", "turso", tmp_path)
    turso = spawn("actor.py", *arguments)
    with pytest.raises(Refused):
        turso.do("open")
    ours.do("put", "late", "committed")
    getattr(ours, ends)()
    turso.do("open")
    if other == "raw":
        assert turso.do("sql", "SELECT value FROM kv WHERE key = 'late'") == [["committed"]]
    else:
        assert turso.do("get", "late") == "committed"
    turso.stop()


@pytest.mark.parametrize("names", [("real", "link"), ("link", "real")])
@pytest.mark.parametrize("order", [("sqlite3", "turso"), ("turso", "sqlite3")])
def test_a_link_in_place_of_the_file_hides_nobody(tmp_path, spawn, names, order):
    """Logs and guards lie beside the file itself: else both would be let in, and rows vanish."""
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "localkv.sqlite").symlink_to(tmp_path / "real" / "localkv.sqlite")
    made = opened(spawn, "kv", "sqlite3", tmp_path / "real")
    made.do("put", "k", "before")
    made.stop()
    first, second = (
        spawn("actor.py", "kv", driver, tmp_path / name)
        for driver, name in zip(order, names, strict=True)
    )
    first.do("open")
    with pytest.raises(Refused, match="BINDING_SETUP_FAILED"):
        second.do("open")
    first.do("put", "late", "committed")
    first.stop()
    second.do("open")
    assert [second.do("get", key) for key in ("k", "late")] == ["before", "committed"]
    second.stop()
    assert [path.name for path in (tmp_path / "link").iterdir()] == ["localkv.sqlite"]


def test_turso_that_opens_second_and_leaves_first_takes_nothing_along(tmp_path, path, spawn):
    """The order in which rows were lost: SQLite opens, Turso comes and goes, SQLite writes."""
    ours = opened(spawn, "kv", "sqlite3", tmp_path)
    turso = spawn("actor.py", "turso-multi", path)
    for number in range(20):
        with pytest.raises(Refused):
            turso.do("open")
        ours.do("put", f"k{number}", "v")
    ours.stop()
    turso.do("open")
    assert turso.do("sql", "SELECT count(*) FROM kv") == [[20]]


def test_a_reader_of_ours_keeps_turso_out_to_its_end(tmp_path, path, spawn):
    """Of two stores the second to close opens the door."""
    first, second = (opened(spawn, "kv", "sqlite3", tmp_path) for _ in range(2))
    turso = spawn("actor.py", "turso-multi", path)
    for ends in (first.stop, second.kill):
        with pytest.raises(Refused):
            turso.do("open")
        ends()
    turso.do("open")


def test_a_turso_that_has_the_file_for_itself_is_not_joined(tmp_path, path, spawn, driver):
    """Single-process mode locks the file as such; an open ends in an error, not in two worlds."""
    opened(spawn, "kv", driver, tmp_path).stop()
    turso = opened(spawn, "turso-single", path)
    ours = spawn("actor.py", "kv", driver, tmp_path)
    with pytest.raises(Refused, match="BINDING_SETUP_FAILED"):
        ours.do("open")
    turso.do("sql", "INSERT INTO kv VALUES ('k', x'41', NULL, 'v')")
    turso.kill()
    ours.do("open")
    assert ours.do("get", "k") == "A"


@pytest.mark.once
@pytest.mark.timeout(300)
def test_three_hundred_opens_at_once(tmp_path, path, spawn):
    """Both drivers and Turso itself rush a stale file; whoever gets in keeps every row."""
    opened(spawn, "kv", "turso", tmp_path).kill()
    ours = [spawn("actor.py", "kv", DRIVERS[n % 2], tmp_path) for n in range(9)]
    turso = [spawn("actor.py", "turso-multi", path) for _ in range(3)]
    kept = []
    for turn in range(25):
        names = [f"k:{turn}:{number}" for number in range(len(ours) + len(turso))]
        for actor, name in zip(ours + turso, names, strict=True):
            put = ("put", name, "v") if actor in ours else ("sql", INSERT, name)
            for order in (("open",), put, ("close",)):
                actor.order(*order)
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            done = pool.map(_was_put, ours + turso)
            kept += [name for name, was_put in zip(names, done, strict=True) if was_put]
    for driver in DRIVERS:
        reader = opened(spawn, "kv", driver, tmp_path)
        assert sorted(kept) == sorted(reader.do("page", "k:", 10_000))
        reader.stop()
    assert len(kept) >= 25


def _was_put(actor) -> bool:
    """Whether the second of an actor's three orders was carried out."""
    outcomes = []
    for _ in range(3):
        try:
            actor.answer()
        except Refused as error:
            outcomes.append(str(error))
        else:
            outcomes.append(None)
    is_open, is_put, _ = outcomes
    # A store of ours that was refused says why; one that was opened does what it is told.
    assert is_open is None or "LocalStoreError" not in is_open or "BINDING_SETUP" in is_open
    assert (is_open is None) == (is_put is None), outcomes
    return is_put is None


def test_the_lock_file_is_there_as_long_as_somebody_needs_it(tmp_path):
    """Empty, locked by each, and gone with the last; a stale one is emptied."""
    database = str(tmp_path / "db")
    shared = tmp_path / "db-tshm"
    shared.write_bytes(b"x" * 4096)
    first = Guard(database, 1)
    assert shared.stat().st_size == 0
    second = Guard(database, 1)
    first.release()
    first.release()
    assert is_locked(str(shared))
    assert not is_live(database)
    second.release()
    assert not shared.exists()


def test_the_guard_waits_for_whoever_is_about_to_find_out(tmp_path):
    """A lock for writing is held for a moment; one that lasts is an error that names the file."""
    database = str(tmp_path / "db")
    descriptor = os.open(f"{database}-tshm", os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(descriptor, 4096)
        assert _lock(descriptor, fcntl.F_WRLCK)
        assert not is_live(database)
        with pytest.raises(LocalStoreError, match=r"db-tshm was not to be had for 0\.05 s"):
            Guard(database, 0.05)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(Guard, database, 30)
            with pytest.raises(TimeoutError):
                waiting.result(0.05)
            _lock(descriptor, fcntl.F_UNLCK)
            waiting.result(30).release()
    finally:
        os.close(descriptor)


def test_a_lock_file_that_is_replaced_meanwhile_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """Between the open and the lock another store may have unlinked the file."""
    database = str(tmp_path / "db")
    unlinked = []
    real = os.open

    def open_then_lose(path, *arguments):
        descriptor = real(path, *arguments)
        if not unlinked:
            unlinked.append(path)
            os.unlink(path)  # noqa: PTH108 - as the guard does
        return descriptor

    monkeypatch.setattr("alkstore_localstores.guard.os.open", open_then_lose)
    held = Guard(database, 1)
    assert is_locked(f"{database}-tshm")
    held.release()


@pytest.mark.parametrize("engine", ["turso-single", "turso-multi"])
async def test_a_queue_on_sqlite_keeps_turso_out(tmp_path, spawn, engine):
    """From its first look on, and in either mode; when it has closed Turso is welcome."""
    turso = spawn("actor.py", engine, tmp_path / "localqueue.sqlite")
    async with StoreFile(tmp_path, QUEUE):
        with pytest.raises(Refused):
            turso.do("open")
    turso.do("open")
    assert turso.do("sql", "SELECT count(*) FROM messages") == [[0]]


@pytest.mark.parametrize("engine", ["sqlite", "turso-single"])
async def test_a_queue_on_turso_keeps_others_out(tmp_path, spawn, engine):
    """It has its file for itself."""
    other = spawn("actor.py", engine, tmp_path / "localqueue.sqlite")
    async with StoreFile(tmp_path, QUEUE, driver="turso"):
        # SQLite finds out with its first statement only.
        with contextlib.suppress(Refused):
            other.do("open")
        with pytest.raises(Refused):
            other.do("sql", "SELECT count(*) FROM messages")
    other.do("open")
    assert other.do("sql", "SELECT count(*) FROM messages") == [[0]]


@pytest.mark.parametrize("engine", ["sqlite", "turso-single", "turso-multi"])
async def test_a_queue_on_turso_joins_nobody(tmp_path, spawn, engine):
    """Whoever has the file open already."""
    async with StoreFile(tmp_path, QUEUE, driver="turso"):
        pass
    other = spawn("actor.py", engine, tmp_path / "localqueue.sqlite")
    other.do("open")
    other.do("sql", "SELECT count(*) FROM messages")
    with pytest.raises(LocalStoreError) as caught:
        await StoreFile(tmp_path, QUEUE, driver="turso").open()
    assert caught.value.code == "BINDING_SETUP_FAILED"
    other.kill()
    async with StoreFile(tmp_path, QUEUE, driver="turso"):
        pass


async def test_what_a_link_leads_to_is_not_emptied(tmp_path, driver):
    """The guard's file is emptied, and somebody may have put a link in its place."""
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    (tmp_path / "kv").mkdir()
    (tmp_path / "kv" / "localkv.sqlite-tshm").symlink_to(other)
    with contextlib.suppress(LocalStoreError):
        async with LocalKv(tmp_path / "kv", driver=driver) as kv:
            await kv.put("k", b"v")
    assert other.read_bytes().startswith(b"precious")


async def test_a_lock_file_that_cannot_be_read_is_not_taken_for_free(tmp_path, path, driver):
    """Whoever cannot tell whether somebody is there must not open, move or inspect anything."""
    async with LocalKv(tmp_path, driver=driver):
        pass
    lock = tmp_path / "localkv.sqlite-tshm"
    lock.unlink(missing_ok=True)
    lock.symlink_to(lock)
    for ask in (is_locked, is_live):
        with pytest.raises(OSError, match="symbolic links"):
            ask(str(lock).removesuffix("-tshm" if ask is is_live else ""))
    with pytest.raises(LocalStoreError, match="in use cannot be told") as caught:
        refuse_live(str(path))
    assert caught.value.code == "LOCAL_FILESYSTEM_ERROR"
    with pytest.raises(LocalStoreError) as caught:
        await LocalKv(tmp_path, driver=driver).open()
    assert caught.value.code == "LOCAL_FILESYSTEM_ERROR"
    lock.unlink()
    async with LocalKv(tmp_path, driver=driver):
        pass


@pytest.mark.parametrize("suffix", ["-tshm", "-shm"])
def test_a_pipe_in_place_of_a_lock_file_holds_nobody_up(path, suffix):
    """It has no writer, and never will."""
    os.mkfifo(f"{path}{suffix}")
    assert not is_locked(f"{path}{suffix}")
    assert not is_live(str(path))
