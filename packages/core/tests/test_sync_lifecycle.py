"""A blocking store's life: opened, closed, forgotten, forked, lost."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path

import pytest
from dict_engine import DictEngine

from alkstore_core import Closed, DatabaseError, ManualClock, Store
from alkstore_core.sync import SyncStore
from alkstore_core.sync.calls import Call
from alkstore_core.sync.portal import Portal

HERE = Path(__file__).parent


def threads():
    """How many event loops of blocking stores there are."""
    return sum(thread.name == "alkstore-sync" for thread in threading.enumerate())


def program(text, *, status=0, within=20):
    """What a program prints, run beside these tests in a process of its own."""
    head = f"""
    import os, signal, sys, threading, time
    sys.path.insert(0, {str(HERE)!r})
    from dict_engine import DictEngine
    from alkstore_core import ManualClock, Store
    from alkstore_core.sync import SyncStore

    class Engine(DictEngine):
        async def close(self):
            print("closed", flush=True)

    def make():
        return SyncStore(Store(Engine(ManualClock())))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
        check=False,
        capture_output=True,
        text=True,
        timeout=within,
    )
    assert status == done.returncode, done.stderr
    return done.stdout.split("\n")[:-1], done.stderr


def test_what_is_no_store_is_refused_at_once():
    """A URL, say, before a thread would stumble over it."""
    with pytest.raises(TypeError, match=r"such as that of open_store\(url\), not a str"):
        SyncStore("sqlite:///app.db")


def test_the_loop_lives_as_long_as_a_store_is_open(engine):
    """Stores share one thread, which ends with the last of them."""
    before = threads()
    other = SyncStore(Store(DictEngine(ManualClock())))
    with SyncStore(Store(engine)):
        other.open()
        assert before + 1 == threads()
    assert before + 1 == threads()
    other.close()
    assert before == threads()


def test_before_open_and_after_close_calls_are_refused(engine):
    """The error says what to do."""
    store = SyncStore(Store(engine))
    queue = store.queue("q")
    with pytest.raises(Closed, match="use `with store` or call open"):
        queue.enqueue(1)
    assert not store.is_open
    with store:
        assert store.is_open
        queue.enqueue(1)
    with pytest.raises(Closed, match="is closed"):
        queue.enqueue(1)
    with pytest.raises(Closed):
        store.open()
    assert not store.is_open


def test_open_and_close_are_idempotent(engine):
    """Twice is as good as once."""
    store = SyncStore(Store(engine))
    store.open()
    store.open()
    store.close()
    store.close()

    assert ["open", "close"] == engine.calls


def test_closing_what_was_never_opened_closes_it(engine):
    """It cannot be opened any more, as the asynchronous store."""
    store = SyncStore(Store(engine))
    store.close()

    with pytest.raises(Closed):
        store.open()


def test_a_failed_open_can_be_repeated(engine):
    """After an error nothing is left running, and the next try may succeed."""
    before = threads()
    engine.faults["open"].append(DatabaseError("away"))
    store = SyncStore(Store(engine))
    with pytest.raises(DatabaseError, match="away"):
        store.open()
    assert before == threads()

    with store:
        store.queue("q").enqueue(1)


def test_several_threads_may_open_and_close_one_store(engine):
    """Whoever comes second waits for the same end, and no thread is left over."""
    before = threads()
    store = SyncStore(Store(engine))
    for call in (store.open, store.close):
        together = [threading.Thread(target=call) for _ in range(5)]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join(10)

    assert ["open", "close"] == engine.calls
    assert before == threads()


def test_closing_ends_calls_of_other_threads(engine):
    """A call under way in another thread gets an error, not an endless wait."""
    store = SyncStore(Store(engine))
    store.open()
    gate = engine.hold("before", "list_schedules")
    errors = []

    def ask():
        try:
            store.schedules()
        except Closed as error:
            errors.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    store.call(gate.reached.wait)
    store.close()
    thread.join(10)

    assert ["the store was closed during this call, which was cancelled by that"] == errors


def test_a_lost_store_is_closed_and_complained_about(engine):
    """Python warns of it as of a file that nobody closed."""
    before = threads()
    store = SyncStore(Store(engine))
    store.open()
    with pytest.warns(ResourceWarning, match="a Store was lost while it was open"):
        del store

    deadline = time.monotonic() + 10
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert before == threads()
    assert "close" == engine.calls[-1]


def test_what_was_spawned_is_not_collected_midway():
    """The close of a lost store waits for what nobody else holds, and ends all the same."""
    portal = Portal()
    waited, ended = [], threading.Event()

    async def close():
        answer = asyncio.get_running_loop().create_future()
        waited.append(weakref.ref(answer))
        await answer
        ended.set()

    async def collect():
        gc.collect()
        waited[0]().set_result(None)

    portal.spawn(close)
    portal.make(Call(collect))
    portal.end()
    assert ended.is_set()


def test_what_came_from_a_store_keeps_it(engine):
    """A queue is enough: the store is not lost while a handle of it is held."""
    queue = SyncStore(Store(engine)).queue("q")
    queue._bridge.open()
    gc.collect()

    assert 1 == queue.enqueue("tea")
    queue._bridge.close()


def test_a_program_that_forgets_to_close_closes_at_its_end():
    """The interpreter ends by itself, with its own status, and the store is closed before."""
    lines, stderr = program(
        """
        store = make()
        store.open()
        tx = store.begin_tx()
        wakes = store.listen("c")
        threading.Thread(target=wakes.recv, daemon=True).start()
        sys.exit(7)
        """,
        status=7,
    )
    assert ["closed"] == lines
    assert "" == stderr


def test_a_program_that_ends_by_an_error_ends():
    """An error that leaves everything open is the program's, with its traceback and status."""
    lines, stderr = program(
        """
        store = make()
        store.open()
        with store.transaction() as tx:
            raise ZeroDivisionError("the program's own")
        """,
        status=1,
    )
    assert ["closed"] == lines
    assert "ZeroDivisionError: the program's own" in stderr


def test_an_interrupted_program_ends():
    """SIGINT while a program waits: its block is left, the store closed, the status Python's."""
    lines, stderr = program(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with make() as store, store.listen("c") as wakes:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            wakes.recv()
        """,
        status=-2,
    )
    assert ["closed"] == lines
    assert "KeyboardInterrupt" in stderr


def test_a_fork_is_refused():
    """In a forked child every call is the store's own error at once; the parent works on."""
    lines, _ = program(
        """
        store = make()
        store.open()
        queue = store.queue("q")
        wakes = store.listen("c")
        child = os.fork()
        if not child:
            signal.alarm(10)
            for call in (
                lambda: queue.enqueue(1),
                store.open,
                store.close,
                store.begin_tx,
                lambda: wakes.recv(timeout=1),
            ):
                try:
                    call()
                except Exception as error:
                    print(type(error).__name__, "before the process forked" in str(error))
            sys.stdout.flush()
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        print("child", status)
        print("parent", queue.enqueue(1), flush=True)
        store.close()
        """
    )
    assert ["DatabaseError True"] * 5 + ["child 0", "parent 1", "closed"] == lines


def test_a_store_that_is_opened_after_the_fork_works():
    """What was only constructed before a fork can be opened in the child, beside the parent's."""
    lines, _ = program(
        """
        early, late = make(), make()
        early.open()
        child = os.fork()
        if not child:
            signal.alarm(10)
            with late:
                print("child", late.queue("q").enqueue(1), flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        print("status", status, "parent", early.queue("q").enqueue(1), flush=True)
        early.close()
        """
    )
    assert ["child 1", "closed", "status 0 parent 1", "closed"] == lines
