"""What a store opens, what it makes, and what it refuses without changing a byte."""

import asyncio
import contextlib
import errno
import os
import random
import shutil
import sqlite3
import sys

import pytest

from alkstore_localstores import LocalKv, LocalStoreError
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import KV, QUEUE
from alkstore_localstores.opening import make_directory
from alkstore_localstores.owner.state import OwnerLock, StateDirectory
from alkstore_localstores.owner.tokens import Tokens

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
TABLE = (
    "CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at INTEGER, "
    "version TEXT NOT NULL)"
)
HUNDRED_ROWS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) "
    "INSERT INTO kv SELECT 'k' || i, randomblob(1000), NULL, 'v' FROM n"
)


def make(path, *statements) -> None:
    """A database, closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()


def marked(marker) -> tuple[str, ...]:
    """What makes a file of a format."""
    return META, f"INSERT INTO meta VALUES ('format', {marker!r})"


@pytest.fixture
def home(tmp_path):
    """A data directory that is there."""
    home = tmp_path / "kv"
    home.mkdir()
    return home


@pytest.fixture
def path(home):
    """Where the database is, or would be."""
    return home / "localkv.sqlite"


@pytest.fixture
def refuses(home, driver, snapshot):
    """Opening is refused with a code, and every byte of every file is as before."""

    async def check(code="BINDING_SETUP_FAILED", *, match=None):
        before = snapshot(home)
        with pytest.raises(LocalStoreError, match=match) as caught:
            await LocalKv(home, driver=driver).open()
        assert code == caught.value.code
        assert before == snapshot(home)
        return caught.value

    return check


async def test_everything_is_made(tmp_path, driver):
    """The directory, the file, its tables and its marker; the file keeps a log."""
    home = tmp_path / "a" / "b" / "c"
    async with LocalKv(home, driver=driver) as kv:
        assert str(home) == kv.data_dir
        await kv.put("k", b"v")
    with contextlib.closing(sqlite3.connect(home / "localkv.sqlite")) as connection:
        assert connection.execute("SELECT * FROM meta").fetchall() == [("format", "localkv.v2")]
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        assert connection.execute("PRAGMA auto_vacuum").fetchall() == [(0,)]
        assert connection.execute("PRAGMA encoding").fetchall() == [("UTF-8",)]
        assert connection.execute("SELECT key, value FROM kv").fetchall() == [("k", b"v")]


async def test_a_new_file_obeys_the_umask(tmp_path, driver):
    """Others may read what the umask lets them."""
    before = os.umask(0o027)
    try:
        async with LocalKv(tmp_path, driver=driver):
            assert (tmp_path / "localkv.sqlite").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


async def test_nothing_else_is_left_behind(home, path):
    """On SQLite a closed store is one file."""
    async with LocalKv(home) as kv:
        await kv.put("k", b"v")
        assert (home / "localkv.sqlite-tshm").stat().st_size == 0
    assert [path] == list(home.iterdir())


async def test_reopening_writes_nothing(home, path, driver):
    """A file that has everything is not written to."""
    async with LocalKv(home, driver=driver) as kv:
        await kv.put("k", b"v")
    before = path.read_bytes()
    async with LocalKv(home, driver=driver) as kv:
        assert (await kv.get("k")).value == b"v"
    assert before == path.read_bytes()


@pytest.mark.parametrize("marker", ["localkv.v1", "localkv.v3", "localqueue.v1", "other", ""])
@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_another_format_is_refused(path, refuses, marker, mode):
    """The error names what was found and what is supported."""
    make(path, f"PRAGMA journal_mode={mode}", *marked(marker), "CREATE TABLE t (a)")
    error = await refuses()
    assert repr(marker) in error.message
    assert "'localkv.v2'" in error.message


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "alone"])
async def test_another_format_in_a_log_is_refused(home, path, refuses, index, tmp_path):
    """A marker that only the log has counts, and the log is kept."""
    make(tmp_path / "other" / "db", "PRAGMA journal_mode=wal")
    with contextlib.closing(
        sqlite3.connect(tmp_path / "other" / "db", isolation_level=None)
    ) as connection:
        for statement in marked("localkv.v1"):
            connection.execute(statement)
        for suffix in ("", "-wal", "-shm") if index else ("", "-wal"):
            shutil.copy(f"{tmp_path / 'other' / 'db'}{suffix}", f"{path}{suffix}")
    await refuses(match=r"localkv\.v1")
    names = {"localkv.sqlite", "localkv.sqlite-wal"} | ({"localkv.sqlite-shm"} if index else set())
    assert names == {entry.name for entry in home.iterdir()}


async def test_an_uncommitted_change_does_not_make_the_format(path, refuses, tmp_path):
    """What a crash left in the file and in a rollback journal is read as it was before."""
    source = tmp_path / "db"
    make(source, *marked("localkv.v1"), "CREATE TABLE t (a)")
    with contextlib.closing(sqlite3.connect(source, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN")
        connection.execute("UPDATE meta SET value = 'localkv.v2'")
        for _ in range(200):
            connection.execute("INSERT INTO t VALUES (zeroblob(4000))")
        shutil.copy(source, path)
        shutil.copy(f"{source}-journal", f"{path}-journal")
    assert b"localkv.v2" in path.read_bytes()
    await refuses(match=r"localkv\.v1")


async def test_a_half_done_change_is_undone(home, path, driver, tmp_path):
    """A store with a rollback journal, from before it kept a log, is opened as it was."""
    source = tmp_path / "db"
    make(source, *marked("localkv.v2"), TABLE, "INSERT INTO kv VALUES ('k', x'01', NULL, 'v')")
    with contextlib.closing(sqlite3.connect(source, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM kv")
        for number in range(200):
            connection.execute("INSERT INTO kv VALUES (?, zeroblob(4000), NULL, '')", (number,))
        shutil.copy(source, path)
        shutil.copy(f"{source}-journal", f"{path}-journal")
    async with LocalKv(home, driver=driver) as kv:
        assert await kv.keys() == ["k"]
        assert (await kv.get("k")).value == b"\x01"


async def test_garbage_is_refused(path, refuses):
    """What is no database is not touched."""
    path.write_bytes(random.Random(1).randbytes(20_000))
    await refuses()
    path.write_bytes(b"hello")
    await refuses()


async def test_a_directory_in_its_place_is_refused(path, refuses):
    """And so is what is no file at all."""
    path.mkdir()
    await refuses(match="directory")
    path.rmdir()
    os.mkfifo(path)
    await refuses(match="regular")
    path.unlink()


@pytest.mark.parametrize("page", [0, 1, 2, 3, 4, 20])
async def test_a_damaged_page_is_refused(path, refuses, page):
    """Whichever page it is: the schema's, the marker's, a root, or one of the rows."""
    make(path, *marked("localkv.v2"), TABLE, HUNDRED_ROWS)
    content = bytearray(path.read_bytes())
    start = page * 4096 + (100 if page == 0 else 0)
    content[start : start + 512] = random.Random(page).randbytes(512)
    path.write_bytes(content)
    await refuses()


@pytest.mark.parametrize("size", [50, 100, 512, 4096, 5000, 12_288, 40_000])
async def test_a_truncated_file_is_refused(path, refuses, size):
    """Wherever it was cut."""
    make(path, *marked("localkv.v2"), TABLE, HUNDRED_ROWS)
    os.truncate(path, size)
    await refuses()


async def test_utf_16_is_refused(path, refuses):
    """Turso could not read it."""
    make(path, "PRAGMA encoding='UTF-16le'", *marked("localkv.v2"))
    await refuses(match="UTF-16le")


async def test_auto_vacuum_is_refused(path, refuses):
    """Turso could not write it."""
    make(path, "PRAGMA auto_vacuum=1", *marked("localkv.v2"))
    await refuses(match="auto_vacuum")


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE meta (a)"],
        ["CREATE TABLE meta (key TEXT, value TEXT, more TEXT)"],
        ["CREATE VIEW meta AS SELECT 'format' AS key, 'localkv.v2' AS value"],
        ["CREATE TABLE kv (a)"],
        [*marked("localkv.v2"), "CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB)"],
        [META, "INSERT INTO meta VALUES ('format', x'00')"],
    ],
)
async def test_another_shape_is_refused(path, refuses, statements):
    """A table of our name that is not ours belongs to another program."""
    make(path, *statements)
    await refuses()


@pytest.mark.parametrize(
    "statements",
    [
        [],
        ["CREATE TABLE mine (a)", "INSERT INTO mine VALUES (7)"],
        [META],
        [META, "INSERT INTO meta VALUES ('other', 'x')"],
        [*marked("localkv.v2")],
        ["PRAGMA page_size=1024", META],
    ],
)
async def test_a_database_without_a_format_is_adopted(home, path, driver, statements):
    """What is in it already stays."""
    if statements:
        make(path, *statements)
    else:
        path.touch()
    async with LocalKv(home, driver=driver) as kv:
        await kv.put("k", b"v")
    async with LocalKv(home, driver=driver) as kv:
        assert (await kv.get("k")).value == b"v"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        marker = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchall()
        assert marker == [("localkv.v2",)]
        if "CREATE TABLE mine (a)" in statements:
            assert connection.execute("SELECT a FROM mine").fetchall() == [(7,)]


@pytest.mark.parametrize("there", [True, False], ids=["empty", "missing"])
async def test_a_log_without_its_database_is_refused(home, path, refuses, there):
    """SQLite would delete it, and with it what was committed."""
    make(path, "PRAGMA journal_mode=wal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        shutil.copy(f"{path}-wal", home / "kept")
    path.unlink()
    (home / "kept").rename(f"{path}-wal")
    if there:
        path.touch()
    await refuses(match="-wal holds transactions")


async def test_a_data_dir_below_a_file_is_a_filesystem_error(tmp_path, driver, snapshot):
    """The system's words are in the error, and the call may be made again."""
    (tmp_path / "file").write_text("x")
    before = snapshot(tmp_path)
    for place in ("file", "file/below", "file/far/below"):
        with pytest.raises(LocalStoreError, match=str(tmp_path)) as caught:
            await LocalKv(tmp_path / place, driver=driver).open()
        assert (caught.value.code, caught.value.retryable) == ("LOCAL_FILESYSTEM_ERROR", True)
    assert before == snapshot(tmp_path)


