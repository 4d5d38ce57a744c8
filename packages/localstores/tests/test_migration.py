"""Moving a queue of an older release: all checks first, a backup, then one rename."""

import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from alkstore_localstores import LocalStoreError, migration
from alkstore_localstores.files import StoreFile
from alkstore_localstores.formats import QUEUE
from alkstore_localstores.migration import migrate_legacy
from alkstore_localstores.owner.state import OwnerLock, StateDirectory


def send(path, *texts) -> None:
    """Put messages into a queue's file as any client did."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for text in texts:
            connection.execute(
                "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at) "
                "VALUES ('text', ?, 1, 1)",
                (text,),
            )
        connection.commit()


def texts(path) -> list[str]:
    """What is in a queue's file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("SELECT payload_data FROM messages")]


@pytest.fixture
async def state(tmp_path):
    """A state directory with a queue of an older release, its log and a file of somebody else."""
    home = tmp_path / "state" / "queue" / "jobs"
    async with StoreFile(tmp_path / "made", QUEUE):
        send(tmp_path / "made" / "localqueue.sqlite", "a", "b")
        home.mkdir(parents=True)
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(tmp_path / "made" / f"localqueue.sqlite{suffix}", home)
    (home / "notes").mkdir()
    (home / "notes" / "read.me").write_text("kept")
    return tmp_path / "state"


@pytest.fixture
def refuses(state, snapshot):
    """It is refused, and all that matters is where and as it was."""

    def check(resource="jobs", code="BINDING_SETUP_FAILED", *, match=None):
        before = snapshot(state / "queue")
        with pytest.raises(LocalStoreError, match=match) as caught:
            migrate_legacy(state, resource)
        assert code == caught.value.code
        assert before == snapshot(state / "queue")

    return check


async def test_a_queue_is_moved_whole(state, snapshot):
    """Every file with every byte, and the messages are read where the owner looks for them."""
    before = snapshot(state / "queue" / "jobs")
    done = migrate_legacy(state, "jobs")
    assert done.destination == state / "queue-owned" / "jobs"
    assert before == snapshot(done.destination) == snapshot(done.backup)
    assert not (state / "queue" / "jobs").exists()
    assert texts(done.destination / "localqueue.sqlite") == ["a", "b"]
    async with StoreFile(done.destination, QUEUE):
        StateDirectory(state).check_legacy("jobs")
    assert snapshot(done.backup) == before


def test_it_is_done_once(state, refuses):
    """The second time there is nothing to move."""
    migrate_legacy(state, "jobs")
    refuses(match="no queue to move")


@pytest.mark.parametrize("kind", ["full", "empty", "file", "dangling link"])
def test_an_existing_destination_is_refused(state, refuses, snapshot, kind):
    """Whatever it is; it is not touched."""
    destination = state / "queue-owned" / "jobs"
    destination.parent.mkdir()
    if kind == "file":
        destination.write_text("x")
    elif kind == "dangling link":
        destination.symlink_to("nowhere")
    else:
        destination.mkdir()
        if kind == "full":
            (destination / "localqueue.sqlite").write_bytes(b"x")
    before = snapshot(state / "queue-owned")
    refuses(match="exists already")
    assert before == snapshot(state / "queue-owned")


