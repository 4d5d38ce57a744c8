"""Both drivers, clocks, stores and other processes for the tests of the local stores."""

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from alkstore_localstores import LocalKv
from alkstore_localstores.owner.owner import QueueOwner
from alkstore_localstores.owner.server import serving

PROCS = Path(__file__).parent / "procs"

# Without compiled modules, which tox forbids, a child spends seconds of a core on its imports.
PYCACHE = Path(tempfile.gettempdir()) / f"alkstore-pycache-{os.getuid()}"
COMPILED = {"PYTHONPYCACHEPREFIX": str(PYCACHE), "PYTHONDONTWRITEBYTECODE": ""}


class Refused(Exception):  # noqa: N818 - what an actor says, not what went wrong here
    """What an actor was told instead of a result."""


class Actor:
    """A process that does what it is told, one line of JSON for each order and each answer."""

    def __init__(self, stderr, script, arguments) -> None:
        self._stderr = stderr
        with stderr.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", PROCS / script, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | COMPILED,
                text=True,
            )

    def order(self, *order) -> None:
        """Tell it something, and do not wait."""
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()

    def answer(self):
        """Its next answer."""
        line = self.process.stdout.readline()
        assert line, f"it ended; its stderr:\n{self._stderr.read_text(errors='replace')}"
        kind, value = json.loads(line)
        if kind == "error":
            raise Refused(value)
        return value

    def do(self, *order):
        """Tell it something and return its answer."""
        self.order(*order)
        return self.answer()

    def kill(self) -> None:
        """End it between two instructions of its own choice."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Let it come to its end."""
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self._stderr.read_text(errors="replace")

    def discard(self) -> None:
        """Leave nothing of it behind."""
        self.kill()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def spawn(tmp_path_factory):
    """Start a script of `procs/`; whatever the test does, none outlives it."""
    actors = []
    home = tmp_path_factory.mktemp("actors")

    def start(script, *arguments) -> Actor:
        actors.append(Actor(home / f"{len(actors)}.stderr", script, arguments))
        return actors[-1]

    yield start
    for actor in actors:
        actor.discard()


def runners() -> set[int | None]:
    """The threads of the stores that are open in this process."""
    return {thread.ident for thread in threading.enumerate() if "alkstore" in thread.name}


@pytest.fixture(params=["sqlite3", "turso"])
def driver(request):
    """Both engines: what holds on one holds on the other."""
    return request.param


class Milliseconds:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    """Unix milliseconds, which stand at 1,000,000."""
    return Milliseconds()


@pytest_asyncio.fixture
async def kv(tmp_path, driver, clock):
    """An open key-value store whose time stands still."""
    async with LocalKv(tmp_path / "kv", driver=driver, clock=clock) as store:
        yield store


@pytest_asyncio.fixture
async def owner(tmp_path, driver, clock):
    """A started owner whose time stands still."""
    async with QueueOwner(tmp_path / "state", driver=driver, clock=clock) as owner:
        yield owner


class Served:
    """A queue that is served over HTTP."""

    def __init__(self, owner, address, token, resource="jobs") -> None:
        self.owner = owner
        self.address = address
        self.host, port = address.removeprefix("http://").split(":")
        self.port = int(port)
        self.path = f"/queues/{resource}"
        self.endpoint = address + self.path
        self.token = token

    def head(self, length, *lines, method="POST", path=None) -> bytes:
        """The head of a request with the right token."""
        lines = (f"Authorization: Bearer {self.token}", f"Content-Length: {length}", *lines)
        start = f"{method} {path or self.path} HTTP/1.1"
        return "\r\n".join([start, "Host: queues", *lines, "", ""]).encode()

    async def ask(self, operation, *, token=None, **fields):
        """One operation over a connection of its own; the status and the JSON of the answer."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        body = io.BytesIO(json.dumps({"operation": operation, **fields}).encode())
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.endpoint, data=body, headers=headers) as answer,
        ):
            return answer.status, await answer.json()

    async def talk(self, *parts: bytes, end=False) -> bytes:
        """Send bytes as they are, with `end` no more ever; what comes back until it is closed."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if end:
                writer.write_eof()
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


@pytest_asyncio.fixture
async def served(owner):
    """The queue `jobs` of an owner, over HTTP."""
    async with serving(owner, request_seconds=1) as address:
        yield Served(owner, address, await owner.create("jobs"))


@pytest.fixture
def snapshot():
    """Every file below a directory with its bytes; lock files have none to speak of."""

    def take(directory) -> dict[str, bytes]:
        found = sorted(Path(directory).rglob("*"))
        return {
            str(path.relative_to(directory)): path.read_bytes() for path in found if path.is_file()
        }

    return take


@pytest.fixture
def synced(monkeypatch):
    """The paths that were made durable, in order."""
    found = []
    fsync = os.fsync

    def noting(descriptor) -> None:
        fsync(descriptor)
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", noting)
    return found
