"""The demo: its parts, its verdict, and a real run of it."""

from __future__ import annotations

import copy
import dataclasses
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import delete, insert

from alkstore_sqlite import SqliteStore

CENSUS = Path(__file__).parents[1] / "examples" / "stdlib-census"
sys.path.insert(0, str(CENSUS))

from counting import Counts, count_source, find_sources, package_of, standard_library  # noqa: E402
from evidence import Evidence, Story, gather  # noqa: E402
from screen import Row, Screen, draw_bar  # noqa: E402
from tables import (  # noqa: E402
    COUNTED,
    JOBS,
    PROJECTOR,
    REPORT,
    Base,
    Counted,
    FinalReport,
    Redelivery,
    Report,
    Result,
    SourceFile,
    Total,
    application_engine,
)
from verdict import judge  # noqa: E402

DIRECT = {"abc.py": Counts(3, 1, 1, 1, 0), "json/decoder.py": Counts(5, 2, 0, 1, 0)}
ALL = Counts(8, 3, 1, 2, 0)


def healthy():
    """What a run leaves behind in which all went well."""
    return Evidence(
        files=[("abc.py", 1), ("json/decoder.py", 2)],
        results=[
            ("abc.py", 1, DIRECT["abc.py"]),
            ("json/decoder.py", 2, DIRECT["json/decoder.py"]),
        ],
        events=list(DIRECT.items()),
        last_offset=2,
        saved_offset=2,
        totals={"(modules)": (1, DIRECT["abc.py"]), "json": (1, DIRECT["json/decoder.py"])},
        redeliveries=[(2, True)],
        reports=[("worker-1", 1, 2)],
        left={JOBS: 0, REPORT: 0},
        story=Story(
            killed="worker-2",
            held={2},
            resumed_at=1,
            progress_jobs=3,
            delivered=[FinalReport("worker-1", 1, 2, ALL)],
            lock_was_held=True,
            exits={"worker-1": 0, "worker-3": 0, "projector-2": 0},
        ),
    )


def failed(evidence):
    """The names of the checks that do not hold."""
    return [row.name for row in judge(evidence, DIRECT) if not row.good]


def test_a_healthy_run_passes():
    """Evidence of a run in which all went well fails no check."""
    assert failed(healthy()) == []


@pytest.mark.parametrize(
    ("damage", "checks"),
    [
        (lambda e: e.files.pop(), ["files enqueued"]),
        (lambda e: e.files.append(("ghost/rolled_back.py", 3)), ["files enqueued"]),
        (lambda e: e.results.pop(), ["results", "as counted directly"]),
        (lambda e: e.results.append(e.results[0]), ["results"]),
        (lambda e: e.results.__setitem__(0, ("abc.py", 2, DIRECT["abc.py"])), ["results"]),
        (
            lambda e: e.results.__setitem__(0, ("abc.py", 1, Counts(4, 1, 1, 1))),
            ["as counted directly"],
        ),
        (lambda e: e.events.pop(), ["events"]),
        (lambda e: e.events.append(e.events[0]), ["events"]),
        (lambda e: e.events.append((None, Counts())), ["events"]),
        (lambda e: e.totals.pop("json"), ["projected totals"]),
        (lambda e: e.totals.update(json=(2, DIRECT["json/decoder.py"])), ["projected totals"]),
        (lambda e: setattr(e, "saved_offset", 1), ["projected totals"]),
        (lambda e: e.left.update({JOBS: 1}), ["jobs left"]),
        (lambda e: e.redeliveries.clear(), ["redelivered"]),
        (lambda e: e.story.held.clear(), ["redelivered"]),
        (lambda e: setattr(e.story, "resumed_at", None), ["projector resumed"]),
        (lambda e: setattr(e.story, "resumed_at", 0), ["projector resumed"]),
        (lambda e: e.reports.append(("worker-3", 2, 2)), ["final report"]),
        (lambda e: e.reports.clear(), ["final report"]),
        (lambda e: e.story.delivered.append(e.story.delivered[0]), ["final report"]),
        (lambda e: e.story.delivered.clear(), ["final report"]),
        (
            lambda e: e.story.delivered.__setitem__(0, FinalReport("worker-1", 1, 2, Counts())),
            ["final report"],
        ),
        (lambda e: setattr(e.story, "lock_was_held", False), ["final report"]),
        (lambda e: setattr(e.story, "progress_jobs", 0), ["progress jobs"]),
        (lambda e: e.story.exits.update({"worker-3": 1}), ["processes"]),
        (lambda e: e.story.exits.clear(), ["processes"]),
    ],
)
def test_each_damage_fails_its_check(damage, checks):
    """No check passes whatever it sees: each fails for what it is there to find, alone."""
    evidence = copy.deepcopy(healthy())
    damage(evidence)
    assert failed(evidence) == checks