@pytest.mark.parametrize("given", [None, 7, [], object()])
def test_what_is_no_path_is_refused(given, driver):
    """Before anything is touched."""
    with pytest.raises(LocalStoreError) as caught:
        LocalKv(given, driver=driver)
    assert caught.value.code == "INVALID_INPUT"


def test_an_unknown_driver_is_refused(tmp_path):
    """It names those there are."""
    with pytest.raises(LocalStoreError, match="sqlite3") as caught:
        LocalKv(tmp_path, driver="postgres")
    assert caught.value.code == "INVALID_INPUT"


def test_a_driver_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    """It names the extra to install."""
    monkeypatch.setitem(sys.modules, "turso", None)
    monkeypatch.delitem(sys.modules, "alkstore_localstores.turso_driver", raising=False)
    with pytest.raises(LocalStoreError, match=r"alkstore-localstores\[turso\]") as caught:
        LocalKv(tmp_path, driver="turso")
    assert caught.value.code == "BINDING_SETUP_FAILED"


async def test_many_stores_of_one_process_may_open_at_once(tmp_path, driver):
    """A new directory opened fifty times in one turn: all succeed, and share the data."""
    stores = [LocalKv(tmp_path / "kv", driver=driver) for _ in range(50)]
    await asyncio.gather(*(store.open() for store in stores))
    try:
        await stores[0].put("k", b"v")
        assert all([(await store.get("k")).value == b"v" for store in stores])
    finally:
        await asyncio.gather(*(store.close() for store in stores))


