"""What ends something is done once it was asked for, whatever interrupts it, and when."""

import subprocess
import sys
import threading

import pytest
from interrupting import in_thread, interrupt_twice_at, opened

from alkstore_core import DatabaseError
from alkstore_core.sync import SyncLock, SyncTxHandle
from alkstore_core.sync.receivers import SyncReceiver
from alkstore_core.sync.transactions import SyncTransaction


@pytest.fixture
def busy(blocking, interrupt):
    """Keep the loop from beginning anything, until the main thread has been interrupted."""
    threads = []

    def begin(ends):
        taken, asked = threading.Event(), threading.Event()

        async def block():
            taken.set()
            asked.wait(10)
            interrupt()

        def trace(frame, event, _):
            # The main thread has come to the wait for its ending.
            if event == "call" and frame.f_code is ends.__code__:
                sys.setprofile(None)
                asked.set()

        threads.append(in_thread(blocking.call, block))
        assert taken.wait(10)
        sys.setprofile(trace)

    yield begin
    sys.setprofile(None)
    for thread in threads:
        thread.join(10)


def at_entry(function):
    """Interrupt the next call of a function before it has done anything."""

    def trace(frame, event, _):
        if event == "call" and frame.f_code is function.__code__:
            sys.settrace(None)
            raise KeyboardInterrupt

    sys.settrace(trace)


@pytest.fixture(autouse=True)
def untraced():
    """Let no other test be traced; coverage's own tracer goes on."""
    before = sys.gettrace()
    yield
    sys.settrace(before)


def assert_over(engine, blocking, tx):
    """Nothing of the block is there, nothing can come of it, and writes go at once."""
    assert {} == engine.data.jobs
    blocking.queue("next").enqueue(1)
    with pytest.raises(DatabaseError, match="this transaction was"):
        tx.commit()
    assert 1 == len(engine.data.jobs)
    assert set() == engine.open_transactions


@pytest.mark.parametrize("begin", ["transaction", "begin_tx"])
def test_a_block_whose_end_finds_the_loop_busy(engine, blocking, busy, begin):
    """An interruption before the end has begun on the loop rolls back all the same."""
    with pytest.raises(KeyboardInterrupt), getattr(blocking, begin)() as tx:  # noqa: PT012
        tx.enqueue_tx("q", 1)
        busy((SyncTransaction if begin == "transaction" else SyncTxHandle).__exit__)

    assert_over(engine, blocking, tx)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_end_by_hand_that_finds_the_loop_busy(engine, blocking, busy, end):
    """So it is with a `commit` that has not begun, and with a `rollback`."""
    tx = blocking.begin_tx()
    tx.enqueue_tx("q", 1)
    busy(getattr(SyncTxHandle, end))
    with pytest.raises(KeyboardInterrupt):
        getattr(tx, end)()

    assert_over(engine, blocking, tx)


def test_a_receiver_closes_on_a_busy_loop(blocking, busy):
    """A receiver whose close was interrupted has ended."""
    with pytest.raises(KeyboardInterrupt), blocking.listen("c") as wakes:
        busy(SyncReceiver.close)

    assert wakes.recv(timeout=1) is None


def test_a_lock_is_released_on_a_busy_loop(blocking, busy):
    """A lock whose block was left is free."""
    with pytest.raises(KeyboardInterrupt), blocking.try_lock("l", "me", 60):
        busy(SyncLock.__exit__)

    assert blocking.try_lock("l", "somebody else", 60)


@pytest.mark.parametrize("begin", ["transaction", "begin_tx"])
def test_an_interruption_on_the_way_into_the_end(engine, blocking, begin):
    """Before `__exit__` could catch anything: the block is over once the exception is."""
    tx = None
    try:
        with getattr(blocking, begin)() as tx:
            tx.enqueue_tx("q", 1)
            at_entry((SyncTransaction if begin == "transaction" else SyncTxHandle).__exit__)
    except KeyboardInterrupt:
        pass
    else:
        pytest.fail("not interrupted")

    assert_over(engine, blocking, tx)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_interruption_on_the_way_to_the_loop(engine, blocking, monkeypatch, end):
    """Before the loop was told anything the end is asked for once more."""
    reach, first = blocking._bridge._reach, []

    def interrupted_once():
        if not first:
            first.append(True)
            raise KeyboardInterrupt
        return reach()

    tx = blocking.begin_tx()
    tx.enqueue_tx("q", 1)
    monkeypatch.setattr(blocking._bridge, "_reach", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        getattr(tx, end)()

    assert_over(engine, blocking, tx)


def test_after_two_interruptions_the_thread_waits_its_turn(engine, blocking, interrupt):
    """What an impatient thread has left to end is not its own any more: its next write waits."""
    gate = engine.hold("before", "commit")
    thread = interrupt_twice_at(blocking, gate, interrupt)
    with pytest.raises(KeyboardInterrupt), blocking.transaction() as tx:
        tx.enqueue_tx("q", "first")
    thread.join(10)

    engine.gates.clear()
    opener = threading.Timer(0.05, blocking.call, (opened, gate))
    opener.start()
    blocking.queue("q").enqueue("second")
    opener.join(10)
    assert ["first", "second"] == [j.payload_as(str) for j in blocking.queue("q").jobs()]


STORM = """
import random, signal, threading, time
from dict_engine import DictEngine
from alkstore_core import DatabaseError, ManualClock, Store
from alkstore_core.sync import SyncStore

main, armed, over = threading.main_thread().ident, False, False

def handle(*_):
    if armed:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, handle)

def shoot():
    while not over:
        time.sleep(random.random() * 0.002)
        if armed:
            signal.pthread_kill(main, signal.SIGINT)

store = SyncStore(Store(DictEngine(ManualClock())))
store.open()
threading.Thread(target=shoot, daemon=True).start()
interrupted = 0
for n in range(600):
    tx, committed = None, False
    try:
        armed = True
        if n % 2:
            with store.transaction() as tx:
                tx.enqueue_many_tx("q", [n, n])
                if n % 3 == 0:
                    raise ValueError
        else:
            with store.begin_tx() as tx:
                tx.enqueue_many_tx("q", [n, n])
                if n % 3:
                    tx.commit()
        armed = False
    except KeyboardInterrupt:
        armed = False
        interrupted += 1
    except ValueError:
        armed = False
    store.queue("next").enqueue(n)
    if tx is not None:
        before = store.queue("q").stats().ready
        try:
            tx.commit()
        except DatabaseError:
            pass
        else:
            raise SystemExit(f"{n}: a late commit")
        assert before == store.queue("q").stats().ready, n
over = True
found = [job.payload_as(int) for job in store.queue("q").jobs(limit=5000)]
assert all(found.count(n) == 2 and n % 3 for n in found), found
assert len(store.queue("next").jobs(limit=5000)) == 600
store.close()
print("interrupted", interrupted > 20)
"""


def test_a_storm_of_interruptions():
    """Whenever they come: blocks are whole or absent, aborted ones absent, writes go at once."""
    run = subprocess.run(
        [sys.executable, "-c", STORM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": __file__.rpartition("/")[0]},
    )
    assert ("interrupted True\n", "", 0) == (run.stdout, run.stderr, run.returncode)
