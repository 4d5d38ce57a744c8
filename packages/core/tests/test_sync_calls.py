"""A blocking call: whose thread, whose context, whose errors, and what an interruption does."""

import asyncio
import contextvars
import sys
import threading
import time
import traceback

import pytest
from dict_engine import DictEngine
from interrupting import in_thread, interrupt_at, interrupt_twice_at, opened

from alkstore_core import AlkstoreError, CodecError, DatabaseError, ManualClock, QueueOpts, Store
from alkstore_core.sync import SyncStore, calls


def outcome(function, *args):
    """What a function returns, or the error it raises."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error


def elsewhere(function, *args):
    """What a function does in another thread: its value or its error."""
    outcomes = []
    in_thread(lambda: outcomes.append(outcome(function, *args))).join(10)
    assert outcomes, "it hangs"
    return outcomes[0]


# -- threads and loops --------------------------------------------------------------------


def test_several_threads_call_at_once(engine, blocking):
    """Calls of several threads are under way at the same time."""
    gate = engine.hold("before", "insert_jobs")
    threads = [in_thread(blocking.queue("q").enqueue, n) for n in range(4)]
    deadline = time.monotonic() + 10
    while engine.calls.count("insert_jobs") < 4 and time.monotonic() < deadline:
        time.sleep(0.001)

    blocking.call(opened, gate)
    for thread in threads:
        thread.join(10)

    assert [0, 1, 2, 3] == sorted(job.payload_as(int) for job in blocking.queue("q").jobs())


async def test_a_thread_in_which_a_loop_runs_may_call(engine):
    """A notebook, whose loop runs in the calling thread, is served like everybody."""
    with SyncStore(Store(engine)) as store:
        assert 1 == store.queue("q").enqueue("tea")
        assert "tea" == store.queue("q").claim_one("w").job.payload_as(str)


def test_a_call_on_the_stores_own_loop_is_refused(blocking):
    """It would wait for itself for ever, so it is an error that says so."""

    async def on_the_loop():
        blocking.queue("q").enqueue("tea")

    with pytest.raises(DatabaseError, match="would wait for itself for ever"):
        blocking.call(on_the_loop)


def test_calls_see_the_callers_context(blocking):
    """Context variables that the caller has set are seen by what runs for it."""
    variable = contextvars.ContextVar("variable")

    async def see():
        return variable.get()

    variable.set("mine")

    assert "mine" == blocking.call(see)


def test_payloads_are_iterated_in_the_callers_thread(blocking):
    """A generator runs where it was made: it may block, and may itself call the store."""
    seen = []

    def payloads():
        for n in (1, 2):
            seen.append(threading.current_thread())
            yield {"n": n, "queues": blocking.queues()}

    assert 2 == len(blocking.queue("q").enqueue_many(payloads()))
    assert 2 == len(blocking.stream("s").publish_many(payloads()))
    with blocking.transaction() as tx:
        tx.enqueue_many_tx("q", payloads())
        tx.publish_many_tx("s", payloads())

    assert {threading.current_thread()} == set(seen)


@pytest.mark.parametrize("given", [None, 5, "text", b"bytes", {"a": 1}])
def test_what_is_no_collection_is_refused_as_elsewhere(blocking, given):
    """A bulk call that is given one thing raises what the asynchronous one raises."""
    with pytest.raises(DatabaseError, match="payloads must be a sequence"):
        blocking.queue("q").enqueue_many(given)


# -- errors -------------------------------------------------------------------------------


def test_errors_keep_their_type_and_show_both_sides(blocking):
    """An error is the one the store raised, and its traceback leads from the caller to it."""
    with pytest.raises(CodecError, match="not finite") as caught:
        blocking.queue("q").enqueue(float("nan"))

    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert [test_errors_keep_their_type_and_show_both_sides.__name__, "enqueue"] == names[:2]
    assert "encode_payload" in names


def test_the_cause_of_an_error_is_kept(engine, blocking):
    """What the driver said is the error's cause."""
    detail = OSError("disk full")
    error = DatabaseError("the database refused")
    error.__cause__ = detail
    engine.faults["insert_jobs"].append(error)

    with pytest.raises(DatabaseError) as caught:
        blocking.queue("q").enqueue(1)

    assert error is caught.value
    assert detail is caught.value.__cause__


def test_bad_names_raise_at_once(blocking):
    """A name that is not legal is refused where the handle is made."""
    for make in (blocking.queue, blocking.stream, blocking.outbox):
        with pytest.raises(AlkstoreError):
            make("")


def test_what_would_end_a_loop_ends_the_call_alone(blocking):
    """`SystemExit` in an async function is the caller's; the loop serves on."""

    async def leave():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        blocking.call(leave)

    assert [] == blocking.queues()


