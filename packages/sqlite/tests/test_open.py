"""Opening: many at once, on odd names, on files that are not ours or cannot be used."""

import asyncio
import contextlib
import sqlite3
import subprocess
import time

import pytest

from alkstore_core import Closed, DatabaseError
from alkstore_sqlite import SqliteStore


def contents(path) -> bytes:
    """A file's bytes, read by another process: only SQLite opens a database in this one."""
    return subprocess.run(["cat", path], check=True, capture_output=True).stdout


async def enqueue_once(path) -> list[bytes]:
    """Open, enqueue, close; then what a second store finds there."""
    async with SqliteStore(path) as store:
        await store.queue("work").enqueue("tea")
    async with SqliteStore(path) as store:
        return [job.payload for job in await store.queue("work").jobs()]


async def test_many_processes_open_one_new_file_at_once(tmp_path, spawn):
    """Eight processes open the same new file in the same moment, 25 times; all succeed."""
    openers = [spawn("opener.py") for _ in range(8)]
    for opener in openers:
        await opener.expect("ready")

    for number in range(25):
        path = tmp_path / f"new-{number}.db"
        at = time.monotonic() + 0.02
        for opener in openers:
            opener.tell("open", path, at)
        for opener in openers:
            await opener.expect("opened")
        for opener in openers:
            opener.tell("close")
        for opener in openers:
            await opener.expect("closed")

    async with SqliteStore(path) as store:
        assert 8 == (await store.queue("work").stats()).ready