async def test_a_process_has_a_file_open_on_one_driver(tmp_path):
    """The other driver is refused until the last store is closed."""
    async with LocalKv(tmp_path, driver="sqlite3") as kv:
        await kv.put("k", b"v")
        with pytest.raises(LocalStoreError, match="sqlite3") as caught:
            await LocalKv(tmp_path, driver="turso").open()
        assert caught.value.code == "BINDING_SETUP_FAILED"
        assert (await kv.get("k")).value == b"v"
    async with LocalKv(tmp_path, driver="turso") as kv:
        assert (await kv.get("k")).value == b"v"
        with pytest.raises(LocalStoreError, match="turso"):
            await LocalKv(tmp_path, driver="sqlite3").open()
    async with LocalKv(tmp_path, driver="sqlite3") as kv:
        assert (await kv.get("k")).value == b"v"


async def test_a_store_opens_again(tmp_path, driver):
    """The same object, after a close and after a refusal; twice at once is an error."""
    kv = LocalKv(tmp_path, driver=driver)
    make(tmp_path / "localkv.sqlite", *marked("localkv.v1"))
    with pytest.raises(LocalStoreError):
        await kv.open()
    (tmp_path / "localkv.sqlite").unlink()
    for number in range(2):
        await kv.open()
        with pytest.raises(LocalStoreError, match="already open"):
            await kv.open()
        await kv.put(f"k{number}", b"v")
        await kv.close()
        await kv.close()
    async with kv:
        assert await kv.keys() == ["k0", "k1"]


async def test_both_formats_live_in_one_directory(tmp_path, driver):
    """Each in its own file."""
    async with LocalKv(tmp_path, driver=driver), StoreFile(tmp_path, QUEUE, driver=driver):
        assert (tmp_path / "localkv.sqlite").exists()
        assert (tmp_path / "localqueue.sqlite").exists()


async def test_a_queue_is_no_key_value_store(home, path, refuses, driver):
    """A file of the other format under this one's name is refused, and so the other way round."""
    async with StoreFile(home, QUEUE, driver=driver):
        pass
    for entry in home.iterdir():
        entry.rename(str(entry).replace("localqueue", "localkv"))
    await refuses(match=r"localqueue\.v1")


