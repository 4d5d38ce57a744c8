"""Files, clocks, processes and raw SQL for the tests of the SQLite engine."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import pytest_asyncio

from alkstore_core import ManualClock
from alkstore_sqlite import SqliteStore

# Without compiled modules, which tox forbids, a child spends seconds of a core on its imports.
PYCACHE = Path(tempfile.gettempdir()) / f"alkstore-pycache-{os.getuid()}"
COMPILED = {"PYTHONPYCACHEPREFIX": str(PYCACHE), "PYTHONDONTWRITEBYTECODE": ""}

PROCS = Path(__file__).parent / "procs"
# What the child scripts share is used on this side of the pipe too.
sys.path.append(str(PROCS))

import receivers  # noqa: E402 - found through the line above
import ways as ways_module  # noqa: E402
from blocking import blocking_calls  # noqa: E402, F401 - a fixture of every test
from wire import Lines, SharedClock  # noqa: E402


class Child:
    """A Python process that talks in lines; its stderr is shown when it disappoints."""

    def __init__(self, script, arguments, stderr, flags=()) -> None:
        self.name = script
        self._stderr = stderr
        with stderr.open("wb") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    "faulthandler",
                    *flags,
                    PROCS / script,
                    *map(str, arguments),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | COMPILED,
            )
        self._lines = Lines(self.process.stdout.fileno())

    @property
    def stderr(self) -> str:
        """What it complained about so far."""
        return self._stderr.read_text(errors="replace")

    async def line(self, within=60.0) -> str | None:
        """Its next line, `None` at its end; a child that says nothing in time fails the test."""
        try:
            async with asyncio.timeout(within):
                return await self._lines.next()
        except TimeoutError:
            self.process.send_signal(signal.SIGABRT)  # faulthandler tells where it stood
            self.process.wait()
            self._disappoint(f"said nothing for {within} s")

    async def expect(self, word, within=60.0) -> str:
        """Its next line has to begin with `word`; returns the rest of it."""
        line = await self.line(within)
        first, _, rest = (line or "").partition(" ")
        if first != word:
            self._disappoint(f"was to say {word!r} and said {line!r}")
        return rest

    def tell(self, *words) -> None:
        """Send it a line."""
        self.process.stdin.write(f"{' '.join(map(str, words))}\n".encode())
        self.process.stdin.flush()

    def hang_up(self) -> None:
        """Tell it that no more lines will come."""
        self.process.stdin.close()

    def kill(self) -> None:
        """End it between two instructions of its own choice."""
        self.process.kill()
        self.process.wait()

    async def rest(self, within=60.0) -> list[str]:
        """Its remaining lines; then it has ended, however it did."""
        lines = []
        while (line := await self.line(within)) is not None:
            lines.append(line)
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            self._disappoint(f"did not end within {within} s")
        return lines

    async def succeed(self, within=60.0) -> list[str]:
        """Its remaining lines; it has to end with status 0."""
        lines = await self.rest(within)
        if self.process.returncode != 0:
            self._disappoint(f"ended with status {self.process.returncode} after {lines[-3:]}")
        return lines

    def discard(self) -> None:
        """Leave nothing of it behind."""
        self.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def _disappoint(self, what) -> None:
        pytest.fail(f"{self.name} {what}; its stderr:\n{self.stderr}")


@contextlib.contextmanager
def _spawning(directory):
    children = []

    def spawn(script, *arguments, flags=()) -> Child:
        stderr = directory / f"{len(children)}-{Path(script).stem}.stderr"
        children.append(Child(script, arguments, stderr, flags))
        return children[-1]

    try:
        yield spawn
    finally:
        for child in children:
            child.discard()


@pytest.fixture
def spawn(tmp_path):
    """Start a script of `procs/`; whatever the test does, none outlives it."""
    with _spawning(tmp_path) as spawn:
        yield spawn


@pytest.fixture(scope="module")
def spawn_for_module(tmp_path_factory):
    """Like `spawn`, for children that serve every test of a module."""
    with _spawning(tmp_path_factory.mktemp("procs")) as spawn:
        yield spawn


@pytest.fixture
def compiled():
    """Variables with which children of any kind keep what they have compiled."""
    return COMPILED


@pytest.fixture
def path(tmp_path):
    """A database file that does not exist yet."""
    return tmp_path / "app.db"


@pytest.fixture
def clock():
    """A clock that stands at 1,000,000 until a test moves it."""
    return ManualClock(start=1_000_000)


@pytest.fixture
def shared_clock(tmp_path):
    """A clock for several processes: children open the same file.

    It is far ahead of the wall clock, so whatever others enqueue by theirs is due.
    """
    clock = SharedClock(tmp_path / "clock", start=10_000_000_000)
    clock.path = tmp_path / "clock"
    yield clock
    clock.close()


@pytest_asyncio.fixture
async def store(path, clock):
    """An open store whose time stands still."""
    async with SqliteStore(path, clock=clock) as store:
        yield store


@pytest.fixture
def ways():
    """The ways to write in one transaction, shared with the child scripts."""
    return ways_module


@pytest.fixture
def receiver_for():
    """Which receiver a write has to wake, shared with the child scripts."""
    return receivers.receiver_for


@pytest.fixture
def sql(path):
    """Run one statement on the test's file past the library; returns the rows."""

    def run(statement, *parameters) -> list[tuple]:
        with contextlib.closing(
            sqlite3.connect(path, timeout=10, isolation_level=None)
        ) as connection:
            return connection.execute(statement, parameters).fetchall()

    return run


@pytest.fixture
def everything(sql):
    """Every row of every table of the library."""

    def read() -> list[tuple]:
        tables = sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' "
            "AND name GLOB '__alkstore_*' ORDER BY name"
        )
        assert len(tables) >= 5
        return [(table, sql(f"SELECT * FROM {table}")) for (table,) in tables]

    return read


@pytest.fixture
def integrity(path):
    """What `PRAGMA integrity_check` says in a process that never used the library."""

    def check() -> str:
        program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        program += "print(*c.execute('PRAGMA integrity_check').fetchall()[0]); c.close()"
        return subprocess.run(
            [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
        ).stdout.strip()

    return check


@pytest.fixture
def scaled():
    """Pick the size of a stress test: `ALKSTORE_STRESS=full` for the long one."""
    full = os.environ.get("ALKSTORE_STRESS") == "full"
    return lambda default, long: long if full else default


@pytest.fixture
def descriptors():
    """How many file descriptors this process has open."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))
