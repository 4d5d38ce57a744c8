"""Postgres beside plain asyncpg.

On the server that `ALKSTORE_TEST_POSTGRES` names, or else on one of its own: found as for the
tests, with the server's default durability and memory, and its files on a disk.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import psycopg

import backlog
import handling
import wakes
import workloads
from scene import ServerScene

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import server

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = [*workloads.ALL, *wakes.ALL, *backlog.ALL, *handling.ALL]

MEMORY = "128MB"
"""The server's default; the tests' servers have less."""

TRIPS = 500


@contextlib.contextmanager
def scene(parent: Path | None, *, rounds: int, scale: float) -> Iterator[ServerScene]:
    """A database of ours, gone at the end."""
    with contextlib.ExitStack() as stack:
        url = os.environ.get(server.GIVEN_SERVER) or stack.enter_context(_server(parent))
        databases = server.Databases(url)
        stack.callback(databases.close)
        yield ServerScene(url=stack.enter_context(databases.empty()), rounds=rounds, scale=scale)


async def prices(scene: ServerScene) -> dict[str, float]:
    """What every call pays on this server, in seconds: medians."""
    connection = await asyncpg.connect(scene.url)
    try:
        await connection.execute("CREATE TABLE something (n int)")
        ask = await connection.prepare("SELECT 1")
        write = await connection.prepare("INSERT INTO something VALUES (1)")
        return {
            "a round trip to the server, with nothing done": await _median(ask),
            "a round trip that commits one small row": await _median(write),
        }
    finally:
        await connection.close()


def where(scene: ServerScene) -> dict[str, str]:
    """The server that the numbers depend on."""
    with psycopg.connect(scene.url) as connection:
        names = ("server_version", "shared_buffers", "synchronous_commit", "fsync")
        return {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in names}


async def _median(statement: asyncpg.prepared_stmt.PreparedStatement) -> float:
    took = []
    for _ in range(TRIPS):
        start = time.perf_counter()
        await statement.fetch()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


@contextlib.contextmanager
def _server(parent: Path | None) -> Iterator[str]:
    """The URL of a server of our own."""
    if parent is not None:
        tempfile.tempdir = str(parent.resolve())
    elif _in_memory(tempfile.gettempdir()):
        tempfile.tempdir = "/var/tmp"
    if _in_memory(tempfile.gettempdir()):
        message = f"{tempfile.gettempdir()} is no disk: name a directory on one with --dir"
        raise SystemExit(message)
    # A socket's path may not be as long as that of a directory.
    server.SETTINGS.update(shared_buffers=MEMORY, unix_socket_directories="")
    cluster = server.Cluster()
    try:
        own = cluster.server()
        try:
            # What making it has left to be written.
            os.sync()
            yield own.url
        finally:
            own.stop(signal.SIGQUIT)
    finally:
        cluster.close()


def _in_memory(directory: str) -> bool:
    """Whether a directory lies on a file system without a disk; only Linux says so."""
    with contextlib.suppress(OSError):
        here = os.path.realpath(directory)
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
        inside = [(point, kind) for point, kind in mounts if _lies_in(here, point)]
        return max(inside, key=lambda mount: len(mount[0]))[1] in {"tmpfs", "ramfs"}
    return False


def _lies_in(path: str, point: str) -> bool:
    return os.path.commonpath([path, point]) == point