async def test_a_symbolic_link_is_followed(tmp_path, driver):
    """To the database, and to the directory."""
    async with LocalKv(tmp_path / "real", driver=driver) as kv:
        await kv.put("k", b"v")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with LocalKv(tmp_path / "link", driver=driver) as kv:
        assert (await kv.get("k")).value == b"v"


@pytest.fixture
def no_links(monkeypatch):
    """A file system that gives a file one name only."""
    asked = []

    def link(source, _name):
        asked.append(source)
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    return asked


async def test_a_file_is_made_where_there_are_no_links(home, path, driver, no_links):
    """Then the engine makes it in its place."""
    async with LocalKv(home, driver=driver) as kv:
        await kv.put("k", b"v")
    assert no_links
    async with LocalKv(home, driver=driver) as kv:
        assert (await kv.get("k")).value == b"v"
    assert path.exists()


async def test_a_log_is_read_where_there_are_no_links(path, refuses, tmp_path, no_links):
    """From a copy; nothing is changed."""
    source = tmp_path / "other" / "db"
    make(source, "PRAGMA journal_mode=wal")
    with contextlib.closing(sqlite3.connect(source, isolation_level=None)) as connection:
        for statement in marked("localkv.v1"):
            connection.execute(statement)
        for suffix in ("", "-wal"):
            shutil.copy(f"{source}{suffix}", f"{path}{suffix}")
    await refuses(match=r"localkv\.v1")
    assert no_links


async def test_a_file_that_is_locked_for_good_is_refused(home, path, driver, monkeypatch, spawn):
    """After a while, with what to do; nothing waits for ever."""
    monkeypatch.setattr("alkstore_localstores.probe.BUSY_SECONDS", 0.2)
    monkeypatch.setattr("alkstore_localstores.drivers.BUSY_SECONDS", 0.2)
    make(path, "PRAGMA journal_mode=wal", *marked("localkv.v2"), TABLE)
    other = spawn("actor.py", "sqlite", path)
    other.do("open")
    other.do("sql", "PRAGMA locking_mode=EXCLUSIVE")
    other.do("sql", "INSERT INTO kv VALUES ('k', x'41', NULL, 'v')")
    with pytest.raises(LocalStoreError) as caught:
        await LocalKv(home, driver=driver).open()
    assert caught.value.code == "BINDING_SETUP_FAILED"
    other.kill()
    async with LocalKv(home, driver=driver) as kv:
        assert (await kv.get("k")).value == b"A"


def test_the_formats_name_their_files():
    """As the contract has it."""
    assert (KV.marker, KV.file) == ("localkv.v2", "localkv.sqlite")
    assert (QUEUE.marker, QUEUE.file) == ("localqueue.v1", "localqueue.sqlite")


async def test_the_directories_of_a_store_are_durable(tmp_path, driver, synced):
    """A power cut must not take a directory with what was acknowledged in it."""
    async with LocalKv(tmp_path / "a" / "b", driver=driver):
        assert synced[:2] == [tmp_path, tmp_path / "a"]
        synced.clear()
    async with LocalKv(tmp_path / "a" / "b", driver=driver):
        assert tmp_path not in synced


def test_the_directories_of_an_owner_are_durable(tmp_path, synced):
    """That of the state, and that of the credentials, which is for their owner alone."""
    with OwnerLock(StateDirectory(tmp_path / "a" / "b")):
        assert synced == [tmp_path, tmp_path / "a"]
    synced.clear()
    tokens = tmp_path / "c" / "tokens"
    Tokens(tokens).issue("jobs")
    assert synced[:2] == [tmp_path, tmp_path / "c"]
    assert tokens.stat().st_mode & 0o777 == 0o700
    assert tokens.parent.stat().st_mode & 0o055


def test_a_directory_that_another_process_makes_meanwhile_is_durable_too(
    tmp_path, synced, monkeypatch
):
    """That one may not have come to it; a file is no directory."""
    mkdir = os.mkdir

    def late(path, mode) -> None:
        mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", late)
    make_directory(str(tmp_path / "a"))
    assert synced == [tmp_path]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directory(str(tmp_path / "file"))


def test_a_revocation_is_durable_when_the_file_is_gone_already(tmp_path, synced):
    """Whoever deleted it may have failed before that."""
    tokens = Tokens(tmp_path)
    tokens.issue("jobs")
    (tmp_path / "jobs").unlink()
    synced.clear()
    tokens.revoke("jobs")
    assert synced == [tmp_path]
    Tokens(tmp_path / "none").revoke("jobs")