def test_what_ends_a_loop_from_a_task_of_its_own_ends_nobody_elses_call(blocking, caplog):
    """On asyncio a task may end its loop by `SystemExit`; calls are served all the same."""

    async def leave():
        raise SystemExit(3)

    async def start():
        return asyncio.get_running_loop().create_task(leave())

    task = blocking.call(start)
    assert [] == blocking.queues()
    assert "was ended" in caplog.text
    assert isinstance(task.exception(), SystemExit)


def test_a_cancellation_that_a_function_raises_is_its_own(blocking):
    """`CancelledError` out of an async function is raised as it is: nobody closed the store."""

    async def give_up(*_):
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        blocking.call(give_up)
    with blocking.begin_tx() as tx, pytest.raises(asyncio.CancelledError):
        tx.call(give_up)

    assert [] == blocking.queues()


# -- interruptions ------------------------------------------------------------------------


def test_an_interrupted_claim_strands_no_job(engine, blocking, interrupt):
    """The job that the database has handed out already is ready again, attempt restored."""
    blocking.queue("q").enqueue("tea")
    gate = engine.hold("after", "claim")
    thread = interrupt_at(blocking, gate, interrupt)

    with pytest.raises(KeyboardInterrupt):
        blocking.queue("q").claim_one("w")

    thread.join(10)
    engine.gates.clear()
    assert 1 == blocking.queue("q").claim_one("w").job.attempts


def test_an_interrupted_write_is_whole_or_absent(engine, blocking, interrupt):
    """What had not reached the database is not there, and nothing of it goes on."""
    gate = engine.hold("before", "insert_jobs")
    thread = interrupt_at(blocking, gate, interrupt, opens=False)

    with pytest.raises(KeyboardInterrupt):
        blocking.queue("q").enqueue("tea")

    thread.join(10)
    engine.gates.clear()
    blocking.call(opened, gate)
    assert [] == blocking.queue("q").jobs()


def test_an_interrupted_commit_has_ended_when_the_interruption_is_raised(
    engine, blocking, interrupt
):
    """A commit that has begun is not left half way."""
    gate = engine.hold("before", "commit")
    thread = interrupt_at(blocking, gate, interrupt)

    with pytest.raises(KeyboardInterrupt), blocking.transaction() as tx:
        tx.enqueue_tx("q", "tea")

    assert 1 == len(engine.data.jobs)
    assert set() == engine.open_transactions
    thread.join(10)


def test_a_second_interruption_does_not_wait(engine, blocking, interrupt, caplog):
    """Whoever interrupts twice gets out of a commit that does not end."""
    gate = engine.hold("before", "commit")
    thread = interrupt_twice_at(blocking, gate, interrupt)
    with pytest.raises(KeyboardInterrupt), blocking.transaction() as tx:
        tx.enqueue_tx("q", "tea")

    thread.join(10)
    assert {} == engine.data.jobs
    assert [] == [record for record in caplog.records if record.name == "asyncio"]


