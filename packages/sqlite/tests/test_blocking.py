"""The detector of blocking calls sees what it is to see, and nothing else."""

import asyncio
import sqlite3
import time

import pytest

_connections = []


def _once(path):
    _connections.append(sqlite3.connect(path))
    return _connections[-1]


@pytest.fixture(autouse=True)
def _closing():
    yield
    while _connections:
        _connections.pop().close()


def in_the_library(path):
    """The calls, as if a module of ours made them."""
    source = """
def connect(path): kept.append(sqlite3.connect(path))
def execute(path): once(path).execute("SELECT 1")
def cursor(path): once(path).cursor().execute("SELECT 1")
def sleep(path): time.sleep(0)
"""
    module = {
        "__name__": "alkstore_pretended",
        "sqlite3": sqlite3,
        "time": time,
        "once": _once,
        "kept": _connections,
    }
    exec(source, module)
    return module


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("connect", "sqlite3.connect"),
        ("execute", "Connection.execute"),
        ("cursor", "Cursor.execute"),
        ("sleep", "time.sleep"),
    ],
)
async def test_a_blocking_call_of_ours_is_seen(path, blocking_calls, name, call):
    """What a module of ours does on a running loop is an offence, named with its place."""
    in_the_library(path)[name](path)

    [offence] = blocking_calls
    assert offence.startswith(f"{call} on the event loop")
    blocking_calls.clear()


async def test_a_call_in_another_thread_is_none(path, blocking_calls):
    """Threads without a loop may block."""

    def work() -> None:
        module = in_the_library(path)
        connection = sqlite3.connect(path)
        module["once"] = lambda _: connection
        for name in ("connect", "execute", "cursor", "sleep"):
            module[name](path)
        for opened in (connection, _connections.pop()):
            opened.close()

    await asyncio.to_thread(work)

    assert [] == blocking_calls


async def test_a_tests_own_call_is_none(path, blocking_calls):
    """What a test does on its loop is its own business."""
    _once(path).execute("SELECT 1").fetchall()
    time.sleep(0)  # noqa: ASYNC251 - allowed is the very point

    assert [] == blocking_calls
