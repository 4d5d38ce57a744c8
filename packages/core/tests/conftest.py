"""A store over dicts whose time stands still."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from dict_engine import DictEngine

from alkstore_core import ManualClock, StopToken, Store
from alkstore_core.sync import SyncStore
from alkstore_core.worker import Worker


@pytest.fixture
def clock():
    """Time that moves by hand, from 1,000."""
    return ManualClock(start=1_000)


@pytest.fixture
def engine(clock):
    """An engine with one writer."""
    return DictEngine(clock)


@pytest.fixture
async def store(engine):
    """An open store."""
    async with Store(engine) as opened:
        yield opened
        # What a failed test still holds would hold `close` for ever.
        engine.gates.clear()
        for gate in engine.held:
            gate.open()


@pytest.fixture
def blocking(engine):
    """An open store whose calls block."""
    with SyncStore(Store(engine)) as opened:
        yield opened
        engine.gates.clear()
        if opened.is_open:
            opened.call(_open_all, engine.held)


@pytest.fixture
def interrupt():
    """Interrupt the main thread, as Ctrl-C does; returns once that has noticed."""
    noticed = threading.Event()

    def handle(*_):
        if not noticed.is_set():
            noticed.set()
            raise KeyboardInterrupt

    # Also where a shell has begun the tests with the signal ignored.
    before = signal.signal(signal.SIGINT, handle)

    def send():
        noticed.clear()
        # Python notices one that came just before a wait only after the wait: so, again.
        for _ in range(50):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if noticed.wait(0.2):
                return
        raise AssertionError("nobody noticed the signal")

    yield send
    signal.signal(signal.SIGINT, before)


async def _open_all(gates):
    for gate in gates:
        gate.open()


class Running:
    """A worker, a consumer or another runner under way."""

    def __init__(self, worker):
        self.worker = worker
        self.stop = StopToken()
        self.abort = StopToken()
        self.task = asyncio.create_task(worker.run(self.stop, abort=self.abort))

    async def end(self):
        """Stop and wait."""
        self.stop.stop()
        return await self.task


@pytest.fixture
async def runs():
    """Start a runner; it ends with the test."""
    started = []

    def start(worker):
        started.append(Running(worker))
        return started[-1]

    yield start
    for running in started:
        running.stop.stop()
        running.abort.stop()
    await asyncio.gather(*(running.task for running in started), return_exceptions=True)


@pytest.fixture
def work(store, runs):
    """Start a worker on queue `q`; it ends with the test."""
    return lambda handler, **options: runs(Worker(store, "q", handler, **options))
