"""What `alkstore copy` writes, and what it leaves alone."""

import asyncio
import errno
import io
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from alkstore_core.cli import mapfile
from alkstore_core.cli.root import root
from alkstore_core.worker import App
from alkstore_sqlite import SqliteStore


@pytest.fixture
def source(path):
    """Fill a database with three jobs."""

    async def fill():
        async with SqliteStore(path) as store:
            await store.queue("mail").enqueue_many(range(3))

    asyncio.run(fill())
    return path


@pytest.fixture
def copy(source, tmp_path):
    """Run `copy` of the source to another file, with a map."""

    def run(numbers, target=tmp_path / "new.db"):
        urls = f"sqlite:///{source}", f"sqlite:///{target}"
        return CliRunner().invoke(root, ["copy", *urls, "--map", str(numbers)])

    return run


def numbers_in(file):
    """The old numbers that a map holds."""
    return [json.loads(line)["old"] for line in file.read_text().splitlines()]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("side", ["app.db", "new.db"])
def test_a_map_never_replaces_a_database(copy, source, tmp_path, side, end):
    """Neither the source nor the target, also when it is not there yet, nor a file beside it."""
    before = source.read_bytes()

    done = copy(source.with_name(f"{'app.db' if side == 'app.db' else 'new.db'}{end}"))

    assert (1, "") == (done.exit_code, done.stdout)
    assert "would replace a file of the database" in done.stderr
    assert before == source.read_bytes()
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_map_never_replaces_a_database_under_another_name(copy, source, tmp_path, link):
    """A link to it is it."""
    link(source, tmp_path / "numbers.jsonl")

    assert 1 == copy(tmp_path / "numbers.jsonl").exit_code
    assert b"SQLite" == source.read_bytes()[:6]


def test_a_map_replaces_regular_files_alone(copy, tmp_path):
    """A pipe or a device is left as it is, and no target is made."""
    os.mkfifo(tmp_path / "pipe")

    done = copy(tmp_path / "pipe")

    assert 1 == done.exit_code
    assert "no regular file" in done.stderr
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "new.db").exists()


def test_a_map_leaves_a_symlink_and_other_files_alone(copy, tmp_path):
    """What a symlink leads to is replaced, with its mode; `NAME.part` is somebody else's."""
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "numbers.jsonl"
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to(real)
    for mine in (tmp_path / "link.part", real.with_name("numbers.jsonl.part")):
        mine.write_text("mine")

    done = copy(tmp_path / "link")

    assert 0 == done.exit_code, done.output
    assert (tmp_path / "link").is_symlink()
    assert ([1, 2, 3], 0o640) == (numbers_in(real), real.stat().st_mode & 0o777)
    assert ["mine", "mine"] == [mine.read_text() for mine in tmp_path.rglob("*.part")]


def test_a_place_where_no_map_can_be_is_found_before_a_target_is_made(copy, tmp_path):
    """With the path, and the status of what is not written."""
    done = copy(tmp_path / "nowhere" / "numbers.jsonl")

    assert 74 == done.exit_code
    assert "numbers.jsonl cannot be written: No such file or directory" in done.stderr
    assert not (tmp_path / "new.db").exists()


def test_a_hard_link_of_the_source_is_no_target(copy, source, tmp_path):
    """One database under two names, which SQLite would take for two."""
    os.link(source, tmp_path / "hard.db")
    before = source.read_bytes()

    done = copy(tmp_path / "numbers.jsonl", tmp_path / "hard.db")

    assert 1 == done.exit_code
    assert "source and target are one database" in done.stderr
    assert before == source.read_bytes()


@pytest.mark.parametrize(
    "part",
    [("note", "new.db"), ("loop",), ("n" * 300,)],
    ids=["behind a file", "a circle of links", "too long a name"],
)
def test_a_target_that_cannot_be_is_told(copy, tmp_path, part):
    """With the status of a database that is not reached, in a sentence."""
    (tmp_path / "note").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")

    done = copy(tmp_path / "numbers.jsonl", tmp_path.joinpath(*part))

    assert (3, "") == (done.exit_code, done.stdout), done.stderr
    assert "Error: " in done.stderr
    assert ["app.db", "loop", "note"] == sorted(file.name for file in tmp_path.iterdir())


@pytest.mark.parametrize("command", [["status"], ["worker", "json:loads"]], ids=" ".join)
def test_a_database_that_nobody_can_look_for_is_told(tmp_path, monkeypatch, command):
    """With the path and what the system says."""
    monkeypatch.setattr("alkstore_core.cli.worker.load", lambda _: App())
    url = f"sqlite:///{tmp_path / ('n' * 300)}"

    done = CliRunner().invoke(root, [*command, "--url", url])

    assert (3, "") == (done.exit_code, done.stdout), done.stderr
    assert f"cannot look for {tmp_path}" in done.stderr
    assert "File name too long" in done.stderr


class FullDisk(type(Path())):
    """Where files can be made that take nothing."""

    def open(self, *_, **__):
        """Open one."""
        return Full()


class Full(io.StringIO):
    """A file on a disk that is full from the first byte on."""

    def write(self, _, /):
        """Take nothing."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_map_on_a_full_disk_says_what_to_do(copy, tmp_path, monkeypatch):
    """The copy is not whole, and goes on when the command is run again; no map is left behind."""
    with monkeypatch.context() as patch:
        patch.setattr(mapfile, "Path", FullDisk)
        done = copy(tmp_path / "numbers.jsonl")

    assert (74, "") == (done.exit_code, done.stdout)
    assert "the copy is not whole; run the same command again, and it goes on" in done.stderr
    assert "cannot be written: No space left on device" in done.stderr
    assert not (tmp_path / "numbers.jsonl").exists()
    assert 0 == copy(tmp_path / "numbers.jsonl").exit_code
    assert [1, 2, 3] == numbers_in(tmp_path / "numbers.jsonl")


def test_a_map_that_fails_at_the_end_is_told_from_a_copy_that_is_whole(copy, tmp_path, monkeypatch):
    """The jobs are there by then, and nobody has to fear for them."""

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = copy(tmp_path / "numbers.jsonl")

    assert 74 == done.exit_code
    assert "the copy is whole, but its map is not" in done.stderr
    assert [] == [*tmp_path.glob(".*.part")]