async def test_tasks_open_one_new_file_at_once(path):
    """Eight stores of one process open the same new file together and share it."""
    stores = [SqliteStore(path) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    ids = await asyncio.gather(*(store.queue("work").enqueue("tea") for store in stores))
    await asyncio.gather(*(store.close() for store in stores))

    assert 8 == len(set(ids))


@pytest.mark.parametrize(
    "name",
    [
        "file:x?mode=memory",
        "file:app.db?mode=ro&immutable=1",
        "a?b=c",
        ":memory:",
        "sp ace#frag%20.db",
        "ünï☃.db",
        "-journal",
        "quote'\".db",
    ],
)
@pytest.mark.parametrize("form", ["absolute", "relative", "text"])
async def test_a_path_is_a_file_name_whatever_it_looks_like(tmp_path, name, form, monkeypatch):
    """The path names an ordinary file: nothing in it is a URI, an option or a keyword."""
    monkeypatch.chdir(tmp_path)
    path = {"absolute": tmp_path / name, "relative": name, "text": str(tmp_path / name)}[form]

    assert [b'"tea"'] == await enqueue_once(path)
    assert [name] == [entry.name for entry in tmp_path.iterdir()]


@pytest.mark.parametrize("path", ["", "nul\0.db"])
async def test_a_path_that_names_no_file_is_refused(path, tmp_path, monkeypatch):
    """An empty path is no private temporary database, and a NUL cuts nothing off."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises((DatabaseError, ValueError)):
        await enqueue_once(path)

    assert [] == list(tmp_path.iterdir())


async def test_a_newer_schema_is_refused_untouched(path, sql):
    """A file of a later release is an error that names its version; not a byte changes."""
    async with SqliteStore(path) as store:
        await store.queue("work").enqueue("tea")
    sql("PRAGMA journal_mode=DELETE")
    sql("UPDATE __alkstore_meta SET value = '4711' WHERE key = 'schema_version'")
    before = contents(path)

    with pytest.raises(DatabaseError, match="4711"):
        await SqliteStore(path).open()

    assert before == contents(path)
    assert ["app.db"] == [entry.name for entry in path.parent.iterdir()]


async def test_other_tables_of_the_file_are_left_alone(path, sql):
    """The store lives beside the application's own tables and settings in one file."""
    sql("CREATE TABLE orders (item TEXT)")
    sql("INSERT INTO orders VALUES ('tea')")
    sql("PRAGMA user_version = 42")
    sql("PRAGMA application_id = 43")

    assert [b'"tea"'] == await enqueue_once(path)

    assert [("tea",)] == sql("SELECT item FROM orders")
    assert [(42,)] == sql("PRAGMA user_version")
    assert [(43,)] == sql("PRAGMA application_id")
    tables = {name for (name,) in sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"orders"} == {
        name for name in tables if not name.startswith(("__alkstore_", "sqlite_"))
    }


@pytest.mark.parametrize("url", ["sqlite:///app.db", "sqlite:////var/lib/app.db"])
async def test_a_url_is_no_path(url):
    """Whoever gives one is told what takes it."""
    with pytest.raises(DatabaseError, match=r"there is no directory .*; for a URL there is open"):
        await SqliteStore(url).open()


async def test_a_missing_directory_is_an_error_until_it_is_there(tmp_path):
    """No directory is made up; once it exists the same store opens."""
    path = tmp_path / "missing" / "app.db"
    store = SqliteStore(path)

    with pytest.raises(DatabaseError, match="there is no directory"):
        await store.open()
    assert [] == list(tmp_path.iterdir())

    path.parent.mkdir()
    async with store:
        assert 1 == await store.queue("work").enqueue("tea")


async def test_a_directory_is_no_database(path):
    """A directory in the file's place is an error; once it is gone the same store opens."""
    path.mkdir()
    store = SqliteStore(path)

    with pytest.raises(DatabaseError):
        await store.open()

    path.rmdir()
    async with store:
        assert 1 == await store.queue("work").enqueue("tea")


@pytest.mark.parametrize(
    "garbage",
    [b"this is no database\n" * 100, b"SQLite format 3\0" + b"\xff" * 4080],
    ids=["text", "header"],
)
async def test_garbage_is_refused_and_kept(path, garbage):
    """A file that is no database is an error and stays as it is."""
    path.write_bytes(garbage)
    store = SqliteStore(path)

    with pytest.raises(DatabaseError) as caught:
        await store.open()
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    assert garbage == contents(path)

    path.unlink()
    async with store:
        assert 1 == await store.queue("work").enqueue("tea")


async def test_a_readonly_file_is_an_error_until_it_can_be_written(path, spawn):
    """A write to a read-only file is an error, never a silent success."""
    async with SqliteStore(path) as store:
        assert 1 == await store.queue("work").enqueue("tea")
    path.chmod(0o444)

    child = spawn("faults.py", "readonly", path)
    assert "read-only" in await child.expect("refused")
    path.chmod(0o644)
    child.tell("repaired")

    assert "2" == await child.expect("enqueued")
    assert [] == await child.succeed()


async def test_a_readonly_directory_is_an_error_until_it_can_be_written(tmp_path, spawn):
    """Where no file can be made there is no store; afterwards the same one opens."""
    directory = tmp_path / "readonly"
    directory.mkdir(mode=0o555)

    child = spawn("faults.py", "readonly", directory / "app.db")
    await child.expect("refused")
    directory.chmod(0o755)
    child.tell("repaired")

    assert "1" == await child.expect("enqueued")
    assert [] == await child.succeed()


async def test_a_full_disk_loses_nothing_that_was_acknowledged(path, spawn, integrity):
    """When the disk is full, enqueues fail, reads go on, and room makes the store whole."""
    child = spawn("faults.py", "full", path)
    lines = [line.split() for line in await child.succeed(60)]

    kept = {int(words[1]): int(words[2]) for words in lines if words[0] == "kept"}
    said = {words[0]: int(words[1]) for words in lines if words[0] != "kept"}
    assert said["refused"] >= 100
    assert 410 == said["refused"] + len(kept)
    assert len(kept) - 10 == said["readable"]
    assert "ok" == integrity()
    async with SqliteStore(path) as store:
        jobs = await store.queue("work").jobs(limit=1000)
    assert kept == {job.id: job.payload_as(dict)["number"] for job in jobs}


async def test_opening_an_open_store_changes_nothing(path):
    """`open` again, in a block too, leaves the one open store as it is."""
    store = SqliteStore(path)
    await store.open()
    await store.open()
    await asyncio.gather(store.open(), store.open())
    assert 1 == await store.queue("work").enqueue("tea")
    await store.close()


CALLS = {
    "notify": lambda store: store.notify("x", 1),
    "listen": lambda store: store.listen("x"),
    "try_lock": lambda store: store.try_lock("x", "me", 1),
    "schedule": lambda store: store.schedule("x", "@every 1s", "x", 1),
    "unschedule": lambda store: store.unschedule("x"),
    "schedules": lambda store: store.schedules(),
    "queues": lambda store: store.queues(),
    "streams": lambda store: store.streams(),
    "outboxes": lambda store: store.outboxes(),
    "locks": lambda store: store.locks(),
    "diagnose": lambda store: store.diagnose(),
    "begin_tx": lambda store: store.begin_tx(),
    "with_tx": lambda store: store.with_tx(lambda tx: tx.notify_tx("x", 1)),
    "enqueue": lambda store: store.queue("x").enqueue(1),
    "enqueue_many": lambda store: store.queue("x").enqueue_many([1]),
    "enqueue_none": lambda store: store.queue("x").enqueue_many([]),
    "claim_one": lambda store: store.queue("x").claim_one("me"),
    "claim_none": lambda store: store.queue("x").claim_batch("me", 0),
    "ack_none": lambda store: store.queue("x").ack_batch([], "me"),
    "get_job": lambda store: store.queue("x").get_job(1),
    "sweep": lambda store: store.queue("x").sweep_expired(),
    "stats": lambda store: store.queue("x").stats(),
    "wakes": lambda store: store.queue("x").wakes(),
    "publish": lambda store: store.stream("x").publish(1),
    "read_since": lambda store: store.stream("x").read_since(0, 1),
    "read_none": lambda store: store.stream("x").read_since(0, 0),
    "save_offset": lambda store: store.stream("x").save_offset("me", 1),
    "subscribe": lambda store: store.stream("x").subscribe("me"),
    "outbox_enqueue": lambda store: store.outbox("x").enqueue(1),
    "run_once": lambda store: store.outbox("x").run_once("me", None),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_that_is_not_open_refuses_calls(path, call):
    """Before `open` and after `close` every call is `Closed`, also one with nothing to do."""
    store = SqliteStore(path)
    with pytest.raises(Closed):
        await CALLS[call](store)
    assert not path.exists()

    await store.open()
    await store.close()
    with pytest.raises(Closed):
        await CALLS[call](store)


async def test_a_cancelled_open_leaves_nothing_open(path):
    """Cancelling `open` at any point leaves a store that opens later, and no descriptor."""
    for turns in range(12):
        store = SqliteStore(path)
        task = asyncio.create_task(store.open())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await store.open()
        await store.queue("work").enqueue(turns)
        await store.close()

    assert ["app.db"] == [entry.name for entry in path.parent.iterdir()]


async def test_statistics_of_an_almost_empty_file_are_forgotten(path):
    """After ANALYZE on small tables an open store still finds jobs by id, without a scan."""
    async with SqliteStore(path) as store:
        await store.queue("work").enqueue_many(range(60))
        await store.queue("work").claim_batch("w", 30)
    with contextlib.closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE business (x INTEGER)")
        own.execute("CREATE INDEX business_x ON business (x)")
        own.executemany("INSERT INTO business VALUES (?)", [(n,) for n in range(9)])
        own.commit()
        own.execute("ANALYZE")

    async with SqliteStore(path):
        pass

    with contextlib.closing(sqlite3.connect(path)) as own:
        assert [("business",)] == own.execute("SELECT DISTINCT tbl FROM sqlite_stat1").fetchall()
        plan = own.execute(
            "EXPLAIN QUERY PLAN DELETE FROM __alkstore_jobs "
            "WHERE id IN (SELECT value FROM json_each('[1, 2]'))"
        ).fetchall()
    assert "USING INTEGER PRIMARY KEY" in plan[0][3]