def test_counts_what_is_in_a_module():
    """Functions, classes and imports are found at any depth, and lines are lines."""
    source = b"""\
import os
class A:
    def f(self):
        try:
            from x import y
        except ImportError:
            async def g(): pass
        match self:
            case 1:
                def h(): return lambda: 0
with os: class_ = 1
"""
    assert count_source(source) == Counts(lines=11, functions=3, classes=1, imports=2)


@pytest.mark.parametrize("source", [b"def\n", b"x = '\xff'\n", b"a\0b\n", b"(" * 300 + b"\n"])
def test_a_source_that_does_not_parse_is_a_result(source):
    """The library ships broken files on purpose; they count, and nobody stumbles."""
    assert count_source(source) == Counts(lines=1, unparsable=1)


def test_finds_the_standard_library():
    """Well-known modules are found under their paths, installed packages are not."""
    sources = find_sources(standard_library())
    assert {"abc.py", "json/decoder.py"} <= sources.keys()
    assert not any("site-packages" in path for path in sources)
    assert len(sources) > 500
    assert list(find_sources(standard_library(), 3)) == list(sources)[:3]


def test_files_belong_to_packages():
    """Single modules stand together, all others under their top-level package."""
    assert [package_of(path) for path in ("abc.py", "json/tool.py", "a/b/c.py")] == [
        "(modules)",
        "json",
        "a",
    ]


def test_the_bar_moves_by_eighths():
    """It is empty at none, full at all, and moves by less than a column."""
    assert draw_bar(0, 16, 4) == "░░░░"
    assert draw_bar(1, 16, 4) == "▎░░░"
    assert draw_bar(8, 16, 4) == "██░░"
    assert draw_bar(16, 16, 4) == "████"
    assert draw_bar(8, 16, 4, ascii_only=True) == "##--"


class Terminal(io.StringIO):
    """A place to write that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        """Say yes."""
        return True


def test_a_pipe_gets_plain_lines():
    """Where there is no terminal, there is no escape sequence, and each heartbeat is a line."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = Screen(out)
    screen.advance(1, 2, "unseen")
    screen.heartbeat(1, 2, "seen")
    screen.step(good=True, text="done")
    screen.table(
        ("Title", [Row(True, "a", "one"), Row(False, "bb", "two")]),
        ("More", [Row(None, "c", "3")]),
    )
    out.seek(0)
    assert out.read().splitlines() == [
        "        1/2  seen",
        "  ok done",
        "+- Title ----+",
        "| ok a   one |",
        "| NO bb  two |",
        "+- More -----+",
        "|    c   3   |",
        "+------------+",
    ]


def test_a_terminal_gets_one_bar(monkeypatch):
    """On a terminal a line takes the place of the bar, which moves below it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "")
    screen = Screen(Terminal())
    screen.heartbeat(1, 2, "half")
    screen.line("news")
    screen.clear()
    bar = "\r\x1b[K    █████░░░░░ 1/2  half"
    assert screen._out.getvalue() == f"{bar}\r\x1b[Knews\n{bar}\r\x1b[K"


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_a_terminal_is_not_overrun(monkeypatch, columns):
    """Nothing is wider than the terminal: values wrap, and of a note whole parts go."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "")
    screen = Screen(Terminal())
    screen.advance(1_234, 1_650, "1,234 files/s · 24 claimed · 1,234 projected")
    screen.clear()
    screen.table(("Title", [*judge(healthy(), DIRECT), Row(False, "as it is", "so-called " * 20)]))
    _, note, *lines = screen._out.getvalue().replace("\r\x1b[K", "\n").splitlines()
    assert max(map(len, [note, *lines])) <= columns
    assert note.endswith("1,234 projected" if columns >= 80 else "1,234 files/s")
    assert "".join(lines).count("so-called") == 20


