"""The blocking facade on a file: scripts, threads, your own sessions, and a fork."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from alkstore_core import DatabaseError, QueueOpts
from alkstore_core.overview import overview
from alkstore_core.sync import SyncStore
from alkstore_core.sync.transactions import SyncTransaction
from alkstore_sqlite import SqliteStore, prepare_engine


@pytest.fixture
def store(path):
    """An open store whose calls block."""
    with SyncStore(SqliteStore(path)) as store:
        yield store


@pytest.fixture
def engine(path, store):  # the store makes the file
    """A blocking SQLAlchemy engine on the store's file, with a table of its own."""
    engine = prepare_engine(create_engine(f"sqlite:///{path}"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (item TEXT)"))
    yield engine
    engine.dispose()


def test_jobs_go_round(store):
    """What a script enqueues it can claim and acknowledge, and the file has it meanwhile."""
    queue = store.queue("mails")
    queue.enqueue({"to": "ada"})
    handle = queue.claim_one("w")

    assert {"to": "ada"} == handle.job.payload_as(dict)
    assert handle.ack()
    assert not handle.ack()
    assert [] == queue.jobs()


def test_threads_of_a_server_share_a_store(store):
    """Requests in many threads enqueue and begin transactions at the same time."""

    def request(n):
        if n % 2:
            store.queue("q").enqueue(n)
        else:
            with store.transaction() as tx:
                tx.enqueue_tx("q", n)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(request, range(60)))

    assert list(range(60)) == sorted(j.payload_as(int) for j in store.queue("q").jobs())


def test_rows_ride_in_the_facades_transaction(store, engine):
    """`tx.call` reaches the connection: your row and the job commit together, or not at all."""
    insert = text("INSERT INTO orders VALUES (:item)")

    def place(item):
        with store.transaction() as tx:
            tx.call(lambda tx: tx.connection.execute(insert, {"item": item}))
            tx.enqueue_tx("mails", item)
            if item == "lost":
                raise ValueError

    place("tea")
    with pytest.raises(ValueError):  # noqa: PT011 - our own
        place("lost")

    with engine.connect() as connection:
        assert ["tea"] == list(connection.execute(text("SELECT item FROM orders")).scalars())
    assert ["tea"] == [job.payload_as(str) for job in store.queue("mails").jobs()]


def test_your_own_session_is_joined(store, engine):
    """A blocking session carries the store's calls, and wakes a blocking receiver."""
    with store.queue("mails").wakes() as wakes:
        with Session(engine) as session, session.begin():
            session.execute(text("INSERT INTO orders VALUES ('tea')"))
            store.join(session).enqueue_tx("mails", {"item": "tea"})
        assert "mails" == wakes.recv(timeout=10).channel

    with Session(engine) as session:
        session.begin()
        store.join(session).enqueue_tx("mails", {"item": "lost"})
        session.rollback()
    assert 1 == store.queue("mails").stats().ready


def test_a_transaction_and_a_write_beside_it_in_one_thread(store):
    """The file has one writer: the thread hears it at once, not after the busy timeout."""
    with store.transaction(), pytest.raises(DatabaseError, match="this thread holds"):
        store.queue("q").enqueue(1)


def test_an_interrupted_block_is_over(path, store):
    """Interrupted on the way into its end, with the handle still there: the file is free."""
    tx = None

    def trace(frame, event, _):
        if event == "call" and frame.f_code is SyncTransaction.__exit__.__code__:
            sys.settrace(before)
            raise KeyboardInterrupt

    before = sys.gettrace()
    try:
        with store.transaction() as tx:
            tx.enqueue_tx("q", 1)
            sys.settrace(trace)
    except KeyboardInterrupt:
        pass

    store.queue("q").enqueue(2)
    with SyncStore(SqliteStore(path)) as other:
        other.queue("q").enqueue(3)
    with pytest.raises(DatabaseError, match="this transaction was"):
        tx.commit()
    assert [2, 3] == [job.payload_as(int) for job in store.queue("q").jobs()]


def test_asynchronous_functions_run_on_its_loop(store):
    """What takes an asynchronous store is called by `call`."""
    store.queue("q").enqueue(1)

    assert ["q"] == [queue.name for queue in store.call(overview, store.wrapped).queues]


def test_another_store_wakes(path, store):
    """An event that another store on the file publishes ends the wait of a blocking loop."""
    with SyncStore(SqliteStore(path)) as other, store.stream("s").subscribe("me") as events:
        threading.Timer(0.05, other.stream("s").publish, ("tea",)).start()
        assert "tea" == events.recv(timeout=10).payload_as(str)


def test_a_close_leaves_no_thread(path):
    """Neither the loop's nor the engine's threads outlive the store."""
    before = set(threading.enumerate())
    with SyncStore(SqliteStore(path)) as store:
        store.with_tx(lambda tx: tx.enqueue_tx("q", 1))
        store.listen("c")

    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(5)
    assert [] == [thread.name for thread in left if thread.is_alive()]


async def test_a_forked_child_is_refused_and_the_parent_works_on(path, spawn, integrity):
    """A server that forks after the store was opened gets an error in each worker."""
    child = spawn("sync_forker.py", path)
    refusal = await child.expect("child")

    assert "before the process forked" in refusal
    assert "2" == await child.expect("parent")
    assert [] == await child.succeed()
    assert "ok" == integrity()


async def test_a_store_opened_after_the_fork_works(path, spawn, integrity):
    """A server that forks first, and opens in each worker, has workers that work together."""
    child = spawn("sync_forker.py", path, "late")

    assert {"opened"} == {await child.expect("child") for _ in range(3)}
    assert "4" == await child.expect("parent")
    assert [] == await child.succeed()
    assert "ok" == integrity()


def test_a_queues_handle_rides_in_your_own_transaction(store, engine):
    """With its options; the asynchronous one inside does as well."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=7))
    with Session(engine) as session:
        tx = store.join(session)
        ids = [tx.enqueue_tx(queue, 1), *tx.enqueue_many_tx(queue.wrapped, [2])]
        session.commit()

    assert [7, 7] == [queue.get_job(number).visibility_timeout_s for number in ids]
