"""A detector of blocking calls: the library never asks SQLite, nor sleeps, on an event loop.

It does not measure time, which says nothing on a busy machine. It looks who calls: a call into
`sqlite3`, or `time.sleep`, made by a module of ours in a thread whose event loop is running, is
an offence. A test's own calls are none, nor are those of the blocking kinds of joined
transactions, which are the caller's choice.
"""

import asyncio
import sqlite3
import sys
import time
import traceback

import pytest

OTHERS = ("aiosqlite", "sqlalchemy", "sqlite3", "contextlib", "threading")
BLOCKING_KINDS = {("alkstore_sqlite.prepare", "_begin_immediate")}


def _blame(frame):
    """The nearest frame outside drivers; blocking kinds of transactions are blamed on nobody."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in OTHERS and module != __name__:
            return frame
        frame = frame.f_back
    return None


class Detector:
    """Collects offences."""

    def __init__(self) -> None:
        self.offences = []

    def look(self, call) -> None:
        """Note `call` when a module of ours makes it while this thread's loop runs."""
        if asyncio._get_running_loop() is None:
            return
        frame = _blame(sys._getframe(1))
        if frame is None:
            return
        module = frame.f_globals.get("__name__", "")
        if module.startswith("alkstore_") and not self._chosen(module, frame):
            where = "".join(traceback.format_stack(frame, limit=4))
            self.offences.append(f"{call} on the event loop:\n{where}")

    @staticmethod
    def _chosen(module, frame) -> bool:
        if (module, frame.f_code.co_name) not in BLOCKING_KINDS:
            return False
        return not frame.f_locals["connection"].dialect.is_async


def _watched(detector):
    class Cursor(sqlite3.Cursor):
        pass

    class Connection(sqlite3.Connection):
        def cursor(self, factory=Cursor):
            return super().cursor(factory)

    def watch(owner, base, name):
        plain = getattr(base, name)

        def call(self, *args, **kwargs):
            detector.look(f"{base.__name__}.{name}")
            return plain(self, *args, **kwargs)

        setattr(owner, name, call)

    for name in ("execute", "executemany", "executescript", "commit", "rollback", "close"):
        watch(Connection, sqlite3.Connection, name)
    for name in ("execute", "executemany", "executescript", "fetchone", "fetchmany", "fetchall"):
        watch(Cursor, sqlite3.Cursor, name)
    return Connection


@pytest.fixture(autouse=True)
def blocking_calls(monkeypatch):
    """Every test fails in which the library blocked an event loop."""
    detector = Detector()
    factory = _watched(detector)
    connect, sleep = sqlite3.connect, time.sleep

    def watched_connect(*args, **kwargs):
        detector.look("sqlite3.connect")
        kwargs.setdefault("factory", factory)
        return connect(*args, **kwargs)

    def watched_sleep(seconds):
        detector.look("time.sleep")
        sleep(seconds)

    monkeypatch.setattr(sqlite3, "connect", watched_connect)
    monkeypatch.setattr(time, "sleep", watched_sleep)
    yield detector.offences
    if detector.offences:
        pytest.fail("\n".join(detector.offences[:3]), pytrace=False)