@pytest.mark.parametrize("engine", ["sqlite", "turso-single"])
def test_a_queue_in_use_is_refused(state, refuses, spawn, engine):
    """By whichever engine; when it has gone the queue is moved with what that one wrote."""
    path = state / "queue" / "jobs" / "localqueue.sqlite"
    other = spawn("actor.py", engine, path)
    other.do("open")
    other.do("sql", "DELETE FROM messages WHERE payload_data = 'a'")
    refuses(match="in use")
    other.kill()
    done = migrate_legacy(state, "jobs")
    assert texts(done.destination / "localqueue.sqlite") == ["b"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_process_that_holds_a_sidecar_is_refused(state, refuses, suffix):
    """Without any lock: its descriptor is enough."""
    with (state / "queue" / "jobs" / f"localqueue.sqlite{suffix}").open("rb"):
        refuses(match=f"in use by process.*{os.getpid()}")


def test_a_running_owner_is_refused(state, refuses):
    """Its lock on the state directory is asked for."""
    with OwnerLock(StateDirectory(state)):
        refuses(match="owner")


@pytest.mark.parametrize("resource", ["../jobs", "", "a/b", "j" * 65, ".", "jobs\n", None])
def test_no_path_gets_out(refuses, resource):
    """A resource id is checked before a path is made of it."""
    refuses(resource, "INVALID_INPUT")


def test_another_format_is_refused(state, refuses):
    """What is in the file is looked at, not its name."""
    with contextlib.closing(
        sqlite3.connect(state / "queue" / "jobs" / "localqueue.sqlite")
    ) as connection:
        connection.execute("UPDATE meta SET value = 'localqueue.v0'")
        connection.commit()
    refuses(match=r"localqueue\.v0.*localqueue\.v1")


def test_what_is_no_queue_is_refused(state, refuses):
    """No directory, one without a database, and one that is only linked."""
    refuses("other", match="no directory")
    (state / "queue" / "other").mkdir()
    refuses("other", match=r"no localqueue\.sqlite")
    (state / "queue" / "linked").symlink_to("jobs")
    refuses("linked", match="no directory")


def test_a_backup_that_differs_stops_it(state, refuses, monkeypatch):
    """The copy is compared before anything is moved."""
    copy = shutil.copytree

    def lossy(source, target, **options):
        copy(source, target, **options)
        (target / "notes" / "read.me").write_text("cut")

    monkeypatch.setattr(migration, "copytree", lossy)
    refuses(code="LOCAL_FILESYSTEM_ERROR", match="not what was copied")


def test_the_backup_is_durable_before_anything_is_moved(state, refuses, synced, monkeypatch):
    """With the directories above it."""
    rename = Path.rename

    def refuse(path, target):
        if target.parent.name == "queue-owned":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    refuses(code="LOCAL_FILESYSTEM_ERROR", match="was not moved")
    backups = state / "queue-backups"
    (backup,) = backups.iterdir()
    assert synced[0] == state
    assert backups in synced
    # It had another name when it was made durable.
    (draft,) = {path for path in synced if path.parent == backups}
    copies = {draft / path.relative_to(backup) for path in backup.rglob("*")}
    assert len(copies) == 5
    assert copies <= set(synced)


def test_half_a_backup_does_not_look_like_one(state, refuses, monkeypatch):
    """It is copied under another name, and is gone after a failure."""

    def full(source, target, **_):
        target.mkdir()
        (target / "localqueue.sqlite").write_bytes((source / "localqueue.sqlite").read_bytes()[:99])
        assert target.name.startswith(".jobs-")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(migration, "copytree", full)
    refuses(code="LOCAL_FILESYSTEM_ERROR", match="was not moved")
    assert list((state / "queue-backups").iterdir()) == []


def test_a_move_that_may_not_last_says_that_it_was_made(state, monkeypatch):
    """Whoever believes that nothing was moved would go on at the old place."""
    sync = migration.sync_directory

    def fail(directory):
        if not (state / "queue" / "jobs").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(directory)

    monkeypatch.setattr(migration, "sync_directory", fail)
    with pytest.raises(LocalStoreError, match=r"was moved to .*queue-owned.* unknown") as caught:
        migrate_legacy(state, "jobs")
    assert caught.value.code == "LOCAL_FILESYSTEM_ERROR"
    assert not caught.value.retryable
    assert "not moved" not in str(caught.value)
    assert texts(state / "queue-owned" / "jobs" / "localqueue.sqlite") == ["a", "b"]
    assert texts(f"{caught.value.context['backup']}/localqueue.sqlite") == ["a", "b"]


def test_nobody_can_open_the_queue_meanwhile(state, monkeypatch, spawn):
    """From the backup to the rename both engines are locked out."""
    path = state / "queue" / "jobs" / "localqueue.sqlite"
    actors = [spawn("actor.py", engine, path) for engine in ("sqlite", "turso-single")]
    copy = shutil.copytree
    refused = []

    def meanwhile(source, target, **options):
        for actor in actors:
            actor.order("open")
            actor.order("sql", "DELETE FROM messages")
        for actor in actors:
            outcomes = []
            for _ in range(2):
                with contextlib.suppress(Exception):
                    outcomes.append(actor.answer())
            refused.append(len(outcomes) < 2)
        return copy(source, target, **options)

    monkeypatch.setattr(migration, "copytree", meanwhile)
    done = migrate_legacy(state, "jobs")
    assert refused == [True, True]
    for actor in actors:
        actor.kill()
    assert texts(done.destination / "localqueue.sqlite") == ["a", "b"]