def test_an_interrupted_wait_for_a_wake_ends_at_once(blocking, interrupt):
    """Ctrl-C ends a script that waits, and the receiver goes on where it was."""
    with blocking.listen("c") as wakes:
        timer = threading.Timer(0.05, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            wakes.recv()
        timer.join()

        blocking.notify("c")
        assert "c" == wakes.recv(timeout=10).channel


class LateLock:
    """A lock whose waiting thread is interrupted just when it has got what it waited for."""

    late = False

    def __init__(self):
        self._lock = threading.Lock()

    def acquire(self):
        self._lock.acquire()
        if LateLock.late and not self._fresh():
            LateLock.late = False
            raise KeyboardInterrupt

    def release(self):
        self._lock.release()

    def _fresh(self):
        """Whether this is the constructor's own acquisition."""
        fresh = not hasattr(self, "_held")
        self._held = True
        return fresh


@pytest.fixture
def late(monkeypatch):
    """From the call on, the next result comes together with an interruption."""
    monkeypatch.setattr(calls, "Lock", LateLock)
    monkeypatch.setattr(LateLock, "late", False)

    def arm():
        LateLock.late = True

    return arm


def test_a_claim_that_nobody_got_to_see_is_given_back(blocking, late):
    """The handle of a claim that ended in the moment of the interruption strands no job."""
    blocking.queue("q").enqueue("tea")
    late()

    with pytest.raises(KeyboardInterrupt):
        blocking.queue("q").claim_one("w")

    assert 1 == blocking.queue("q").claim_one("w").job.attempts


def test_a_lock_that_nobody_got_to_see_is_released(blocking, late):
    """So it is with a lock."""
    late()

    with pytest.raises(KeyboardInterrupt):
        blocking.try_lock("l", "me", 60)

    assert blocking.try_lock("l", "somebody else", 60)


@pytest.mark.parametrize("begin", ["begin_tx", "transaction"])
def test_a_transaction_that_nobody_got_to_see_is_rolled_back(engine, blocking, late, begin):
    """And with a transaction: the next one begins at once."""
    late()

    with pytest.raises(KeyboardInterrupt), getattr(blocking, begin)():
        raise AssertionError("never entered")

    assert set() == engine.open_transactions
    blocking.queue("q").enqueue("tea")


def test_a_receiver_that_nobody_got_to_see_has_ended(engine, blocking, late):
    """And with a receiver."""
    late()

    with pytest.raises(KeyboardInterrupt):
        blocking.listen("c")

    assert [] == list(engine.signals.topics)


@pytest.mark.parametrize(
    "take",
    [
        lambda store: store.queue("q").claim_one("w"),
        lambda store: store.queue("q").claim_batch("w", 2)[1],
        lambda store: store.queue("q").wakes(),
        lambda store: store.stream("s").subscribe("me"),
        lambda store: store.listen("c"),
        lambda store: store.try_lock("l", "me", 60),
        lambda store: store.begin_tx(),
        lambda store: ((block := store.transaction()), block.__enter__()),
    ],
    ids=["job", "jobs", "queue", "stream", "channel", "lock", "transaction", "block"],
)
def test_nothing_is_called_between_an_answer_and_the_caller(blocking, take):
    """CPython raises an interruption after a call: there is none in which an answer is lost."""
    blocking.queue("q").enqueue_many(["tea", "milk"])
    answered, called = [], []

    def look(frame, event, function):
        if answered and event in {"call", "c_call"}:
            # What the collector calls bears no interruption.
            called.extend(
                [function or frame.f_code] * ("alkstore_core" in frame.f_code.co_filename)
            )
        elif event == "c_return" and frame.f_code is calls.Call.make.__code__:
            answered.extend([function] * (function.__name__ == "acquire"))

    sys.setprofile(look)
    taken = take(blocking)
    sys.setprofile(None)

    assert taken is not None
    assert answered
    assert [] == called


def test_an_event_that_nobody_got_to_see_is_the_next_one(blocking, late):
    """An event that came in the moment of the interruption is neither lost nor saved."""
    stream = blocking.stream("s")
    stream.publish_many([1, 2])
    with stream.subscribe("me") as events:
        late()
        with pytest.raises(KeyboardInterrupt):
            events.recv()
        events.save_offset()
        assert 0 == stream.get_offset("me")

        assert [1, 2] == [events.recv().payload_as(int) for _ in range(2)]


# -- whose transaction --------------------------------------------------------------------


def test_a_write_beside_the_threads_own_transaction_is_refused_at_once(blocking):
    """A thread would wait for itself, so it hears which method to use."""
    with blocking.transaction() as tx:
        with pytest.raises(DatabaseError, match=r"this thread holds .* use enqueue_tx\(\)"):
            blocking.queue("q").enqueue("tea")
        with pytest.raises(DatabaseError, match="begin it in another thread"):
            blocking.begin_tx()
        tx.enqueue_tx("q", "tea")

    assert 1 == blocking.queue("q").stats().ready


def test_other_threads_wait_their_turn(blocking):
    """Another thread's write waits for the transaction's end."""
    with blocking.transaction() as tx:
        thread = in_thread(blocking.queue("q").enqueue, "second")
        tx.enqueue_tx("q", "first")
    thread.join(10)

    assert ["first", "second"] == [j.payload_as(str) for j in blocking.queue("q").jobs()]


def test_whoever_waits_in_vain_hears_which_thread_holds():
    """The error after `busy_timeout` names the thread with the open transaction."""
    engine = DictEngine(ManualClock(), busy_timeout=0.01)
    with SyncStore(Store(engine)) as store, store.begin_tx():
        error = elsewhere(store.queue("q").enqueue, "tea")

    assert "thread 'MainThread' has held a transaction" in str(error)


def test_two_threads_each_with_a_transaction(blocking):
    """Transactions of two threads go one after the other."""

    def place(name):
        with blocking.transaction() as tx:
            tx.enqueue_tx("q", name)
        return True

    with blocking.transaction() as tx:
        thread = in_thread(place, "second")
        tx.enqueue_tx("q", "first")
    thread.join(10)

    assert 2 == blocking.queue("q").stats().ready


def test_leaving_a_locks_block_inside_a_transaction_is_refused(blocking):
    """As for tasks: the release would wait for the transaction around it."""
    lock = blocking.try_lock("l", "me", 60)
    with blocking.transaction(), pytest.raises(DatabaseError, match="leaving the lock's block"):
        lock.__exit__(None, None, None)
    assert lock.release()


def test_options_are_stamped(blocking):
    """A queue's options are those of its jobs."""
    queue = blocking.queue("q", QueueOpts(visibility_timeout_s=7))
    assert 7 == queue.get_job(queue.enqueue("tea")).visibility_timeout_s