def test_a_poor_encoding_is_no_crash():
    """What the output cannot encode is replaced."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Screen(out).heartbeat(1, 2, "one · zwölf")
    out.seek(0)
    assert out.read() == "        1/2  one - zw?lf\n"


@pytest.fixture
async def traces(tmp_path):
    """A store and an application's engine on the database of a small run that went well."""
    database = tmp_path / "census.db"
    async with SqliteStore(database) as store, application_engine(database) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with store.transaction() as tx:
            for number, (path, counts) in enumerate(DIRECT.items(), start=1):
                counted = Counted(package_of(path), counts)
                sums = dataclasses.asdict(counts)
                file = {"path": path, "job_id": number}
                total = {"package": counted.package, "files": 1, **sums}
                await tx.connection.execute(insert(SourceFile), {**file, "size": 1})
                await tx.connection.execute(insert(Result), {**file, "worker": "w", **sums})
                await tx.connection.execute(insert(Total), total)
                offset = await tx.publish_with_key_tx(COUNTED, path, counted)
            await tx.save_offset_tx(COUNTED, PROJECTOR, offset)
            again = {"job_id": 2, "worker": "w", "already_done": True}
            await tx.connection.execute(insert(Redelivery), again)
            report = {"worker": "worker-1", "lock_token": 1, "files": 2}
            await tx.connection.execute(insert(Report), report)
        yield store, engine


async def leave(store, connection):
    """Nothing is damaged."""


async def delete_result(store, connection):
    """A result is missing."""
    await connection.execute(delete(Result).where(Result.path == "abc.py"))


async def publish_again(store, connection):
    """An event is there twice, and the projector did not see it."""
    await store.join(connection).publish_with_key_tx(
        COUNTED, "abc.py", Counted("(modules)", DIRECT["abc.py"])
    )


async def trim_event(store, connection):
    """An event is missing."""
    await connection.rollback()
    await store.stream(COUNTED).trim_to(1)


async def leave_job(store, connection):
    """A job waits."""
    await store.join(connection).enqueue_tx(JOBS, None)


async def leave_message(store, connection):
    """A message waits in the outbox."""
    await store.join(connection).outbox_enqueue_tx(REPORT, None)


async def bury_job(store, connection):
    """A job is dead."""
    await connection.rollback()
    await store.queue(JOBS).enqueue(None)
    await (await store.queue(JOBS).claim_one("w")).fail("no")


@pytest.mark.parametrize(
    ("damage", "checks"),
    [
        (leave, []),
        (delete_result, ["results", "as counted directly"]),
        (publish_again, ["events", "projected totals"]),
        (trim_event, ["events"]),
        (leave_job, ["jobs left"]),
        (leave_message, ["jobs left"]),
        (bury_job, ["jobs left"]),
    ],
)
async def test_damage_in_the_database_is_found(traces, damage, checks):
    """What the checks see is what is in the database."""
    store, engine = traces
    async with engine.connect() as connection:
        await damage(store, connection)
        await connection.commit()
    assert failed(await gather(store, engine, healthy().story)) == checks


def start(tmp_path, *options):
    """Start the demo as `make demo` does."""
    return subprocess.Popen(
        [sys.executable, CENSUS / "census.py", *options],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - nothing else runs in this process yet
    )


def _heed_interrupts():
    """A shell's background jobs, and so a CI's, are begun with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def left_behind(tmp_path):
    """Files and processes of a run that are still there."""
    commands = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.is_file()]
    return list(tmp_path.iterdir()) + [c for c in commands if str(tmp_path).encode() in c]


@pytest.mark.alone
def test_a_census_holds(tmp_path):
    """Every promise holds on a part of the library, and nothing is left behind."""
    demo = start(tmp_path, "--limit", "300")
    out, _ = demo.communicate(timeout=110)
    assert demo.returncode == 0, out
    assert "Every promise held" in out
    assert "✗" not in out
    assert left_behind(tmp_path) == []


@pytest.mark.alone
def test_a_census_that_is_not_finished_fails(tmp_path):
    """Cut short, it says what is missing and fails, and nothing is left behind."""
    demo = start(tmp_path, "--limit", "300", "--deadline", "0.1")
    out, _ = demo.communicate(timeout=110)
    assert demo.returncode == 1, out
    assert "✗ the run" in out
    assert "was not over after 0.1 s" in out
    assert left_behind(tmp_path) == []


@pytest.mark.alone
def test_ctrl_c_ends_it_cleanly(tmp_path):
    """Interrupted in the middle, it ends soon and leaves neither process nor file."""
    demo = start(tmp_path)
    assert any("enqueued" in line for line in demo.stdout)
    interrupted = time.monotonic()
    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=110)
    assert demo.returncode == 130, out
    assert "Traceback" not in out
    assert time.monotonic() - interrupted < 10
    assert left_behind(tmp_path) == []
